#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "idproxy/ids/permutation.hpp"
#include "ids/encoding.hpp"

// Apart from the others, which take long with ThreadSanitizer.
namespace idproxy::ids {
namespace permutation_threads_test {

TEST(PermutationThreads, SucceedWithOnePermutation) {
  const Permutation permutation(
      {std::string(alphabet_named("digits")), 12, Permutation::LeadingZeros::allowed}, "",
      std::string(32, 'k'));
  const auto written = [&permutation] {
    std::string text(12, '?');
    permutation.write(3, reinterpret_cast<std::uint8_t*>(text.data()));
    return text;
  };
  const std::string expected = written();
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 5000; ++j) EXPECT_EQ(written(), expected);
    });
  }
}

}  // namespace permutation_threads_test
}  // namespace idproxy::ids
