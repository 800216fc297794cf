#include "idproxy/base/parameters.hpp"

#include "findings_of.hpp"

namespace idproxy::config {
namespace parameters_test {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(Parameters, ReadsEachType) {
  Mapping m(
      "integer: -3\nnumber: 0.25\nboolean: true\ntext: off\nquoted: '12'\nchoice: off\nnever: off\n"
      "duration: 250ms\nsize: 64KiB\nlist: [a, 'b']\nnull_text: null\nsection: {key: 5}\n");
  Parameters& r = m.reader;
  EXPECT_EQ(r.integer("integer", -5, 5, 0), -3);
  EXPECT_EQ(r.number("number", 0, 1, 0), 0.25);
  EXPECT_TRUE(r.boolean("boolean", false));
  EXPECT_EQ(r.text("text", ""), "off");
  EXPECT_EQ(r.text("quoted", ""), "12");
  EXPECT_EQ(r.choice("choice", {"on", "off"}), 1U);
  EXPECT_EQ(r.duration("duration", 0ms, 1s, 0ms), 250ms);
  EXPECT_EQ(r.duration_or_off("duration", 1ms, 1s, 7ms), 250ms);
  EXPECT_EQ(r.duration_or_off("never", 1ms, 1s, 7ms), 0ms);
  EXPECT_EQ(r.size("size", 0, 1 << 20, 0), 65536);
  EXPECT_THAT(r.texts("list"), ElementsAre("a", "b"));
  EXPECT_EQ(r.optional_text("null_text"), std::nullopt);
  EXPECT_EQ(r.section("section").integer("key", 0, 9, 0), 5);
  r.finish();
  EXPECT_THAT(m.found(), IsEmpty());
}

TEST(Parameters, FallsBackForAbsentKeys) {
  Mapping m("{}");
  Parameters& r = m.reader;
  EXPECT_EQ(r.integer("a", 0, 5, 4), 4);
  EXPECT_EQ(r.number("b", 0, 1, 0.5), 0.5);
  EXPECT_TRUE(r.boolean("c", true));
  EXPECT_EQ(r.text("d", "x"), "x");
  EXPECT_EQ(r.choice("e", {"on", "off"}), 0U);
  EXPECT_EQ(r.duration("f", 0ms, 1s, 7ms), 7ms);
  EXPECT_EQ(r.duration_or_off("g", 1ms, 1s, 7ms), 7ms);
  EXPECT_EQ(r.size("h", 0, 9, 8), 8);
  EXPECT_EQ(r.optional_text("i"), std::nullopt);
  EXPECT_EQ(r.optional_section("j"), nullptr);
  EXPECT_EQ(r.section("s").section("t").integer("u", 0, 5, 3), 3);
  EXPECT_FALSE(r.given("k"));
  r.finish();
  EXPECT_THAT(m.found(), IsEmpty());
}

TEST(Parameters, TakesTheSameSectionTwice) {
  Mapping m("s: {a: 1, b: 2}");
  EXPECT_EQ(m.reader.section("s").integer("a", 0, 5, 0), 1);
  EXPECT_EQ(m.reader.section("s").integer("b", 0, 5, 0), 2);
  m.reader.finish();
  EXPECT_THAT(m.found(), IsEmpty());
}

struct Case {
  const char* name;
  const char* value;
  void (*read)(Parameters&);
  const char* expected;
};

void read_digits(Parameters& r) {
  EXPECT_EQ(r.integer("key", 1, 18, 12), 12);
}
void read_any_integer(Parameters& r) {
  using Limits = std::numeric_limits<std::int64_t>;
  EXPECT_EQ(r.integer("key", Limits::min(), Limits::max(), 12), 12);
}
void read_fill(Parameters& r) {
  EXPECT_EQ(r.number("key", 0, 0.99, 0.5), 0.5);
}
void read_flag(Parameters& r) {
  EXPECT_TRUE(r.boolean("key", true));
}
void read_text(Parameters& r) {
  EXPECT_EQ(r.text("key", "x"), "x");
}
void read_required(Parameters& r) {
  EXPECT_EQ(r.required_text("key"), "");
}
void read_optional(Parameters& r) {
  EXPECT_EQ(r.optional_text("key"), std::nullopt);
}
void read_choice(Parameters& r) {
  EXPECT_EQ(r.choice("key", {"missing", "driver", "always"}), 0U);
}
void read_duration(Parameters& r) {
  EXPECT_EQ(r.duration("key", 1s, 24h, 5s), 5s);
}
void read_duration_or_off(Parameters& r) {
  EXPECT_EQ(r.duration_or_off("key", 1s, 1h, 60s), 60s);
}
void read_size(Parameters& r) {
  EXPECT_EQ(r.size("key", 1024, 1 << 30, 2048), 2048);
}
void read_threads(Parameters& r) {
  EXPECT_EQ(r.integer_unless("key", "auto", 1, 256), std::nullopt);
}
void read_section(Parameters& r) {
  EXPECT_EQ(r.section("key").integer("x", 0, 1, 0), 0);
}
void read_list(Parameters& r) {
  (void)r.list("key");
}
void read_texts(Parameters& r) {
  (void)r.texts("key");
}

TEST(Parameters, SaysWhatWasExpectedAndWhatIsThere) {
  constexpr Case kCases[] = {
      {"integer_is_text", "twelve", read_digits, "must be an integer 1 to 18, is text 'twelve'"},
      {"integer_in_quotes", "'12'", read_digits, "must be an integer 1 to 18, is text '12'"},
      {"integer_above", "19", read_digits, "must be an integer 1 to 18, is 19"},
      {"integer_below", "0", read_digits, "must be an integer 1 to 18, is 0"},
      {"integer_negative", "-1", read_digits, "must be an integer 1 to 18, is -1"},
      {"integer_octal", "012", read_digits, "must be an integer 1 to 18, is text '012'"},
      {"integer_hexadecimal", "0xc", read_digits, "must be an integer 1 to 18, is text '0xc'"},
      {"integer_exponent", "1e1", read_digits, "must be an integer 1 to 18, is text '1e1'"},
      {"integer_fraction", "12.0", read_digits, "must be an integer 1 to 18, is 12.0"},
      {"integer_beyond_64_bits", "9223372036854775808", read_any_integer,
       "must be an integer (of 64 bits), is 9223372036854775808"},
      {"integer_null", "null", read_digits, "must be an integer 1 to 18, is null"},
      {"integer_empty", "", read_digits, "must be an integer 1 to 18, is null"},
      {"integer_list", "[1]", read_digits, "must be an integer 1 to 18, is a list"},
      {"integer_mapping", "{a: 1}", read_digits, "must be an integer 1 to 18, is a mapping"},
      {"number_above", "1", read_fill, "must be a number 0 to 0.99, is 1"},
      {"number_text", "half", read_fill, "must be a number 0 to 0.99, is text 'half'"},
      {"boolean_yes", "yes", read_flag, "must be true or false, is text 'yes'"},
      {"boolean_upper_case", "True", read_flag, "must be true or false, is text 'True'"},
      {"boolean_in_quotes", "'false'", read_flag, "must be true or false, is text 'false'"},
      {"boolean_number", "0", read_flag, "must be true or false, is 0"},
      {"text_null", "~", read_text, "must be text, is null"},
      {"text_list", "[a]", read_text, "must be text, is a list"},
      {"required_empty", "''", read_required, "must not be empty"},
      {"required_null", "", read_required, "must be text, is null"},
      {"optional_empty", "''", read_optional, "must not be empty; null stands for none"},
      {"optional_list", "[a]", read_optional, "must be text or null, is a list"},
      {"choice_misspelled", "drivr", read_choice,
       "must be one of missing, driver or always, is text 'drivr', did you mean 'driver'?"},
      {"choice_other", "sometimes", read_choice,
       "must be one of missing, driver or always, is text 'sometimes'"},
      {"choice_upper_case", "Driver", read_choice,
       "must be one of missing, driver or always, is text 'Driver', did you mean 'driver'?"},
      {"choice_null", "null", read_choice, "must be one of missing, driver or always, is null"},
      {"duration_without_unit", "5", read_duration,
       "must be a duration of 1s to 24h with its unit (ms, s, m or h), is 5"},
      {"duration_too_short", "999ms", read_duration, "must be a duration of 1s to 24h, is 999ms"},
      {"duration_too_long", "25h", read_duration, "must be a duration of 1s to 24h, is 25h"},
      {"duration_huge", "9999999999999999999h", read_duration,
       "must be a duration of 1s to 24h, is text '9999999999999999999h'"},
      {"duration_with_other_unit", "5min", read_duration,
       "must be a duration of 1s to 24h, is text '5min'"},
      {"duration_or_on", "on", read_duration_or_off,
       "must be off or a duration of 1s to 1h, is text 'on'"},
      {"duration_or_off_without_unit", "5", read_duration_or_off,
       "must be off or a duration of 1s to 1h with its unit (ms, s, m or h), is 5"},
      {"size_without_unit", "2048", read_size,
       "must be a size of 1KiB to 1GiB with its unit (B, KiB, MiB or GiB), is 2048"},
      {"size_decimal_unit", "1MB", read_size, "must be a size of 1KiB to 1GiB, is text '1MB'"},
      {"size_too_large", "2GiB", read_size, "must be a size of 1KiB to 1GiB, is 2GiB"},
      {"threads_zero", "0", read_threads, "must be auto or an integer 1 to 256, is 0"},
      {"threads_other", "all", read_threads, "must be auto or an integer 1 to 256, is text 'all'"},
      {"section_null", "", read_section, "must be a mapping of keys to values, is null"},
      {"section_list", "[a]", read_section, "must be a mapping of keys to values, is a list"},
      {"list_text", "a", read_list, "must be a list, is text 'a'"},
      {"texts_text", "a", read_texts, "must be a list of texts, is text 'a'"},
      {"texts_with_null", "[a, ~]", read_texts, "must be a list of texts; one of them, is null"},
      {"connection_string", "mongodb://bob:secret@host", read_digits,
       "must be an integer 1 to 18, is text 'mongodb://***@host'"},
  };
  for (const Case& c : kCases) {
    Mapping m(std::string("a: 1\nkey: ") + c.value + "\n");
    c.read(m.reader);
    EXPECT_THAT(m.found(), ElementsAre(std::string("2:1: error: key: ") + c.expected)) << c.name;
  }
}

TEST(Parameters, ReportsAMissingKeyAtItsMapping) {
  Mapping m("list:\n  - a: 1\n");
  const auto items = m.reader.list("list");
  ASSERT_TRUE(items);
  (void)items->at(0)->required_text("strategy");
  EXPECT_THAT(m.found(), ElementsAre("2:5: error: list[0].strategy: is missing"));
}

TEST(Parameters, NamesUnknownKeysWithWhatWasMeant) {
  Mapping m("digts: 1\nsection:\n  zzz: 1\nlist: [{nz: 1}]\n");
  (void)m.reader.integer("digits", 0, 5, 0);
  (void)m.reader.section("section").text("a", "");
  (void)m.reader.section("section").text("b", "");
  (void)m.reader.list("list")->at(0)->text("ns", "");
  m.reader.finish();
  EXPECT_THAT(m.found(), ElementsAre("1:1: error: unknown key 'digts', did you mean 'digits'?",
                                     "3:3: error: section: unknown key 'zzz'; known here: a, b",
                                     "4:9: error: list[0]: unknown key 'nz', did you mean 'ns'?"));
}

TEST(Parameters, ReadsNullAsTheWordNullWhereThatIsAChoice) {
  Mapping m("a: null\nb: 'null'\nc: error\n");
  EXPECT_EQ(m.reader.choice("a", {"error", "null"}), 1U);
  EXPECT_EQ(m.reader.choice("b", {"error", "null"}), 1U);
  EXPECT_EQ(m.reader.choice("c", {"error", "null"}), 0U);
  m.reader.finish();
  EXPECT_THAT(m.found(), IsEmpty());
}

TEST(Parameters, SaysNothingMoreAboutWhatWasRefusedBefore) {
  Mapping m("key: !!int 5\n");
  read_digits(m.reader);
  EXPECT_THAT(m.found(), ElementsAre("1:6: error: tags are not allowed ('tag:yaml.org,2002:int'): "
                                     "the key decides the type"));
}

TEST(Parameters, CarriesFaultsOfStrategiesToTheirKeys) {
  Mapping m("rules:\n  - digits: 12\n    ns: x\n");
  Parameters& parameters = *m.reader.list("rules")->at(0);
  EXPECT_TRUE(parameters.given("digits"));
  EXPECT_FALSE(parameters.given("output"));
  parameters.error("digits", "must be even");
  parameters.warning("output", "could be larger");
  EXPECT_THAT(m.found(), ElementsAre("2:5: error: rules[0].digits: must be even",
                                     "2:5: warning: rules[0].output: could be larger"));
}

}  // namespace parameters_test
}  // namespace idproxy::config
