#include "app/json_view.hpp"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

namespace idproxy::app {
namespace json_view_test {

TEST(JsonViewTest, ReadsWhatIsThere) {
  const auto document = boost::json::parse(
      R"({"n": 1.5, "i": 7, "t": "x", "yes": true, "no": false, "list": [1, 2, 5], "in": {"k": 3}})");
  const JsonView view(document);
  EXPECT_EQ(view["n"].number(), 1.5);
  EXPECT_EQ(view["i"].number(), 7);
  EXPECT_EQ(view["i"].count(), 7U);
  for (const char* none : {"1e300", "-1", "1.5", "1e16", "\"7\"", "null"}) {
    const boost::json::value value = boost::json::parse(none);
    EXPECT_EQ(JsonView(value).count(), std::nullopt) << none;
  }
  EXPECT_EQ(view["t"].text(), "x");
  EXPECT_TRUE(view["yes"].is_true());
  EXPECT_TRUE(view["no"].is_false());
  EXPECT_EQ(view["list"].items().size(), 3U);
  EXPECT_EQ(view["list"].last().number(), 5);
  EXPECT_EQ(view["in"]["k"].number(), 3);
  EXPECT_EQ(view["in"].keys(), std::vector<std::string>{"k"});
}

TEST(JsonViewTest, DoesNotKnowWhatIsMissingOrDifferent) {
  const auto document =
      boost::json::parse(R"({"n": "1", "t": 1, "yes": 1, "list": {}, "empty": []})");
  const JsonView view(document);
  for (const JsonView& each : {view["missing"], view["n"]["deeper"], JsonView()}) {
    EXPECT_FALSE(each.number());
    EXPECT_EQ(each.text(), "");
    EXPECT_FALSE(each.is_true() || each.is_false() || each.is_object());
    EXPECT_TRUE(each.items().empty() && each.keys().empty());
    EXPECT_FALSE(each.last().number());
  }
  EXPECT_FALSE(view["n"].number());
  EXPECT_EQ(view["t"].text(), "");
  EXPECT_FALSE(view["yes"].is_true());
  EXPECT_TRUE(view["list"].items().empty());
  EXPECT_FALSE(view["empty"].last().number());
}

}  // namespace json_view_test
}  // namespace idproxy::app
