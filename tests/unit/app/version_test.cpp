#include "idproxy/app/version.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace idproxy::app {
namespace version_test {

using testing::MatchesRegex;

TEST(Version, SaysWhichCommitItIs) {
  EXPECT_THAT(std::string(version()), MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
  EXPECT_THAT(std::string(commit()), MatchesRegex("[0-9a-f]{12}|unknown"));
}

TEST(Version, SaysWhatItWasBuiltWithAndWhatItUses) {
  EXPECT_THAT(version_text(),
              MatchesRegex("mongo-idproxy " + std::string(version()) + " \\(commit " +
                           std::string(commit()) +
                           "\\)\n"
                           "compiled by (Clang|GCC) [0-9.]+\n"
                           "Boost 1\\.[0-9.]+, OpenSSL 3\\.[0-9.]+, libmongoc [0-9.]+, "
                           "zlib [0-9.]+, zstd [0-9.]+, snappy [0-9.]+, "
                           "spdlog [0-9.]+, yaml-cpp [0-9.]+"));
}

}  // namespace version_test
}  // namespace idproxy::app
