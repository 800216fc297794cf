#include "idproxy/base/bytes.hpp"

#include <gtest/gtest.h>

namespace idproxy {
namespace bytes_test {

TEST(Bytes, EqualsALiteralOnlyAsAWhole) {
  EXPECT_TRUE(equals("insert", "insert"));
  for (const std::string_view other :
       {std::string_view(), std::string_view("inser"), std::string_view("inserT"),
        std::string_view("inserts"), std::string_view("insert\0", 7)}) {
    EXPECT_FALSE(equals(other, "insert")) << other;
  }
}

}  // namespace bytes_test
}  // namespace idproxy
