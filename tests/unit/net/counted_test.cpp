#include "idproxy/net/counted.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace idproxy::net {
namespace counted_test {

TEST(Counted, EachKindIsShownOnce) {
  PerCounted<int> shown;
  std::set<std::string_view> names;
  for (const CountedFamily& family : counted_families()) {
    EXPECT_TRUE(names.insert(family.name).second) << family.name;
    for (const CountedFamily::Series& series : family.series) ++shown[series.kind];
  }
  for (std::size_t kind = 0; kind < kCountedKinds; ++kind) {
    EXPECT_EQ(shown[static_cast<Counted>(kind)], 1) << "kind " << kind;
  }
}

}  // namespace counted_test
}  // namespace idproxy::net
