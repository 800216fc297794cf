#include "idproxy/base/digest.hpp"

#include <gtest/gtest.h>

namespace idproxy {
namespace digest_test {

TEST(Sha256, GivesThePublishedValues) {  // FIPS 180-4, examples
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

}  // namespace digest_test
}  // namespace idproxy
