#include "config/conditions.hpp"

#include "findings_of.hpp"

namespace idproxy::config {
namespace conditions_test {

using testing::ElementsAre;
using testing::IsEmpty;

Loaded with_when(const std::string& when) {
  return load(
      "rules:\n"
      "  - {ns: shop.articles, field: number.text, strategy: counter, when: " +
      when + "}\n");
}

TEST(Conditions, AreReadInFileOrder) {
  const Loaded loaded = with_when(
      "{status: published, a.b: 1, c: {$in: [x, '1', true, null]}, d: {$exists: false}, e: null}");
  EXPECT_THAT(texts_of(loaded.findings), IsEmpty());
  const auto& when = loaded.config.rules.front().when;
  ASSERT_EQ(when.size(), 5U);
  std::vector<std::string> fields;
  std::vector<std::size_t> values;
  for (const rewrite::Condition& each : when) {
    fields.push_back(each.field);
    values.push_back(each.values.size());
  }
  EXPECT_THAT(fields, ElementsAre("status", "a.b", "c", "d", "e"));
  EXPECT_THAT(values, ElementsAre(1U, 1U, 4U, 0U, 1U));
  EXPECT_EQ(when[3].exists, false);
  EXPECT_FALSE(when[0].exists);
}

TEST(Conditions, MayBeNone) {
  EXPECT_THAT(texts_of(with_when("null").findings), IsEmpty());
}

TEST(Conditions, ReportsWhatIsNone) {
  const std::string expected =
      ": must be a value (text of up to 256 bytes, an integer, true, false or null), {$in: [value, "
      "…]} or {$exists: true or false}";
  const auto finding = [](const std::string& when) { return texts_of(with_when(when).findings); };
  for (const char* value : {"1.5", "[1]", "{}", "{$gt: 1}", "{$in: []}", "{$in: 1}", "{$in: [[1]]}",
                            "{$exists: 1}", "{$in: [1], $exists: true}"}) {
    EXPECT_THAT(finding("{a: " + std::string(value) + "}"),
                ElementsAre("2:71: error: rules[0].when.a" + expected))
        << value;
  }
  EXPECT_THAT(finding("{number: 1}"),
              ElementsAre("2:71: error: rules[0].when.number: must be another field than the "
                          "rule's, whose key is assign"));
  EXPECT_THAT(finding("{a..b: 1}").size(), 1U);
  EXPECT_THAT(finding("{$or: []}").size(), 1U);
  EXPECT_THAT(finding("{}"), ElementsAre("2:64: error: rules[0].when: must name a field; leave it "
                                         "out if all documents get a value"));
  EXPECT_THAT(finding("published"), ElementsAre("2:64: error: rules[0].when: must be a mapping of "
                                                "conditions, is text 'published'"));
}

}  // namespace conditions_test
}  // namespace idproxy::config
