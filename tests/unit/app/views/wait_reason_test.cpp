#include "app/views/wait_reason.hpp"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

namespace idproxy::app::views {
namespace wait_reason_test {

std::string reason_of(const char* status) {
  const auto document = boost::json::parse(status);
  return why_not_ready(JsonView(document));
}

TEST(WaitReason, IsNoneOfAReadyProxy) {
  EXPECT_EQ(reason_of(R"({"phase": "ready", "rules": []})"), "");
  EXPECT_EQ(
      reason_of(R"({"phase": "ready", "rules": [{"ns": "a.b", "field": "c", "ready": true}]})"),
      "");
}

TEST(WaitReason, IsThePhase) {
  EXPECT_EQ(reason_of(R"({"phase": "starting"})"), "the proxy is starting");
  EXPECT_EQ(reason_of(R"({"phase": "draining"})"), "the proxy is draining");
  EXPECT_EQ(reason_of(R"({"phase": "draining", "wrong": [
                {"id": "proxy-stopping", "text": "it stops", "subject": null}]})"),
            "it stops");
}

TEST(WaitReason, IsTheFirstRuleThatNamesItsCollection) {
  EXPECT_EQ(reason_of(R"({"phase": "ready", "rules": [
                {"ns": "shop.*", "field": "x", "ready": false},
                {"ns": "shop.orders", "field": "number", "ready": false, "reason": "no index"},
                {"ns": "shop.bills", "field": "number", "ready": false}],
                "wrong": [
                {"id": "rule-not-ready", "subject": "shop.*, x", "text": "some collections"},
                {"id": "index-missing", "subject": "shop.orders, number", "text": "another"},
                {"id": "rule-not-ready", "subject": "shop.orders, number", "text": "no index"}]})"),
            "no index (and 1 more)");
  EXPECT_EQ(reason_of(R"({"phase": "ready", "rules": [
                {"ns": "shop.orders", "field": "number", "ready": false}],
                "wrong": [{"text": "no index", "subject": "shop.orders, number"}]})"),
            "shop.orders, number is not ready")
      << "an older proxy's findings have no id";
  EXPECT_EQ(reason_of(R"({"phase": "ready", "rules": [{"ns": "shop.*", "ready": false}]})"), "");
}

}  // namespace wait_reason_test
}  // namespace idproxy::app::views
