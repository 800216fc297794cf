#include "idproxy/ids/template.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "idproxy/ids/number_format.hpp"
#include "idproxy/ids/values.hpp"

namespace idproxy::ids {
namespace template_test {

using namespace std::chrono_literals;
using Date = std::chrono::year_month_day;
constexpr Date kDay{2026y / std::chrono::March / 5};

Template parsed(std::string_view text) {
  auto result = Template::parse(text);
  if (const auto* fault = std::get_if<std::string>(&result)) {
    ADD_FAILURE() << text << " " << *fault;
    result = Template::parse("{counter}");
  }
  return std::get<Template>(std::move(result));
}

std::string fault_of(std::string_view text) {
  const auto result = Template::parse(text);
  const auto* fault = std::get_if<std::string>(&result);
  return fault == nullptr ? "" : *fault;
}

std::string text_of(std::string_view text, std::int64_t number, Check check = Check::none,
                    const std::vector<std::string>& fields = {}) {
  return number_text(number, parsed(text).format(kDay, fields, check));
}

TEST(Template, SucceedsWithEveryToken) {
  EXPECT_EQ(text_of("{counter}", 42), "42");
  EXPECT_EQ(text_of("INV-{yyyy}-{counter:06}", 42), "INV-2026-000042");
  EXPECT_EQ(text_of("{yy}{MM}{dd}{counter:03}", 7), "260305007");
  EXPECT_EQ(text_of("{{{counter}}}", 1), "{1}");
  EXPECT_EQ(text_of("a}}{{b{counter:034}", 1), "a}{b" + std::string(33, '0') + "1");
  EXPECT_EQ(text_of("{counter}-{check}", 572, Check::damm), "572-4");
  EXPECT_EQ(text_of("{counter}/x", 572, Check::damm), "572/x4");
  EXPECT_EQ(text_of("{check}/{counter}", 794, Check::mod97_10), "44/794");
  EXPECT_EQ(text_of("{field:a}-{counter}/{field:b.c}/{field:a}", 1, Check::none, {"x", "y"}),
            "x-1/y/x");
  EXPECT_EQ(text_of("{counter:02}", 12345), "12345");
  EXPECT_EQ(parsed("{field:a}-{counter}/{field:b.c}/{field:a}").fields(),
            (std::vector<std::string>{"a", "b.c"}));
}

TEST(Template, FailsIfItIsNone) {
  const std::string open = "has a '{' without '}' (a brace of the text itself is written twice)";
  EXPECT_EQ(fault_of("{counter"), open);
  EXPECT_EQ(fault_of("{counter}{"), open);
  EXPECT_EQ(fault_of("{counter}}"),
            "has a '}' without '{' (a brace of the text itself is written twice)");
  EXPECT_EQ(fault_of("INV-{yyyy}"), "has no {counter}: all values would be the same");
  EXPECT_EQ(fault_of(""), "has no {counter}: all values would be the same");
  EXPECT_EQ(fault_of("{counter}-{counter:03}"), "has {counter} twice");
  EXPECT_EQ(fault_of("{check}{counter}{check}"), "has {check} twice");
  for (const char* token : {"year", "YYYY", "", "counter ", "mm", "field", "field:", "yyyy:4"}) {
    EXPECT_EQ(fault_of("{counter}-{" + std::string(token) + "}"),
              "has {" + std::string(token) +
                  "}, which is no token: there are {counter}, {counter:06}, {yyyy}, {yy}, {MM}, "
                  "{dd}, {fy}, {fy4}, {field:PATH} and {check}");
  }
  for (const char* width : {"6", "0", "00", "035", "06x", "0-1", ""}) {
    EXPECT_EQ(fault_of("{counter:" + std::string(width) + "}"),
              "has {counter:" + std::string(width) +
                  "}: a width is 0 and a number up to 34, as in {counter:06}");
  }
}

TEST(Template, IsAmbiguousIfNothingSeparatesTheNumberFromAField) {
  using Fields = std::vector<std::string>;
  for (const char* text : {"{field:a}{counter}", "{counter}{field:a}", "{field:a}0{counter:04}",
                           "{counter}{check}{field:a}", "{field:a}{yyyy}{counter}"}) {
    EXPECT_TRUE(parsed(text).is_ambiguous({})) << text;
    EXPECT_FALSE(parsed(text).is_ambiguous(Fields{"a"})) << text;
    EXPECT_TRUE(parsed(text).is_ambiguous(Fields{"b"})) << text;
  }
  for (const char* text : {"{field:a}-{counter}", "{yyyy}{counter}", "{counter}{check}",
                           "{counter}0-0{field:a}", "{field:a}{field:b}x{counter}"}) {
    EXPECT_FALSE(parsed(text).is_ambiguous({})) << text;
  }
  // The field that is next to the number may be empty, or end in digits.
  EXPECT_TRUE(parsed("{field:a}{field:b}{counter}").is_ambiguous(Fields{"b"}));
  EXPECT_FALSE(parsed("{field:a}-{field:b}{counter}").is_ambiguous(Fields{"b"}));
  EXPECT_TRUE(parsed("{field:b}{counter}{field:a}").is_ambiguous(Fields{"b"}));
}

TEST(Template, ReadsBackTheNumberBehindAFieldThatEndsInDigits) {
  const std::string tenant = "a1";
  const NumberFormat format =
      parsed("{field:t}{counter:04}")
          .format_of_all({kDay, Reset::none, std::vector{&tenant}}, Check::none);
  EXPECT_EQ(format.pattern, "");
  for (const auto& [text, number] :
       {std::pair<std::string, std::int64_t>{"a10002", 2}, {"a112345", 12345}}) {
    EXPECT_EQ(number_text(number, format), text);
    Values values;
    append_number(number, format, values);
    EXPECT_EQ(read_number(values.type(), values[0], format), number);
  }
}

TEST(Template, ShowsThePeriodWithItsTokens) {
  struct Row {
    const char* text;
    bool yearly, monthly, daily;
  };
  for (const auto& [text, yearly, monthly, daily] :
       {Row{"{counter}", false, false, false}, Row{"{yyyy}/{counter}", true, false, false},
        Row{"{yy}{MM}/{counter}", true, true, false},
        Row{"{MM}{dd}/{counter}", false, false, false},
        Row{"{dd}.{MM}.{yyyy}/{counter}", true, true, true}}) {
    const Template its = parsed(text);
    EXPECT_TRUE(its.shows_period(Reset::none));
    EXPECT_EQ(its.shows_period(Reset::yearly), yearly) << text;
    EXPECT_EQ(its.shows_period(Reset::monthly), monthly) << text;
    EXPECT_EQ(its.shows_period(Reset::daily), daily) << text;
  }
}

/// What all texts of a sequence have in common.
NumberFormat of_all(std::string_view text, Reset reset,
                    const std::vector<const std::string*>& fields = {}, Check check = Check::none) {
  return parsed(text).format_of_all({kDay, reset, fields}, check);
}

TEST(Template, FindsTheDayInAText) {
  const auto day_in = [](std::string_view text, std::string_view in) {
    const std::vector<std::string> fields{"eu"};
    return parsed(text).day_in(in, fields, Check::luhn, 2026y);
  };
  EXPECT_EQ(day_in("{yyyy}{MM}{dd}-{counter}", "20260305-12345"), kDay);
  EXPECT_EQ(day_in("{counter:03}/{dd}.{MM}.{yy}", "042/05.03.260"), kDay);
  EXPECT_EQ(day_in("{field:r}{check}{counter}/{yyyy}", "eu917/2026"),
            (Date{2026y / std::chrono::January / 1}));
  EXPECT_EQ(day_in("{yyyy}{MM}-{counter}", "202613-12345"), std::nullopt) << "no month";
  EXPECT_EQ(day_in("{yyyy}-{counter}", "x026-12"), std::nullopt);
  EXPECT_EQ(day_in("{yyyy}-{counter}", "2026-1"), std::nullopt) << "too short";
}

TEST(Template, TakesTwoDigitsForTheLatestYearThatMayHaveBegun) {
  const auto year_in = [](std::string_view text, std::string_view in, std::chrono::year now) {
    return parsed(text).day_in(in, {}, Check::none, now)->year();
  };
  const auto of = [&](std::string_view in, std::chrono::year now) {
    return year_in("{yy}-{counter}", in, now);
  };
  EXPECT_EQ(of("26-1", 2026y), 2026y);
  EXPECT_EQ(of("27-1", 2026y), 2027y) << "somebody's clock is ahead";
  EXPECT_EQ(of("99-1", 2026y), 1999y);
  EXPECT_EQ(of("00-1", 2026y), 2000y);
  EXPECT_EQ(of("99-1", 2101y), 2099y);
  EXPECT_EQ(of("00-1", 2101y), 2100y);
  EXPECT_EQ(year_in("{yyyy}/{yy}-{counter}", "1900/00-1", 2026y), 1900y);
  EXPECT_EQ(year_in("{yy}/{yyyy}-{counter}", "00/2100-1", 2026y), 2100y);
}

TEST(Template, OfASequenceIsAFormatIfOnlyTheNumberVaries) {
  const std::string tenant = "a";
  for (const NumberFormat& format :
       {of_all("INV-{yyyy}-{counter:06}", Reset::yearly),
        of_all("INV-{yyyy}-{counter:06}", Reset::daily), of_all("{counter}", Reset::none),
        of_all("{field:t}-{counter}{check}", Reset::none, {&tenant}, Check::luhn)}) {
    EXPECT_EQ(format.pattern, "");
  }
  const NumberFormat format = of_all("INV-{yyyy}-{counter:06}", Reset::yearly);
  EXPECT_EQ(format.prefix, "INV-2026-");
  EXPECT_EQ(format.pad, 6U);
}

TEST(Template, OfASequenceIsAPatternIfMoreVaries) {
  EXPECT_EQ(of_all("I.{yyyy}-{counter:06}", Reset::none).pattern,
            "^I\\.[0-9]{4}\\-(-?[0-9]{6,})\\z");
  EXPECT_EQ(of_all("I.{yyyy}-{counter:06}", Reset::none).prefix, "I.");
  EXPECT_EQ(of_all("{yy}{MM}{dd}/{counter}", Reset::monthly).pattern,
            "^2603[0-9]{2}\\/(-?[0-9]{1,})\\z");
  EXPECT_EQ(of_all("{field:t}-{counter}", Reset::none, {nullptr}, Check::mod97_10).pattern,
            "^[\\s\\S]*\\-(-?[0-9]{1,})[0-9]{2}\\z");
  EXPECT_EQ(of_all("{check}-{counter}", Reset::none, {}, Check::damm).pattern,
            "^[0-9]{1}\\-(-?[0-9]{1,})\\z");
}

TEST(Period, IsTheDateAsFarAsTheResetGoes) {
  EXPECT_EQ(period_of(Reset::none, kDay), "");
  EXPECT_EQ(period_of(Reset::yearly, kDay), "2026");
  EXPECT_EQ(period_of(Reset::monthly, kDay), "2026-03");
  EXPECT_EQ(period_of(Reset::daily, kDay), "2026-03-05");
}

// ---- fiscal years ------------------------------------------------------------------------------

using namespace std::chrono_literals;

constexpr YearStart kApril = std::chrono::April / 1;

Template fiscal(std::string_view text, YearStart year = kApril) {
  Template read = parsed(text);
  read.begin_years(year);
  return read;
}

TEST(Period, OfAFiscalYearIsItsFirstDay) {
  EXPECT_EQ(period_of(Reset::yearly, 2026y / 3 / 31, kApril), "2025-04-01/P1Y");
  EXPECT_EQ(period_of(Reset::yearly, 2026y / 4 / 1, kApril), "2026-04-01/P1Y");
  EXPECT_EQ(period_of(Reset::yearly, 2026y / 12 / 31, kApril), "2026-04-01/P1Y");
  EXPECT_EQ(period_of(Reset::yearly, 2026y / 7 / 14, std::chrono::July / 15), "2025-07-15/P1Y");
  EXPECT_EQ(period_of(Reset::yearly, 2026y / 4 / 1, kCalendarYear), "2026");
  EXPECT_NE(period_of(Reset::yearly, 2026y / 4 / 1, kApril),
            period_of(Reset::daily, 2026y / 4 / 1));
}

TEST(Template, ShowsTheFiscalYear) {
  const Template text = fiscal("I-{fy}-{fy4}-{counter:03}");
  const auto prefix = [&](std::chrono::year_month_day day) {
    return text.format(day, {}, Check::none).prefix;
  };
  EXPECT_EQ(prefix(2026y / 3 / 31), "I-2025-26-2025-");
  EXPECT_EQ(prefix(2026y / 4 / 1), "I-2026-27-2026-");
  EXPECT_EQ(prefix(2099y / 4 / 1), "I-2099-00-2099-");
}

TEST(Template, KnowsWhetherItShowsTheFiscalYear) {
  EXPECT_TRUE(fiscal("{fy}-{counter}").shows_period(Reset::yearly));
  EXPECT_TRUE(fiscal("{fy4}-{counter}").shows_period(Reset::yearly));
  EXPECT_FALSE(fiscal("{yyyy}-{counter}").shows_period(Reset::yearly));
  // Texts of the year before would look like those of this one.
  EXPECT_FALSE(fiscal("{yyyy}{MM}{dd}-{counter}").shows_period(Reset::yearly));
  EXPECT_TRUE(fiscal("{fy}-{counter}").shows_periods_only(Reset::yearly));
  EXPECT_FALSE(fiscal("{yyyy}-{counter}").shows_periods_only(Reset::yearly));
}

TEST(Template, FindsTheFirstDayOfTheFiscalYearInAText) {
  const auto day_in = [](std::string_view text, std::string_view value) {
    return fiscal(text).day_in(value, {}, Check::none, 2026y);
  };
  EXPECT_EQ(day_in("{fy}-{counter}", "2026-27-5"), 2026y / 4 / 1);
  EXPECT_EQ(day_in("{fy4}/{counter}", "2026/12345"), 2026y / 4 / 1);
  EXPECT_EQ(day_in("{fy}-{counter}", "202a-27-5"), std::nullopt);
}

TEST(Template, HasOnePrefixInAFiscalYear) {
  const auto pattern = [](std::string_view text, Reset reset) {
    return fiscal(text).format_of_all({2026y / 4 / 1, reset}, Check::none).pattern;
  };
  EXPECT_EQ(pattern("{fy}-{counter}", Reset::yearly), "");
  EXPECT_EQ(pattern("{fy}/{counter}", Reset::none), "^[0-9]{4}-[0-9]{2}\\/(-?[0-9]{1,})\\z");
}

}  // namespace template_test
}  // namespace idproxy::ids
