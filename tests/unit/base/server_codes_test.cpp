#include "idproxy/base/server_codes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace idproxy {
namespace server_codes_test {

using Codes = std::vector<int>;

Codes codes_with(CodeTrait::Bit trait) {
  Codes codes;
  for (const ServerCode& each : kServerCodes) {
    const auto code = static_cast<int>(each.code);
    if (is(code, trait)) codes.push_back(code);
  }
  return codes;
}

TEST(ServerCodes, HasEachCodeOnceInOrder) {
  static_assert(
      std::ranges::is_sorted(kServerCodes, std::ranges::less_equal{},
                             [](const auto& each) { return static_cast<int>(each.code); }));
}

TEST(ServerCodes, SaysWhatEachMeans) {
  using Bit = CodeTrait::Bit;
  const Codes away = {6, 7, 89, 91, 134, 189, 262, 9001, 10058, 10107, 11600, 11602, 13435, 13436};
  EXPECT_EQ(codes_with(Bit::unavailable), away);
  Codes retryable = away;
  std::erase(retryable, 10058);
  EXPECT_EQ(codes_with(Bit::retryable), retryable);
  Codes transient = {1,   8,   24,  43,  46,  50,  63,  64,  112,   117,   136,   150,
                     175, 202, 215, 225, 237, 246, 251, 276, 11000, 11601, 13388, 14031};
  transient.insert(transient.end(), away.begin(), away.end());
  std::ranges::sort(transient);
  EXPECT_EQ(codes_with(Bit::transient), transient);
  EXPECT_EQ(codes_with(Bit::not_primary), (Codes{10107, 13435}));
  EXPECT_EQ(codes_with(Bit::cursor_lost), (Codes{43, 175, 237, 11601, 11602}));
  EXPECT_EQ(codes_with(Bit::not_known), (Codes{9, 72, 115, 238, 303, 40415}));
  EXPECT_EQ(codes_with(Bit::rejects_field), (Codes{2, 9, 14, 72, 323, 40415}));
  EXPECT_EQ(codes_with(Bit::stores_nothing), (Codes{13, 73, 166}));
  EXPECT_EQ(codes_with(Bit::denies), (Codes{2, 9, 13, 14, 28, 40, 52, 53, 54, 56, 57, 66, 121, 166,
                                            361, 10334, 16755, 17419, 17420}));
  EXPECT_EQ(codes_with(Bit::too_large), (Codes{10334, 17419, 17420}));
  EXPECT_EQ(
      codes_with(Bit::no_values),
      (Codes{6,   7,   18,  20,   26,    50,    59,    64,    67,    72,    79,    89,    91,
             100, 115, 123, 133,  134,   148,   166,   168,   189,   215,   238,   262,   303,
             322, 323, 352, 9001, 10058, 10107, 11600, 11602, 13435, 13436, 40324, 40414, 40415}));
}

TEST(ServerCodes, HasTheNameOfACode) {
  EXPECT_EQ(server_code(11000).name, "DuplicateKey");
  EXPECT_EQ(server_code(4711).name, "UnknownError");
  EXPECT_EQ(server_code(4711).traits, 0);
}

}  // namespace server_codes_test
}  // namespace idproxy
