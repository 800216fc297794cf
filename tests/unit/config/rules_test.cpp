#include "config/rules.hpp"

#include "findings_of.hpp"

namespace idproxy::config {
namespace rules_test {

using namespace std::chrono_literals;
using rewrite::Assign;
using rewrite::InTransaction;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Rules, AreReadInFileOrder) {
  const Loaded loaded = load(
      "rules:\n"
      "  - {ns: shop.orders, field: _id, strategy: uuid, version: 7, assign: missing-or-null}\n"
      "  - {ns: 'shop.*', field: _id, strategy: objectid, output: string, assign: missing}\n"
      "  - {ns: bank.accounts, field: owner.number, strategy: random-digits, digits: 12,"
      " assign: driver, driver_window: 1h}\n");
  EXPECT_THAT(texts_of(loaded.findings), IsEmpty());
  const auto& rules = loaded.config.rules;
  ASSERT_EQ(rules.size(), 3U);
  EXPECT_EQ(rules[0].ns, "shop.orders");
  EXPECT_EQ(rules[0].assign, Assign::missing_or_null);
  EXPECT_EQ(rules[0].strategy_name, "uuid");
  EXPECT_EQ(rules[0].driver_window, 300s);
  EXPECT_EQ(rules[1].assign, Assign::missing);
  EXPECT_EQ(rules[2].field, "owner.number");
  EXPECT_EQ(rules[2].assign, Assign::driver);
  EXPECT_EQ(rules[2].driver_window, 1h);
  for (const rewrite::Rule& rule : rules) {
    ASSERT_NE(rule.strategy, nullptr);
    ids::Values values;
    rule.strategy->append_samples(2, values);
    EXPECT_EQ(values.size(), 2U);
  }
}

TEST(Rules, TakesTheDefaultsOfAllCommonKeysWithoutAWord) {
  EXPECT_THAT(
      findings_of("rules:\n"
                  "  - ns: shop.orders\n"
                  "    field: number\n"
                  "    strategy: random-digits\n"
                  "    assign: missing\n"
                  "    driver_window: 300s\n"
                  "    output: int64\n"
                  "    retry: {attempts: 8, backoff: 0ms, backoff_max: 50ms, deadline: 2s}\n"
                  "    in_transaction: transient\n"
                  "    reserve: null\n"
                  "    keep_driver_id: null\n"
                  "    upserts: assign\n"
                  "    unique_index: warn\n"
                  "    report: false\n"
                  "    digits: 12\n"
                  "    leading_zeros: true\n"
                  "    warn_fill: 0.1\n"
                  "    max_fill: 0.9\n"
                  "  - {ns: a.b, field: c, strategy: uuid, version: 7,"
                  " representation: standard, monotonic: process, upserts: forward}\n"),
      IsEmpty());
}

TEST(Rules, RetryAsTheyAreTold) {
  const Loaded loaded = load(
      "rules:\n"
      "  - ns: a.defaults\n"
      "    field: x\n"
      "    strategy: random-digits\n"
      "  - ns: a.all\n"
      "    field: x\n"
      "    strategy: random-digits\n"
      "    retry: {attempts: 100, backoff: 1s, backoff_max: 1m, deadline: 1h}\n"
      "    in_transaction: surface\n"
      "    report: true\n"
      "  - ns: a.least\n"
      "    field: x\n"
      "    strategy: random-digits\n"
      "    retry: {attempts: 0, backoff: 0ms, backoff_max: 0ms, deadline: 1ms}\n"
      "    in_transaction: transient\n"
      "    report: false\n"
      "  - ns: a.close\n"
      "    field: x\n"
      "    strategy: random-digits\n"
      "    retry: {backoff: 70ms, backoff_max: 70ms, deadline: 71ms}\n");
  EXPECT_THAT(texts_of(loaded.findings), IsEmpty());
  struct Expected {
    const char* ns;
    std::optional<std::uint32_t> attempts;
    std::chrono::milliseconds backoff, backoff_max, deadline;
    InTransaction in_transaction;
    bool report;
  };
  constexpr Expected kExpected[] = {
      {"a.defaults", {}, 0ms, 50ms, 2s, InTransaction::transient, false},
      {"a.all", 100, 1s, 1min, 1h, InTransaction::surface, true},
      {"a.least", 0, 0ms, 0ms, 1ms, InTransaction::transient, false},
      {"a.close", {}, 70ms, 70ms, 71ms, InTransaction::transient, false},
  };
  ASSERT_EQ(loaded.config.rules.size(), std::size(kExpected));
  for (std::size_t i = 0; i < std::size(kExpected); ++i) {
    const rewrite::Rule& rule = loaded.config.rules[i];
    const Expected& expected = kExpected[i];
    EXPECT_EQ(rule.ns, expected.ns);
    EXPECT_EQ(rule.retry.attempts, expected.attempts) << expected.ns;
    EXPECT_EQ(rule.retry.backoff, expected.backoff) << expected.ns;
    EXPECT_EQ(rule.retry.backoff_max, expected.backoff_max) << expected.ns;
    EXPECT_EQ(rule.retry.deadline, expected.deadline) << expected.ns;
    EXPECT_EQ(rule.in_transaction, expected.in_transaction) << expected.ns;
    EXPECT_EQ(rule.report, expected.report) << expected.ns;
  }
}

TEST(Rules, ALongBackoffLiftsTheLongestOne) {
  const Loaded loaded =
      load("rules: [{ns: a.b, field: x, strategy: objectid, retry: {backoff: 200ms}}]\n");
  EXPECT_THAT(texts_of(loaded.findings), IsEmpty());
  ASSERT_EQ(loaded.config.rules.size(), 1U);
  EXPECT_EQ(loaded.config.rules[0].retry.backoff_max, 200ms);
}

struct Case {
  const char* name;
  const char* rule;
  const char* finding;
};

TEST(Rules, ReportsWhatIsWrongWithOne) {
  constexpr Case kCases[] = {
      {"no_ns", "field: x, strategy: uuid", "2:5: error: rules[0].ns: is missing"},
      {"no_field", "ns: a.b, strategy: uuid", "2:5: error: rules[0].field: is missing"},
      {"no_strategy", "ns: a.b, field: x", "2:5: error: rules[0].strategy: is missing"},
      {"ns_without_dot", "ns: shop, field: x, strategy: uuid",
       "2:6: error: rules[0].ns: must name a database and a collection, as in shop.orders or "
       "\"shop.*\", is 'shop'"},
      {"ns_of_the_server", "ns: admin.x, field: x, strategy: uuid",
       "2:6: error: rules[0].ns: 'admin.x' is never touched: the databases admin, config and local "
       "belong to the server"},
      {"ns_of_the_store", "ns: idproxy.x, field: x, strategy: uuid",
       "2:6: error: rules[0].ns: 'idproxy.x' is never touched: 'idproxy' is id_store.db, the "
       "proxy's own database"},
      {"field_with_operator", "ns: a.b, field: $x, strategy: uuid",
       "2:15: error: rules[0].field: must not have a part that begins with '$'"},
      {"field_in_array", "ns: a.b, field: x.0, strategy: uuid",
       "2:15: error: rules[0].field: must not have a number as a part ('0'): a path makes "
       "sub-documents, never elements of arrays"},
      {"field_in_id", "ns: a.b, field: _id.x, strategy: uuid",
       "2:15: error: rules[0].field: must be _id itself or a field outside of it: the proxy cannot "
       "assign parts of _id"},
      {"unknown_strategy", "ns: a.b, field: x, strategy: uid, what: ever",
       "2:25: error: rules[0].strategy: must be one of objectid, uuid, ulid, snowflake, counter, "
       "permuted, counter-ranges, gapless, random-digits, nanoid or none, is 'uid', did you mean "
       "'uuid'?"},
      {"strategy_of_another_product", "ns: a.b, field: x, strategy: autoincrement",
       "2:25: error: rules[0].strategy: must be one of objectid, uuid, ulid, snowflake, counter, "
       "permuted, "
       "counter-ranges, gapless, random-digits, nanoid or none, is 'autoincrement'"},
      {"unknown_key", "ns: a.b, field: x, strategy: random-digits, digts: 5",
       "2:50: error: rules[0]: unknown key 'digts', did you mean 'digits'?"},
      {"key_of_another_strategy", "ns: a.b, field: x, strategy: random-digits, version: 7",
       "2:50: error: rules[0]: unknown key 'version'; known here: assign, check, digits, "},
      {"digits_is_text", "ns: a.b, field: x, strategy: random-digits, digits: twelve",
       "2:50: error: rules[0].digits: must be an integer, is text 'twelve'"},
      {"too_many_digits", "ns: a.b, field: x, strategy: random-digits, digits: 19",
       "2:50: error: rules[0].digits: must be 1 to 18 with output int64"},
      {"unknown_version", "ns: a.b, field: x, strategy: uuid, version: 2",
       "2:41: error: rules[0].version: must be "},
      {"assign", "ns: a.b, field: x, strategy: uuid, assign: drivr",
       "2:41: error: rules[0].assign: must be one of missing, missing-or-null, missing-or-zero, "
       "driver or always, is "
       "text 'drivr', did you mean 'driver'?"},
      {"driver_window_short", "ns: a.b, field: x, strategy: uuid, driver_window: 999ms",
       "2:41: error: rules[0].driver_window: must be a duration of 1s to 24h, is 999ms"},
      {"driver_window_long", "ns: a.b, field: x, strategy: uuid, driver_window: 25h",
       "2:41: error: rules[0].driver_window: must be a duration of 1s to 24h, is 25h"},
      {"driver_window_broken", "ns: a.b, field: x, strategy: uuid, driver_window: 1500ms",
       "2:41: error: rules[0].driver_window: must be whole seconds, is 1500ms"},
      {"keep_without_id", "ns: a.b, field: x, strategy: uuid, keep_driver_id: old",
       "2:41: error: rules[0].keep_driver_id: needs field: _id and assign: driver or always"},
      {"keep_without_driver",
       "ns: a.b, field: _id, strategy: uuid, assign: missing, keep_driver_id: old",
       "2:60: error: rules[0].keep_driver_id: needs field: _id and assign: driver or always"},
      {"keep_in_id", "ns: a.b, field: x, strategy: uuid, keep_driver_id: _id",
       "2:41: error: rules[0].keep_driver_id: must be a field of the document itself other than "
       "_id"},
      {"keep_in_path", "ns: a.b, field: x, strategy: uuid, keep_driver_id: a.b",
       "2:41: error: rules[0].keep_driver_id: must be a field of the document itself other than "
       "_id"},
      {"attempts", "ns: a.b, field: x, strategy: uuid, retry: {attempts: 101}",
       "2:49: error: rules[0].retry.attempts: must be an integer 0 to 100, is 101"},
      {"attempts_negative", "ns: a.b, field: x, strategy: uuid, retry: {attempts: -1}",
       "2:49: error: rules[0].retry.attempts: must be an integer 0 to 100, is -1"},
      {"attempts_text", "ns: a.b, field: x, strategy: uuid, retry: {attempts: '8'}",
       "2:49: error: rules[0].retry.attempts: must be an integer 0 to 100, is text '8'"},
      {"backoff_without_unit", "ns: a.b, field: x, strategy: uuid, retry: {backoff: 10}",
       "2:49: error: rules[0].retry.backoff: must be a duration of 0ms to 1m with its unit (ms, s, "
       "m or h), is 10"},
      {"backoff_long", "ns: a.b, field: x, strategy: uuid, retry: {backoff: 61s}",
       "2:49: error: rules[0].retry.backoff: must be a duration of 0ms to 1m, is 61s"},
      {"backoff_max_long", "ns: a.b, field: x, strategy: uuid, retry: {backoff_max: 61s}",
       "2:49: error: rules[0].retry.backoff_max: must be a duration of 0ms to 1m, is 61s"},
      {"backoff_max_below",
       "ns: a.b, field: x, strategy: uuid, retry: {backoff: 80ms, backoff_max: 79ms}",
       "2:64: error: rules[0].retry.backoff_max: must not be below backoff (80ms)"},
      {"deadline_none", "ns: a.b, field: x, strategy: uuid, retry: {deadline: 0ms}",
       "2:49: error: rules[0].retry.deadline: must be a duration of 1ms to 1h, is 0ms"},
      {"deadline_long", "ns: a.b, field: x, strategy: uuid, retry: {deadline: 61m}",
       "2:49: error: rules[0].retry.deadline: must be a duration of 1ms to 1h, is 61m"},
      {"deadline_like_backoff",
       "ns: a.b, field: x, strategy: uuid, retry: {backoff: 50ms, deadline: 50ms}",
       "2:64: error: rules[0].retry.deadline: must be above backoff (50ms): nothing would ever "
       "be sent again"},
      {"backoff_like_deadline", "ns: a.b, field: x, strategy: uuid, retry: {backoff: 2s}",
       "2:49: error: rules[0].retry.backoff: must be below deadline (2s): nothing would ever "
       "be sent again"},
      {"retry_key", "ns: a.b, field: x, strategy: uuid, retry: {atempts: 3}",
       "2:49: error: rules[0].retry: unknown key 'atempts', did you mean 'attempts'?"},
      {"retry_number", "ns: a.b, field: x, strategy: uuid, retry: 3",
       "2:41: error: rules[0].retry: must be a mapping of keys to values, is 3"},
      {"in_transaction", "ns: a.b, field: x, strategy: uuid, in_transaction: surfac",
       "2:41: error: rules[0].in_transaction: must be one of transient or surface, is text "
       "'surfac', did you mean 'surface'?"},
      {"report", "ns: a.b, field: x, strategy: uuid, report: yes",
       "2:41: error: rules[0].report: must be true or false, is text 'yes'"},
      {"upserts", "ns: a.b, field: x, strategy: uuid, upserts: never",
       "2:41: error: rules[0].upserts: must be one of assign, forward or refuse, is text 'never'"},
      {"unique_index", "ns: a.b, field: x, strategy: uuid, unique_index: required",
       "2:41: error: rules[0].unique_index: must be one of warn, require or create, is text "
       "'required', did you mean 'require'?"},
      {"alphabet", "ns: a.b, field: x, strategy: nanoid, alphabet: abca",
       "2:43: error: rules[0].alphabet: has \"a\" twice"},
      {"alphabet_of_others", "ns: a.b, field: x, strategy: nanoid, alphabet: 'aä'",
       "2:43: error: rules[0].alphabet: must have printable characters of ASCII only, has \"ä\""},
      {"on_overflow", "ns: a.b, field: x, strategy: ulid, on_overflow: wait",
       "2:41: error: rules[0].on_overflow: must be one of advance or error, is text 'wait'"},
      {"bits", "ns: a.b, field: x, strategy: snowflake, time_bits: 42",
       "2:46: error: rules[0].time_bits: does not fit: time_bits, machine_bits and sequence_bits "
       "add up to 64, and there are 63"},
      {"epoch", "ns: a.b, field: x, strategy: snowflake, epoch: '2999-01-01T00:00:00Z'",
       "2:46: error: rules[0].epoch: lies in the future"},
      {"driver_on_id", "ns: a.b, field: _id, strategy: uuid, assign: driver",
       "2:43: warning: rules[0].assign: drivers report the ObjectId that they made as insertedId, "
       "but it is not stored as _id: findById and references that use it find nothing, and "
       "replaceOne with upsert stores a second document; keep_driver_id: FIELD would store it in a "
       "field of its own; an application that asks for its _id beforehand, {idproxy: \"next\"}, "
       "has "
       "none of this"},
      {"always_on_id_kept",
       "ns: a.b, field: _id, strategy: uuid, assign: always, keep_driver_id: old",
       "2:43: warning: rules[0].assign: drivers report the ObjectId that they made as insertedId, "
       "but it is not stored as _id: findById and references that use it find nothing, and "
       "replaceOne with upsert stores a second document; the application finds it in 'old'"},
      {"default_on_id", "ns: a.b, field: _id, strategy: uuid",
       "2:5: warning: rules[0].assign: most drivers send an _id of their own, which the default, "
       "missing, leaves as it is, so that this rule would do nothing. Make the driver leave _id "
       "out (docs/drivers.md#documents-without-an-_id) and write assign: missing here, or set "
       "assign: driver"},
  };
  for (const Case& c : kCases) {
    EXPECT_THAT(findings_of(std::string("rules:\n  - {") + c.rule + "}\n"),
                ElementsAre(HasSubstr(c.finding)))
        << c.name;
  }
}

struct PairCase {
  const char* name;
  const char* first;
  const char* second;
  const char* finding;  // null: none
};

TEST(Rules, SayWhoWritesValuesOtherwise) {
  const std::string alphabet = ": is for other strategies: `alphabet` says which characters";
  const std::string encoding = ": is for other strategies: `encoding` says which characters";
  const std::string plain = ": is for other strategies: the values are plain numbers; counter has";
  const std::string decimal = ": is for other strategies: the values are decimal digits; nanoid";
  const std::string ulid = ": is for other strategies: a ulid is in base32upper";
  for (const auto& [strategy, key, reason] :
       {std::tuple("ulid", "encoding", ulid), std::tuple("ulid", "alphabet", ulid),
        std::tuple("nanoid", "encoding", alphabet), std::tuple("permuted", "encoding", alphabet),
        std::tuple("random-digits", "encoding", decimal),
        std::tuple("random-digits", "alphabet", decimal),
        std::tuple("random-digits", "prefix", decimal),
        std::tuple("counter-ranges", "encoding", plain),
        std::tuple("counter-ranges", "prefix", plain), std::tuple("uuid", "alphabet", encoding),
        std::tuple("objectid", "alphabet", encoding), std::tuple("counter", "alphabet", encoding),
        std::tuple("snowflake", "alphabet", encoding),
        std::tuple("gapless", "alphabet", encoding)}) {
    const std::string rule = "rules:\n  - ns: a.b\n    field: c\n    strategy: ";
    EXPECT_THAT(
        findings_of(rule + strategy + "\n    " + key + ": hex\n"),
        testing::Contains(testing::StartsWith("5:5: error: rules[0]." + std::string(key) + reason)))
        << strategy;
  }
}

TEST(Rules, ReportsWhatTwoOfThemDoToOneAnother) {
  constexpr PairCase kCases[] = {
      {"the_same_twice", "ns: a.b, field: x", "ns: a.b, field: x",
       "3:6: error: rules[1].ns: never reached: rules[0] has the same ns and field"},
      {"the_same_glob_twice", "ns: 'a.*', field: x", "ns: 'a.*', field: x",
       "3:6: error: rules[1].ns: never reached: rules[0] has the same ns and field"},
      {"behind_a_glob", "ns: 'a.*', field: x", "ns: a.b, field: x",
       "3:6: error: rules[1].ns: never reached: rules[0] ('a.*') matches first; put the narrower "
       "rule in front of it"},
      {"before_a_glob", "ns: a.b, field: x", "ns: 'a.*', field: x", nullptr},
      {"overlapping_globs", "ns: 'a.*', field: x", "ns: '*.b', field: x", nullptr},
      {"other_field", "ns: a.b, field: x", "ns: a.b, field: y", nullptr},
      {"inside", "ns: a.b, field: x", "ns: a.b, field: x.y",
       "3:15: error: rules[1].field: 'x.y' and 'x' of rules[0] cannot both be assigned in one "
       "document: one contains the other"},
      {"around_by_globs", "ns: 'a.*', field: x.y.z", "ns: '*.b', field: x",
       "3:17: error: rules[1].field: 'x' and 'x.y.z' of rules[0] cannot both be assigned in one "
       "document: one contains the other"},
      {"inside_elsewhere", "ns: a.b, field: x", "ns: a.c, field: x.y", nullptr},
      {"beginning_alike", "ns: a.b, field: x", "ns: a.b, field: xy", nullptr},
  };
  for (const PairCase& c : kCases) {
    const auto found =
        findings_of(std::string("rules:\n  - {") + c.first + ", strategy: objectid}\n  - {" +
                    c.second + ", strategy: objectid}\n");
    if (c.finding == nullptr) {
      EXPECT_THAT(found, IsEmpty()) << c.name;
    } else {
      EXPECT_THAT(found, ElementsAre(c.finding)) << c.name;
    }
  }
}

TEST(Rules, KeepDriverIdIsNoFieldOfAnotherRule) {
  const std::string keeping =
      "  - {ns: 'a.*', field: _id, strategy: objectid, assign: always,\n"
      "     keep_driver_id: old}\n";
  const auto errors_with = [&](const std::string& before, const std::string& behind) {
    std::vector<std::string> errors;
    std::string file = "rules:\n";
    file.append(before).append(keeping).append(behind);
    for (auto& text : findings_of(file)) {
      if (text.find("error") != std::string::npos) errors.push_back(text);
    }
    return errors;
  };
  const std::string inside = "  - {ns: a.b, field: old.x, strategy: objectid}\n";
  EXPECT_THAT(errors_with("", inside),
              ElementsAre("3:6: error: rules[0].keep_driver_id: 'old' is assigned by rules[1] "
                          "(field old.x)"));
  EXPECT_THAT(errors_with(inside, ""),
              ElementsAre("4:6: error: rules[1].keep_driver_id: 'old' is assigned by rules[0] "
                          "(field old.x)"));
  EXPECT_THAT(errors_with("", "  - {ns: b.b, field: old, strategy: objectid}\n"), IsEmpty());
  EXPECT_THAT(errors_with("", "  - {ns: a.b, field: older, strategy: objectid}\n"), IsEmpty());
}

TEST(Rules, MustBeAListOfMappings) {
  EXPECT_THAT(findings_of("rules:\n"),
              ElementsAre("1:1: warning: rules: is empty: everything is relayed unchanged"));
  EXPECT_THAT(findings_of("rules: {}\n"),
              ElementsAre("1:1: error: rules: must be a list, is a mapping"));
  EXPECT_THAT(findings_of("rules:\n  - shop.orders\n  - ~\n"),
              ElementsAre("2:5: error: rules[0]: must be a mapping of keys to values, is text "
                          "'shop.orders'",
                          "3:5: error: rules[1]: must be a mapping of keys to values, is null"));
}

TEST(Rules, AreBounded) {
  std::string text = "rules:\n";
  for (int i = 0; i < 1001; ++i) {
    text += "- {ns: a.c" + std::to_string(i) + ", field: x, strategy: objectid}\n";
  }
  EXPECT_THAT(findings_of(text), ElementsAre("1:1: error: rules: must be at most 1000"));
}

}  // namespace rules_test
}  // namespace idproxy::config
