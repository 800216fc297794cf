#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "idproxy/ids/number_format.hpp"
#include "idproxy/ids/rule_source.hpp"
#include "support/counter_store.hpp"
#include "support/scripted_random.hpp"
#include "support/strategies.hpp"

namespace idproxy::ids {
namespace permuted_test {

using Table = test::FakeParameters::Table;
using Texts = std::vector<std::string>;

// K3 of NIST's samples of FF1.
constexpr const char* kVariable = "IDPROXY_PERMUTED_TEST_KEY";
constexpr const char* kKey = "2B7E151628AED2A6ABF7158809CF4F3Cef4359d8d580aa4f7f036d6f04fc6a94";

std::unique_ptr<RuleSource> make(test::FakeParameters& parameters) {
  static const test::FakeClock clock;
  static test::SeededRandom random;
  ::setenv(kVariable, kKey, 1);
  return test::make_strategy("permuted", parameters, {clock, random});
}

Table with_rule(Table table) {
  table.emplace("ns", "shop.orders");
  table.emplace("field", "number");
  if (!table.contains("key.file") && !table.contains("key")) table.emplace("key.env", kVariable);
  return table;
}

Texts faults_of(Table table) {
  test::FakeParameters parameters(with_rule(std::move(table)));
  (void)make(parameters);
  EXPECT_EQ(parameters.unknown(), Texts());
  return parameters.errors();
}

/// The first values of a rule without faults, as text.
struct Rule {
  explicit Rule(Table table, std::int64_t start = 0) {
    table.emplace("start", std::to_string(start));
    test::FakeParameters parameters(with_rule(std::move(table)));
    rule = make(parameters);
    EXPECT_EQ(parameters.errors(), Texts());
    warnings = parameters.warnings();
    source = rule->bind("shop.orders", &store).source;
  }
  Texts next(std::size_t n) {
    values.clear();
    test::draw(*source, n, values, [this] { store.counters.begin()->second->work(); });
    Texts texts;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Bytes value = values[i];
      EXPECT_LE(value.size(), source->most_bytes());
      EXPECT_EQ(rule->fit(values.type(), value), Fit::fits);
      texts.push_back(values.type() == bson::Type::int64
                          ? std::to_string(load_i64(value.data()))
                          : std::string(as_text(value.subspan(4, value.size() - 5))));
    }
    return texts;
  }
  [[nodiscard]] std::string decoded(std::string_view text) const {
    const Decoded meaning = rule->decode(text);
    return meaning ? meaning->front().second : meaning.error();
  }

  test::CounterStore store;
  std::unique_ptr<RuleSource> rule;
  std::shared_ptr<Source> source;
  Values values;
  Texts warnings;
};

TEST(Permuted, SucceedsWithKnownValues) {
  EXPECT_EQ(Rule({{"tweak", "shop.orders._id"}}).next(4),
            (Texts{"943084739286", "799359511670", "443382037370", "61397148726"}));
  EXPECT_EQ(Rule({{"tweak", "shop.orders._id"}, {"output", "string"}}).next(4).back(),
            "061397148726");
  EXPECT_EQ(Rule({{"field", "_id"}}).next(1), Texts{"943084739286"}) << "by default the field";
}

TEST(Permuted, SucceedsWithLettersAndTextAround) {
  Rule rule({{"alphabet", "base36"}, {"length", "6"}, {"format.prefix", "k-"}});
  const Texts texts = rule.next(3);
  for (const std::string& each : texts) EXPECT_EQ(each.size(), 8U);
  EXPECT_EQ(rule.decoded(texts[2]), "2");
  EXPECT_EQ(rule.decoded("k-000000").find("is not"), std::string::npos) << "every text is one";
  EXPECT_EQ(rule.decoded("k-00000").substr(0, 38), "is not written as the rule's values ar");
  Rule own({{"alphabet", "xyz-"}, {"length", "10"}});
  EXPECT_EQ(own.decoded(own.next(1)[0]), "0");
  EXPECT_EQ(own.rule->about().counter->seal.space, "4^10 xyz-");
  EXPECT_EQ(own.rule->about().counter->max, 1'048'575);
}

TEST(Permuted, SucceedsWithCheckDigits) {
  Rule rule({{"output", "string"}, {"check", "damm"}, {"digits", "6"}});
  const std::string text = rule.next(1)[0];
  EXPECT_EQ(text.size(), 7U);
  EXPECT_EQ(rule.decoded(text), "0");
  std::string wrong = text;
  wrong.back() = wrong.back() == '0' ? '1' : '0';
  EXPECT_EQ(rule.decoded(wrong), "has wrong check digits");
}

TEST(Permuted, ValuesThatReturnAreGivenAgain) {
  Rule rule({});
  const Texts first = rule.next(3);
  const std::vector<std::uint32_t> last_two{1, 2};
  rule.source->take_back(rule.values, last_two);
  EXPECT_EQ(rule.next(2), (Texts{first[1], first[2]}));
}

TEST(Permuted, ReadsWhatEndsTheNumbers) {
  EXPECT_EQ(Rule({{"digits", "6"}}).rule->about().counter->max, 999'999);
  EXPECT_EQ(Rule({{"digits", "6"}, {"leading_zeros", "false"}}).rule->about().counter->max,
            899'999);
  EXPECT_EQ(Rule({{"digits", "36"}, {"output", "string"}}).rule->about().counter->max,
            std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(Rule({{"max", "7"}}).decoded("943084739286").substr(0, 16), "lies beyond the ");
  EXPECT_EQ(Rule({{"digits", "16"}}).warnings.size(), 1U);
}

TEST(Permuted, FieldsMayStandOnOneSideOfTheNumber) {
  for (const char* text :
       {"{field:a}{counter}", "{counter}{field:a}", "{field:a}{counter}{field:b}"}) {
    EXPECT_EQ(
        faults_of({{"output", "string"}, {"template", text}, {"scope", "b"}, {"heal.mode", "off"}}),
        Texts());
  }
}

TEST(Permuted, FailsIfKeysMakeNoSense) {
  const std::string form =
      "must be 32, 48 or 64 hexadecimal digits, a key of AES, such as `openssl rand -hex 32` "
      "prints";
  ::setenv("IDPROXY_SHORT", "0123", 1);
  ::setenv("IDPROXY_NO_HEX", std::string(64, 'g').c_str(), 1);
  struct Case {
    Table table;
    std::string fault;
  };
  const std::vector<Case> cases{
      {{{"digits", "19"}}, "digits: must be 6 to 18 with output int64, is 19: add output: string"},
      {{{"digits", "5"}}, "digits: must be an integer 6 to 36, is 5"},
      {{{"length", "8"}}, "length: needs an `alphabet`; for digits, write `digits` instead"},
      {{{"alphabet", "base36"}, {"length", "3"}},
       "length: must be at least 4, for a million values of this alphabet, is 3"},
      {{{"alphabet", "abca"}}, "alphabet: has \"a\" twice"},
      {{{"alphabet", "a\xC3\xA4"}},
       "alphabet: must have printable characters of ASCII only, has \"\xC3\xA4\""},
      {{{"alphabet", "base36"}, {"digits", "6"}},
       "digits: has no place beside `alphabet`, whose texts have `length` characters"},
      {{{"alphabet", "base36"}, {"output", "int64"}},
       "output: must be string beside `alphabet`, which makes the value a text: leave it out"},
      {{{"alphabet", "base36"}, {"check", "damm"}},
       "check: is computed of decimal digits: leave out `alphabet`, or `check`"},
      {{{"alphabet", "abcdefghij"}, {"check", "damm"}},
       "check: is computed of decimal digits: leave out `alphabet`, or `check`"},
      {{{"key.env", "IDPROXY_SHORT"}},
       "key.env: names a key that does not fit: its text " + form + "; it has 4 characters"},
      {{{"key.env", "IDPROXY_NO_HEX"}},
       "key.env: names a key that does not fit: its text " + form + "; it has 64 characters"},
      {{{"key.env", "IDPROXY_MISSING"}}, "key.env: is not set in the environment of this process"},
      {{{"key", "null"}},
       "key: is missing: name a variable of the environment, key: {env: NAME}, or a file, key: "
       "{file: PATH}; its text " +
           form},
      {{{"key.env", kVariable}, {"key.file", "/dev/null"}},
       "key: must have `env` or `file`, not both"},
      {{{"key_epochs", "[]"}},
       "key_epochs: is refused: values of two keys can be the same, and none tells which key it "
       "has. A counter keeps its key; for another one, give the rule another `field` and `name`"},
      {{{"ns", "shop.*"}},
       "tweak: is missing: its default has the collection's name, and `ns` has wildcards. Write "
       "any text, with which all these collections hide their numbers"},
      {{{"output", "string"}, {"template", "A-{counter:06}"}},
       "template: has a width: {counter} stands for the whole text, of one length"},
      {{{"start", "8"}, {"max", "7"}}, "start: must not be beyond max (7)"},
      {{{"digits", "6"}, {"max", "1000000"}}, "max: must be an integer 0 to 999999, is 1000000"},
      {{{"store.layout", "custom"},
        {"store.collection", "c"},
        {"store.key_field", "_id"},
        {"store.value_field", "fpe"},
        {"store.value_is", "next"}},
       "store.value_field: must not be 'fpe', which says how the counter's numbers are hidden"},
      {{{"store.layout", "custom"},
        {"store.collection", "c"},
        {"store.key_field", "_id"},
        {"store.value_field", "n"},
        {"store.value_is", "next"},
        {"store.filter.space", "x"}},
       "store.filter: must not name 'space', which says how the counter's numbers are hidden"},
      {{{"output", "string"}, {"template", "{field:a}-{counter}/{field:b}"}},
       "template: has {field:…} on both sides of {counter}: two numbers could have the same value. "
       "Leave those of one side out, or name them in `scope`"},
  };
  for (const auto& [table, fault] : cases) {
    const Texts faults = faults_of(table);
    EXPECT_NE(std::find(faults.begin(), faults.end(), fault), faults.end())
        << fault << "\nbut\n"
        << (faults.empty() ? "" : faults.front());
    for (const std::string& each : faults) EXPECT_EQ(each.find(kKey), std::string::npos);
  }
}

}  // namespace permuted_test
}  // namespace idproxy::ids
