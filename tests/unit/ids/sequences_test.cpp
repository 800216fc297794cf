#include "idproxy/ids/sequences.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "idproxy/bson/builder.hpp"
#include "idproxy/ids/number_format.hpp"
#include "support/fake_clock.hpp"

namespace idproxy::ids {
namespace sequences_test {

using namespace std::chrono_literals;
using Is = FieldValue::Is;
using Output = NumberFormat::Output;

// 2024-12-31T23:30Z
constexpr std::chrono::seconds kEve{1735687800};
const NumberFormat kText{Output::string, 0, "", ""};

Template template_of(std::string_view text) {
  return std::get<Template>(Template::parse(text));
}

/// A document of the fields a, b, …, read like that of a client.
class Fields {
 public:
  template <class... Texts>
  explicit Fields(const Texts&... texts) {
    bson::Scope document(buffer_);
    char name = 'a';
    (bson::append_string(buffer_, std::string(1, name++), texts), ...);
    document.close();
    bson::Elements elements(buffer_.view());
    while (const auto element = elements.next()) values.push_back({Is::there, *element});
  }

 private:
  Buffer buffer_;

 public:
  std::vector<FieldValue> values;
};

std::string key_with(const std::string& scope, const std::string& period) {
  Buffer out;
  bson::Scope key(out);
  bson::append_string(out, "c", "shop.orders.number");
  if (!scope.empty()) {
    bson::append_head(out, bson::Type::document, "s");
    out.append(as_bytes(scope));
  }
  if (!period.empty()) bson::append_string(out, "p", period);
  key.close();
  return std::string(as_text(out.view()));
}

Sequences sequences_of(const SequenceOptions& options, const NumberFormat& format = {}) {
  static const test::FakeClock clock;
  return {options, "shop.orders.number", format, clock, {}};
}

Sequences::Chosen choose(const SequenceOptions& options, const std::vector<FieldValue>& values,
                         std::chrono::nanoseconds wall = kEve, const NumberFormat& format = {}) {
  return sequences_of(options, format).choose(values, wall);
}

std::string refusal(const SequenceOptions& options, const FieldValue& value) {
  return sequences_of(options).refusal(std::span(&value, 1));
}

TEST(Sequences, IsOneSequenceWithoutOptions) {
  EXPECT_FALSE(SequenceOptions().any());
  const auto chosen = choose({}, {}, kEve, kText);
  EXPECT_EQ(chosen.key, "");
  EXPECT_EQ(chosen.scope, "");
  EXPECT_EQ(chosen.format, kText);
  EXPECT_EQ(chosen.stored, kText);
}

TEST(Sequences, IsASequencePerScope) {
  SequenceOptions options;
  options.scope = {"a", "b.c"};
  EXPECT_EQ(sequences_of(options).fields(), options.scope);
  const Fields fields("x", "y");
  const auto chosen = choose(options, fields.values);
  Buffer scope;
  bson::Scope document(scope);
  bson::append_string(scope, "a", "x");
  bson::append_string(scope, "b.c", "y");
  document.close();
  EXPECT_EQ(chosen.scope, as_text(scope.view()));
  EXPECT_EQ(chosen.key, key_with(chosen.scope, ""));
}

TEST(Sequences, IsASequencePerPeriodOfItsTimeZone) {
  SequenceOptions options;
  options.reset = Reset::yearly;
  options.text = template_of("INV-{yyyy}-{counter:06}");
  EXPECT_EQ(choose(options, {}).key, key_with("", "2024"));
  EXPECT_EQ(number_text(1, choose(options, {}).format), "INV-2024-000001");
  options.zone = *TimeZone::find("Europe/Berlin");
  EXPECT_EQ(choose(options, {}).key, key_with("", "2025"));
  EXPECT_EQ(number_text(1, choose(options, {}).format), "INV-2025-000001");
  EXPECT_EQ(choose(options, {}).stored, choose(options, {}).format);
  EXPECT_EQ(choose(options, {}, kEve - 31min).key, key_with("", "2024"));
  options.reset = Reset::monthly;
  EXPECT_EQ(choose(options, {}).key, key_with("", "2025-01"));
  options.reset = Reset::daily;
  EXPECT_EQ(choose(options, {}).key, key_with("", "2025-01-01"));
}

TEST(Sequences, IsOneSequenceIfOnlyTheTextVaries) {
  SequenceOptions options;
  options.text = template_of("{yyyy}-{field:a}-{counter:03}");
  const Fields fields("x");
  const auto chosen = choose(options, fields.values);
  EXPECT_EQ(chosen.key, "");
  EXPECT_EQ(number_text(7, chosen.format), "2024-x-007");
  EXPECT_EQ(chosen.stored.pattern, "^[0-9]{4}\\-[\\s\\S]*\\-(-?[0-9]{3,})\\z");
}

TEST(Sequences, ReadsAFieldOfScopeAndTemplateOnce) {
  SequenceOptions options;
  options.scope = {"a"};
  options.text = template_of("{field:a}/{field:b}/{counter}");
  EXPECT_EQ(sequences_of(options).fields(), (std::vector<std::string>{"a", "b"}));
  const Fields fields("x", "y");
  EXPECT_EQ(number_text(7, choose(options, fields.values).format), "x/y/7");
  options.text = template_of("{field:a}/{counter}");
  EXPECT_EQ(choose(options, fields.values).stored.prefix, "x/");
  EXPECT_EQ(choose(options, fields.values).stored.pattern, "");
}

TEST(Sequences, RepeatsIfNothingShowsThePeriod) {
  SequenceOptions options;
  EXPECT_FALSE(options.repeats());
  options.reset = Reset::monthly;
  EXPECT_TRUE(options.repeats());
  options.text = template_of("{yyyy}-{counter}");
  EXPECT_TRUE(options.repeats());
  options.text = template_of("{yyyy}{MM}-{counter}");
  EXPECT_FALSE(options.repeats());
}

TEST(Sequences, RefusesWhatIsMissing) {
  SequenceOptions options;
  options.scope = {"a"};
  bson::Element null;
  null.type = bson::Type::null;
  const FieldValue missing;
  const FieldValue is_null{Is::there, null};
  for (const FieldValue& value : {missing, is_null}) {
    EXPECT_EQ(refusal(options, value), "field 'a' is missing: the rule's `scope` needs it");
  }
  options.on_missing = SequenceOptions::OnMissing::null;
  for (const FieldValue& value : {missing, is_null}) {
    EXPECT_EQ(refusal(options, value), "");
  }
  EXPECT_EQ(choose(options, {missing}).key, choose(options, {is_null}).key);
  options.text = template_of("{field:a}-{counter}");
  EXPECT_EQ(refusal(options, missing), "field 'a' is missing: the rule's `scope` needs it");
  options.scope = {};
  EXPECT_EQ(refusal(options, missing), "field 'a' is missing: the rule's `template` needs it");
}

TEST(Sequences, TakesAnEmptyScopeForAMissingOne) {
  SequenceOptions options;
  options.scope = {"a"};
  const Fields empty("");
  EXPECT_EQ(refusal(options, empty.values[0]), "field 'a' is empty: the rule's `scope` needs it");
  options.text = template_of("{field:a}-{counter}");
  EXPECT_EQ(refusal(options, empty.values[0]), "field 'a' is empty: the rule's `scope` needs it");
  options.scope = {};
  EXPECT_EQ(refusal(options, empty.values[0]), "") << "it is no scope";
  options.text.reset();
  options.scope = {"a"};
  options.on_missing = SequenceOptions::OnMissing::null;
  EXPECT_EQ(refusal(options, empty.values[0]), "");
  // The index takes it for another value than null, and could not guard both together.
  EXPECT_NE(choose(options, empty.values).key, choose(options, {FieldValue()}).key);
}

TEST(Sequences, RefusesWhatIsAmbiguousOrUnfit) {
  SequenceOptions options;
  options.scope = {"a"};
  EXPECT_EQ(refusal(options, {Is::in_array, {}}), "field 'a' lies within an array");
  EXPECT_EQ(refusal(options, {Is::twice, {}}), "field 'a' occurs twice");
  const Fields is_long(std::string(257, 'x'));
  EXPECT_EQ(refusal(options, is_long.values[0]),
            "field 'a' is longer than 256 bytes: it cannot be a scope");
  options.scope = {};
  options.text = template_of("{field:a}-{counter}");
  EXPECT_EQ(refusal(options, is_long.values[0]),
            "field 'a' is neither an integer nor a string of at most 256 bytes: it cannot stand in "
            "the rule's `template`");
}

}  // namespace sequences_test
}  // namespace idproxy::ids
