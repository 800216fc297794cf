#include "app/jobs/verify_judge.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <ostream>

#include "app/system_clock.hpp"
#include "idproxy/id_store/mongo.hpp"
#include "support/strategies.hpp"

namespace idproxy::app::jobs {
namespace verify_judge_test {

using id_store::mongo::Document;
using Kind = VerifyKind;
using Table = test::FakeParameters::Table;
using Counts = std::map<Kind, std::uint64_t>;

class Answers final : public VerifyAnswers {
 public:
  std::optional<std::int64_t> next_number(const VerifiedSequence& sequence) override {
    asked.push_back(sequence.period);
    return next;
  }
  std::vector<VerifiedRange> ranges() override { return ranges_now; }
  std::string remedy(const VerifiedSequence& sequence, std::int64_t wanted) override {
    return "set " + sequence.range + std::to_string(wanted);
  }
  std::vector<std::int64_t> stored(const VerifiedSequence&, const VerifyRuns::Gap& gap) override {
    looked_for.push_back(gap);
    std::vector<std::int64_t> found;
    for (const std::int64_t number : there) {
      if (gap.first <= number && number <= gap.last) found.push_back(number);
    }
    return found;
  }

  std::optional<std::int64_t> next;
  std::vector<VerifiedRange> ranges_now;
  std::vector<std::int64_t> there;
  std::vector<VerifyRuns::Gap> looked_for;
  std::vector<std::string> asked;
};

/// A rule of the field `n`, and documents that it gets in their order.
struct Case {
  Case(std::string_view strategy, Table table, const char* allow = nullptr) {
    table.emplace("ns", "shop.orders");
    table.emplace("field", "n");
    test::FakeParameters parameters(table);
    rule = test::make_strategy(strategy, parameters, process_sources());
    EXPECT_EQ(parameters.errors(), std::vector<std::string>());
    if (allow != nullptr) allowed = *VerifyAllowed::parse(allow);
    judge = std::make_unique<VerifyJudge>(*rule, "n", answers, allowed ? &*allowed : nullptr);
  }

  template <class Value>
  Case& add(const Value& value, const Document& more = {}) {
    judge->next(Document().add("_id", ++documents).add("n", value).append(more).bytes());
    return *this;
  }
  template <class... Values>
  Case& add_all(const Values&... values) {
    (add(values), ...);
    return *this;
  }
  const VerifyFindings& end(VerifyJudge::Read read = VerifyJudge::Read::all) {
    judge->end(read);
    return judge->findings();
  }
  /// Those that are not 0.
  Counts counts(VerifyJudge::Read read = VerifyJudge::Read::all) {
    Counts counts;
    for (const auto& [kind, found] : end(read).kinds) {
      if (found.count > 0) counts[kind] = found.count;
    }
    return counts;
  }
  const VerifyExample& example(Kind kind) const {
    return judge->findings().kinds.at(kind).examples.at(0);
  }

  Answers answers;
  std::unique_ptr<ids::RuleSource> rule;
  std::optional<VerifyAllowed> allowed;
  std::unique_ptr<VerifyJudge> judge;
  std::int32_t documents = 0;
};

Document tenant(std::string_view name) {
  return Document().add("tenant", name);
}

constexpr std::int64_t n(std::int64_t number) {
  return number;
}

TEST(VerifyJudge, FindsNothingInACounterWithGaps) {
  Case counter("counter", {});
  counter.answers.next = 8;
  EXPECT_EQ(counter.add_all(n(1), n(2), n(5), n(7)).counts(), Counts());
  const VerifyFindings& findings = counter.judge->findings();
  EXPECT_EQ(findings.documents, 4U);
  ASSERT_EQ(findings.sequences, 1U);
  const VerifySequence& only = findings.first_sequences[0];
  EXPECT_EQ(only.name, "");
  EXPECT_EQ(only.first, 1);
  EXPECT_EQ(only.last, 7);
  EXPECT_EQ(only.numbers, 4U);
  EXPECT_EQ(only.missing, 3U);
}

TEST(VerifyJudge, CountsTheDocumentsOfADuplicate) {
  Case counter("counter", {});
  counter.add_all(n(1), n(1), n(1), n(2), n(3), n(3));
  EXPECT_EQ(counter.counts(), (Counts{{Kind::duplicate, 2}}));
  EXPECT_EQ(counter.example(Kind::duplicate).value, "1");
  EXPECT_EQ(counter.example(Kind::duplicate).count, 3U);
}

TEST(VerifyJudge, TakesNumbersOfAllTypesForOneKey) {
  Case counter("counter", {});
  counter.add_all(n(1), std::int32_t{1}, 1.0, n(2));
  EXPECT_EQ(counter.counts(), (Counts{{Kind::duplicate, 1}}));
  EXPECT_EQ(counter.judge->findings().number_types,
            (std::map<std::string, std::uint64_t>{{"int", 1}, {"double", 1}}));
}

TEST(VerifyJudge, TakesNumbersOfAllTypesForOneSequence) {
  Case gapless("gapless", {});
  gapless.add_all(std::int32_t{1}, n(2), 3.0, std::int32_t{5}, 5.5);
  EXPECT_EQ(gapless.counts(), (Counts{{Kind::wrong_type, 1}, {Kind::gap, 1}}));
  EXPECT_EQ(gapless.example(Kind::gap).value, "4");
  EXPECT_EQ(gapless.example(Kind::wrong_type).value, "{ \"value\" : 5.5 }");
}

TEST(VerifyJudge, FindsNullsAndOtherTypes) {
  Case counter("counter", {});
  counter.judge->next(Document().add("_id", "a").add("n", bson::Type::null, Bytes()).bytes());
  counter.add("text").add(id_store::mongo::Array().push(1)).add(Document().add("x", 1));
  EXPECT_EQ(counter.counts(), (Counts{{Kind::null, 1}, {Kind::wrong_type, 3}}));
  EXPECT_EQ(counter.example(Kind::wrong_type).value, "\"text\"");
}

TEST(VerifyJudge, FindsACounterThatIsBehind) {
  Case counter("counter", {{"step", "5"}});
  counter.answers.next = 11;
  EXPECT_EQ(counter.add_all(n(1), n(6), n(11)).counts(), (Counts{{Kind::beyond_counter, 1}}));
  EXPECT_EQ(counter.example(Kind::beyond_counter).value, "11, the counter's next number is 11");
  EXPECT_EQ(counter.judge->findings().kinds.at(Kind::beyond_counter).remedy, "set 16");
}

TEST(VerifyJudge, FindsACounterThatIsBehindOnItsWayDown) {
  Case counter("counter", {{"step", "-1"}, {"start", "10"}, {"max", "5"}});
  counter.answers.next = 8;
  counter.add_all(n(4), n(8), n(9), n(10));
  EXPECT_EQ(counter.counts(), (Counts{{Kind::beyond_counter, 1}, {Kind::beyond_max, 1}}));
  EXPECT_EQ(counter.judge->findings().kinds.at(Kind::beyond_counter).remedy, "set 3");
}

TEST(VerifyJudge, HasNoRemedyForAHiddenNumberBeyondTheCounter) {
  ::setenv("IDPROXY_VERIFY_KEY", "2b7e151628aed2a6abf7158809cf4f3c", 1);
  Case hidden("permuted", {{"key.env", "IDPROXY_VERIFY_KEY"}, {"tweak", "t"}});
  hidden.answers.next = 11;
  EXPECT_EQ(hidden.add_all(n(123'456'789'012)).counts(), (Counts{{Kind::beyond_counter, 1}}));
  EXPECT_EQ(hidden.judge->findings().kinds.at(Kind::beyond_counter).remedy, "");
}

TEST(VerifyJudge, FindsRangesThatAreBehind) {
  Case ranges("counter-ranges", {});
  ranges.answers.ranges_now = {{"r0", 0, 9, 5}, {"r1", 10, 19, 14}, {"r2", 20, 29, {}}};
  ranges.add_all(n(4), n(12), n(14), n(15), n(25), n(99));
  EXPECT_EQ(ranges.counts(), (Counts{{Kind::beyond_counter, 1}}));
  EXPECT_EQ(ranges.example(Kind::beyond_counter).value, "15, the next number of its range is 14");
  EXPECT_EQ(ranges.judge->findings().kinds.at(Kind::beyond_counter).remedy, "set r116");
}

TEST(VerifyJudge, ComparesWithWhereTheRangesAreAtTheEnd) {
  for (const bool is_full : {false, true}) {
    Case ranges("counter-ranges", {});
    ranges.answers.ranges_now = {{"r0", 0, 9, 5}};
    ranges.add_all(n(4), n(7), n(9));
    ranges.answers.ranges_now[0].next = is_full ? 10 : 9;
    EXPECT_EQ(ranges.counts().size(), is_full ? 0U : 1U);
  }
}

TEST(VerifyJudge, LeavesOutWhatIsAllowed) {
  Case counter("counter", {{"max", "100"}}, "VIP-[A-Z]+|7{3,}");
  counter.answers.next = 3;
  counter.add_all(n(1), n(2), n(777), std::int32_t{7777}, 7777777.0, "VIP-ADA", "VIP-BOB",
                  "VIP-BOB");
  EXPECT_EQ(counter.counts(), (Counts{{Kind::duplicate, 1}})) << "of those, too";
  EXPECT_EQ(counter.judge->findings().allowed, 6U);
  EXPECT_EQ(counter.judge->findings().first_sequences[0].last, 2);

  Case other("counter", {{"max", "100"}}, "VIP-[A-Z]+|7{3,}");
  other.add_all(n(1777), "a VIP-ADA", "VIP-", std::string_view("VIP-A\nB"), 777.5,
                std::string(2000, '7'));
  EXPECT_EQ(other.counts(), (Counts{{Kind::beyond_max, 1}, {Kind::wrong_type, 5}}));
  EXPECT_EQ(other.judge->findings().allowed, 0U);
}

TEST(VerifyAllowed, EndsWithEachExpression) {
  for (const char* text : {"(x+x+)+y", "(a|aa)+b", "((.*)*)*c", "^(([a-z])+.)+[A-Z]([a-z])+$"}) {
    Case counter("counter", {}, text);
    counter.add_all(std::string(1000, 'x'), std::string(1000, 'a'));
    EXPECT_EQ(counter.judge->findings().allowed, 0U) << text;
  }
  for (const std::string& text : {std::string(100'000, '('), std::string(1001, 'a')}) {
    EXPECT_EQ(VerifyAllowed::parse(text).error(), "it has more than 1,000 bytes");
  }
  EXPECT_TRUE(VerifyAllowed::parse(std::string(1000, '(')).has_error());
  EXPECT_TRUE(
      VerifyAllowed::parse(std::string(499, '(') + "a" + std::string(499, ')')).has_error());
}

TEST(VerifyAllowed, SaysWhatIsWrongWithAnExpression) {
  for (const char* text : {"VIP-(", "[z-a]", "*", "a{2,1}"}) {
    const auto parsed = VerifyAllowed::parse(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_FALSE(parsed.error().empty());
  }
}

TEST(VerifyJudge, FindsNumbersBeyondMax) {
  Case counter("counter", {{"max", "5"}});
  EXPECT_EQ(counter.add_all(n(5), n(6)).counts(), (Counts{{Kind::beyond_max, 1}}));
}

TEST(VerifyJudge, FindsGapsOfASequenceWithoutGaps) {
  Case gapless("gapless", {});
  EXPECT_EQ(gapless.add_all(n(3), n(4), n(7), n(9)).counts(), (Counts{{Kind::gap, 3}}));
  const auto& examples = gapless.judge->findings().kinds.at(Kind::gap).examples;
  EXPECT_EQ(examples[0].value, "1 to 2") << "before the first one, too";
  EXPECT_EQ(examples[1].value, "5 to 6");
  EXPECT_EQ(examples[1].count, 2U);
  EXPECT_EQ(examples[2].value, "8");
}

TEST(VerifyJudge, LooksOnceMoreBeforeItReportsAGap) {
  Case gapless("gapless", {});
  gapless.answers.there = {3, 4};
  EXPECT_EQ(gapless.add_all(n(1), n(2), n(5)).counts(), Counts());
  EXPECT_EQ(gapless.answers.looked_for, (std::vector<VerifyRuns::Gap>{{3, 4}}));
}

TEST(VerifyJudge, FindsNumbersThatAreGoneAtTheEnd) {
  Case gapless("gapless", {});
  gapless.answers.next = 6;
  EXPECT_EQ(gapless.add_all(n(1), n(2)).counts(), (Counts{{Kind::gap, 1}}));
  EXPECT_EQ(gapless.example(Kind::gap).value, "3 to 5");
}

TEST(VerifyJudge, ReadsOnAsFarAsNumbersWereStoredMeanwhile) {
  Case gapless("gapless", {});
  gapless.answers.next = 3001;
  for (std::int64_t number = 2; number <= 3000; ++number) gapless.answers.there.push_back(number);
  EXPECT_EQ(gapless.add(n(1)).counts(), Counts());
  EXPECT_EQ(gapless.answers.looked_for.size(), 3U);
  EXPECT_EQ(gapless.judge->findings().first_sequences[0].last, 3000);
}

TEST(VerifyJudge, CountsGapsBeyondTheExamples) {
  Case gapless("gapless", {});
  for (std::int64_t number = 1; number <= 101; number += 2) gapless.add(number);
  EXPECT_EQ(gapless.counts(), (Counts{{Kind::gap, 50}}));
  EXPECT_EQ(gapless.judge->findings().kinds.at(Kind::gap).examples.size(), 20U);
}

TEST(VerifyJudge, DoesNotJudgeWhatWasNotRead) {
  Case gapless("gapless", {});
  EXPECT_EQ(gapless.add_all(n(3), n(5)).counts(VerifyJudge::Read::a_part), Counts());
  EXPECT_EQ(gapless.judge->findings().sequences, 1U);
}

TEST(VerifyJudge, TellsScopesApart) {
  Case scoped("gapless", {{"scope", "tenant"}});
  for (const char* name : {"a", "b"}) {
    scoped.add(n(1), tenant(name)).add(n(2), tenant(name));
  }
  EXPECT_EQ(scoped.counts(), Counts());
  EXPECT_EQ(scoped.judge->findings().sequences, 2U);
  EXPECT_EQ(scoped.judge->findings().first_sequences[1].name, R"({ "s" : { "tenant" : "b" } })");
}

TEST(VerifyJudge, FindsDuplicatesAndGapsWithinAScope) {
  Case scoped("gapless", {{"scope", "tenant"}});
  scoped.add(n(1), tenant("a")).add(n(1), tenant("a"));
  scoped.add(n(1), tenant("b")).add(n(3), tenant("b"));
  scoped.add(n(1)).add(n(2), tenant(""));
  EXPECT_EQ(scoped.counts(),
            (Counts{{Kind::duplicate, 1}, {Kind::gap, 1}, {Kind::no_sequence, 2}}));
  EXPECT_EQ(scoped.example(Kind::duplicate).sequence, R"({ "s" : { "tenant" : "a" } })");
  EXPECT_EQ(scoped.example(Kind::gap).sequence, R"({ "s" : { "tenant" : "b" } })");
}

TEST(VerifyJudge, ReadsPeriodsInTexts) {
  Case yearly("gapless",
              {{"output", "string"}, {"template", "{yyyy}/{counter:02}"}, {"reset", "yearly"}});
  yearly.add_all("2025/01", "2025/02", "2026/02");
  EXPECT_EQ(yearly.counts(), (Counts{{Kind::gap, 1}}));
  EXPECT_EQ(yearly.example(Kind::gap).sequence, R"({ "p" : "2026" })");
  EXPECT_EQ(yearly.judge->findings().sequences, 2U);
}

/// Of {yy} alone, 99 is 1999 until 2098.
TEST(VerifyJudge, ReadsPeriodsOfOtherCenturies) {
  Case two_digits("gapless",
                  {{"output", "string"}, {"template", "{yy}/{counter:02}"}, {"reset", "yearly"}});
  EXPECT_EQ(two_digits.add_all("99/01", "99/02").counts(), Counts());
  EXPECT_EQ(two_digits.answers.asked, std::vector<std::string>{"1999"});
  Case both("counter", {{"output", "string"}, {"template", "{yyyy}/{yy}-{counter:02}"}});
  EXPECT_EQ(both.add_all("1999/99-01", "2100/00-02").counts(), Counts());
}

/// Sorted as texts: the numbers of a year are spread, and 100 is in front of 11.
TEST(VerifyJudge, FollowsSeveralPeriodsInAnyOrderOfNumbers) {
  Case yearly("gapless",
              {{"output", "string"}, {"template", "{counter}-{yyyy}"}, {"reset", "yearly"}});
  std::vector<std::string> texts;
  for (int number = 1; number <= 120; ++number) {
    for (const char* year : {"-2025", "-2026"}) texts.push_back(std::to_string(number) + year);
  }
  std::ranges::sort(texts);
  for (const std::string& text : texts) yearly.add(std::string_view(text));
  EXPECT_EQ(yearly.counts(), Counts());
  EXPECT_EQ(yearly.judge->findings().sequences, 2U);
}

TEST(VerifyJudge, FindsTextsAndCheckDigitsThatDoNotFit) {
  Case checked("counter",
               {{"output", "string"}, {"template", "R{yyyy}-{counter:03}"}, {"check", "luhn"}});
  checked.answers.next = 100;
  // The digits 2026042 have the check digit 8.
  checked.add_all("R2026-0424", "R2026-042", "X2026-0428", "R20x6-0428", "R2026-0428");
  EXPECT_EQ(checked.counts(), (Counts{{Kind::wrong_check, 1}, {Kind::wrong_form, 3}}));
  EXPECT_EQ(checked.example(Kind::wrong_check).value, "\"R2026-0424\"");
}

TEST(VerifyJudge, ReadsFieldsOfTheDocumentInTexts) {
  Case regional("counter", {{"output", "string"}, {"template", "{field:region}-{counter:03}"}});
  regional.add("eu-001", Document().add("region", "eu"));
  regional.add("us-002", Document().add("region", "eu"));
  EXPECT_EQ(regional.counts(), (Counts{{Kind::wrong_form, 1}}));
}

TEST(VerifyJudge, DoesNotCompareWhatRepeatsByDesign) {
  Case repeating("counter", {{"reset", "yearly"}});
  EXPECT_EQ(repeating.add_all(n(1), n(1), n(2)).counts(), Counts());
  EXPECT_EQ(repeating.judge->findings().sequences, 0U);
  EXPECT_TRUE(repeating.answers.asked.empty());
}

struct Form {
  const char* name;
  const char* strategy;
  Table table;
  std::string value;
  Counts counts;
  friend std::ostream& operator<<(std::ostream& out, const Form& form) { return out << form.name; }
};

class VerifyForm : public testing::TestWithParam<Form> {};

TEST_P(VerifyForm, OfTexts) {
  Case rule(GetParam().strategy, GetParam().table);
  EXPECT_EQ(rule.add(std::string_view(GetParam().value)).counts(), GetParam().counts);
}

const Table kDigits{{"output", "string"}, {"digits", "4"}};
const Table kChecked{{"output", "string"}, {"digits", "3"}, {"check", "damm"}};
const Table kUuid{{"representation", "string"}};

INSTANTIATE_TEST_SUITE_P(
    All, VerifyForm,
    testing::Values(Form{"digits", "random-digits", kDigits, "0042", {}},
                    Form{"few_digits", "random-digits", kDigits, "042", {{Kind::wrong_form, 1}}},
                    Form{"no_digits", "random-digits", kDigits, "00x2", {{Kind::wrong_form, 1}}},
                    Form{"check", "random-digits", kChecked, "5724", {}},
                    Form{
                        "wrong_check", "random-digits", kChecked, "5725", {{Kind::wrong_check, 1}}},
                    Form{"uuid", "uuid", kUuid, "017f22e2-79b0-7cc3-98c4-dc0c0c07398f", {}},
                    Form{"short_uuid", "uuid", kUuid, "017f22e2", {{Kind::wrong_form, 1}}},
                    Form{"no_uuid", "uuid", {}, "017f22e2", {{Kind::wrong_type, 1}}},
                    Form{"no_objectid", "objectid", {}, "x", {{Kind::wrong_type, 1}}}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(VerifyForm, OfNumbers) {
  Case digits("random-digits", {{"digits", "4"}, {"leading_zeros", "false"}});
  EXPECT_EQ(digits.add_all(n(-1), n(999), n(1000), n(9999), n(10000)).counts(),
            (Counts{{Kind::wrong_form, 3}}));
  Case checked("random-digits", {{"digits", "4"}, {"check", "luhn"}});
  EXPECT_EQ(checked.add_all(n(0), n(1), n(18), n(-8)).counts(),
            (Counts{{Kind::wrong_check, 1}, {Kind::wrong_form, 1}}));
  constexpr std::int64_t kEnd = std::int64_t{1} << 53;
  Case js53("snowflake", {{"preset", "js53"}});
  EXPECT_EQ(js53.add_all(n(129525350401287), n(kEnd - 1), n(kEnd), n(-1)).counts(),
            (Counts{{Kind::wrong_form, 2}}));
}

TEST(VerifyForm, OfTextsOfAnAlphabet) {
  const struct {
    const char* strategy;
    Table table;
    std::vector<std::string> right;
    std::vector<std::string> wrong;
  } kRows[] = {
      {"uuid",
       {{"encoding", "base32"}, {"prefix", "user_"}},
       {"user_01h455vb4pex5vsknk084sn02q"},
       {"01h455vb4pex5vsknk084sn02q", "user_01h455vb4peu5vsknk084sn02q",
        "user_7" + std::string(25, 'z'), "user_8" + std::string(25, 'z')}},
      {"uuid",
       {{"version", "4"}, {"representation", "string"}, {"prefix", "u-"}},
       {"u-919108f7-52d1-4320-9bac-f847db4148a8"},
       {"x-919108f7-52d1-4320-9bac-f847db4148a8", "u-919108f7-52d1-4320-9bac-f847db4148ax"}},
      {"objectid",
       {{"encoding", "base58"}},
       {std::string(17, '1')},
       {std::string(16, '1'), std::string(17, '0')}},
      {"objectid",
       {{"output", "string"}, {"prefix", "o/"}},
       {"o/621537eee0c917e9c4714161"},
       {"x/621537eee0c917e9c4714161", "o/621537eee0c917e9c471416x", "o/621537eee0c917e9c471416"}},
      {"ulid",
       {},
       {"01BX5ZZKBKACTAV9WEVGEMMVRZ", "7" + std::string(25, 'Z')},
       {"8" + std::string(25, 'Z'), "01bx5zzkbkactav9wevgemmvrz"}},
      {"nanoid",
       {{"size", "6"}, {"alphabet", "base36"}, {"prefix", "c-"}},
       {"c-k3n8x2"},
       {"c-K3n8x2", "k3n8x2", "c-k3n8x"}},
      {"nanoid", {}, {"V1StGXR8_Z5jdHi6B-myT"}, {"V1StGXR8_Z5jdHi6B+myT"}},
      {"snowflake",
       {{"encoding", "base58"}, {"prefix", "s_"}},
       {"s_Bj6rPbgFPQk"},
       {"s_Bj6rPbgFPQ", "Bj6rPbgFPQk", "s_zzzzzzzzzzz", "s_0j6rPbgFPQk"}},
  };
  for (const auto& [strategy, table, right, wrong] : kRows) {
    Case good(strategy, table);
    for (const std::string& text : right) good.add(std::string_view(text));
    EXPECT_EQ(good.counts(), Counts()) << right[0];
    Case bad(strategy, table);
    for (const std::string& text : wrong) bad.add(std::string_view(text));
    EXPECT_EQ(bad.counts(), (Counts{{Kind::wrong_form, wrong.size()}})) << right[0];
  }
}

}  // namespace verify_judge_test
}  // namespace idproxy::app::jobs
