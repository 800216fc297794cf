#include "idproxy/wire/patched_message.hpp"

#include <gtest/gtest.h>

#include <array>

#include "support/messages.hpp"

namespace idproxy::wire {
namespace patched_message_test {

std::string gathered(const PatchedMessage& patched, Bytes original, std::size_t position,
                     std::size_t slices) {
  std::string text;
  while (position < patched.size()) {
    std::vector<iovec> out(slices);
    const std::size_t count = patched.gather(original, position, out);
    EXPECT_GT(count, 0U);
    for (std::size_t i = 0; i < count; ++i) {
      text.append(static_cast<const char*>(out[i].iov_base), out[i].iov_len);
      position += out[i].iov_len;
    }
  }
  return text;
}

TEST(PatchedMessage, IsTheSameHoweverItIsTaken) {
  // Slices above and below the size that is copied.
  const std::string original = std::string(3000, 'a') + std::string(3000, 'b') + "short";
  PatchedMessage patched;
  patched.start(as_bytes(original));
  const std::size_t place = patched.add_i32();
  patched.keep(4, 3000);
  patched.add(as_bytes("[new]"));
  patched.keep(3000, 3000);
  patched.keep(3001, 6000);
  patched.add(as_bytes("[more]"));
  patched.keep(6000, original.size());
  patched.set_i32(place, 0x64636261);
  const std::string expected =
      "abcd" + std::string(2996, 'a') + "[new]" + std::string(2999, 'b') + "[more]short";
  ASSERT_EQ(patched.size(), expected.size());
  // The original may have moved in memory since.
  const std::string moved = original;
  for (const std::size_t slices : {1U, 2U, 64U}) {
    for (std::size_t position = 0; position < expected.size(); position += 7) {
      ASSERT_EQ(gathered(patched, as_bytes(moved), position, slices), expected.substr(position));
    }
  }
  Buffer copy;
  patched.copy(as_bytes(moved), 2998, copy);
  EXPECT_EQ(as_text(copy.view()), expected.substr(2998));
}

TEST(PatchedMessage, StartsAnewWithItsMemory) {
  PatchedMessage patched;
  patched.start(as_bytes("abc"));
  patched.keep(0, 3);
  patched.start(as_bytes("xyz"));
  patched.keep(1, 3);
  EXPECT_EQ(gathered(patched, as_bytes("xyz"), 0, 8), "yz");
}

}  // namespace patched_message_test
}  // namespace idproxy::wire
