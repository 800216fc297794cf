#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "idproxy/ids/counter_spec.hpp"

namespace idproxy::ids {

/// How often a rule's sequence begins again at `start` (docs/templates.md#templates); ascending.
enum class Reset { none, yearly, monthly, daily };

/// The first day of a year: of another one than January 1 it is a fiscal year.
using YearStart = std::chrono::month_day;
inline constexpr YearStart kCalendarYear = std::chrono::January / 1;

/// The period that a day belongs to: "2026", "2026-11" or "2026-11-22", of a fiscal year
/// "2026-04-01/P1Y" (ISO 8601: the year from that day on); "" for Reset::none.
[[nodiscard]] std::string period_of(Reset reset, std::chrono::year_month_day day,
                                    YearStart year = kCalendarYear);

enum class PieceKind { literal, counter, yyyy, yy, month, day, fy, fy4, field, check };

/// A literal or a token of a template.
struct TemplatePiece {
  PieceKind kind;
  std::string text{};     ///< literal
  std::size_t field = 0;  ///< field: index in Template::fields()
};

/// A text with tokens, from which a rule's values are made (docs/templates.md#templates):
///
///   template ::= (literal | token)*     with one counter and at most one check
///   token    ::= "{counter}" | "{counter:0" width "}" | "{yyyy}" | "{yy}" | "{MM}" | "{dd}"
///              | "{fy}" | "{fy4}" | "{field:" path "}" | "{check}"
///   literal  ::= any text, with {{ and }} for braces
///
/// Example: "INV-{yyyy}-{counter:06}" makes INV-2026-000042.
class Template {
 public:
  static constexpr std::uint32_t kMostWidth = 34;

  /// Returns what is wrong with the text, as half a sentence, if it is no template.
  [[nodiscard]] static std::variant<Template, std::string> parse(std::string_view text);

  /// Sets when {fy} and {fy4} begin: by default with the calendar year.
  void begin_years(YearStart year) { year_ = year; }
  [[nodiscard]] bool has_fiscal_year() const;
  [[nodiscard]] bool has_calendar_date() const;
  /// The paths of its fields, each once.
  [[nodiscard]] const std::vector<std::string>& fields() const { return fields_; }
  [[nodiscard]] bool has_check() const;
  /// The width of the counter; 0: none is given.
  [[nodiscard]] std::uint32_t width() const { return width_; }
  /// True if the text shows in which period it was made.
  [[nodiscard]] bool shows_period(Reset reset) const;
  /// True if the date in the text does not change within a period.
  [[nodiscard]] bool shows_periods_only(Reset reset) const;
  /// True if the text is the same at all times.
  [[nodiscard]] bool is_timeless() const;
  /// True if documents that agree in the `fixed` fields can get one text for two numbers: nothing
  /// but its digits separates the counter from another field, so that a1 and 2 looks like a and 12.
  /// Hidden numbers, which have one length, can if fields stand on both sides.
  [[nodiscard]] bool is_ambiguous(std::span<const std::string> fixed) const;
  /// True if the texts of two fields follow each other with nothing but digits in between.
  [[nodiscard]] bool joins_fields() const;

  /// Has the counter written in the digits of `format`, or by its permutation.
  void write_as(const NumberFormat& format) {
    counter_.alphabet = format.alphabet;
    counter_.permutation = format.permutation;
  }

  /// How to write numbers on this day. `fields`: the texts of fields().
  [[nodiscard]] NumberFormat format(std::chrono::year_month_day day,
                                    std::span<const std::string> fields, Check check) const;
  /// The day that a text of this template shows, which need not fit in any other way; 1 January
  /// 2000 stands for what it does not show. Of the years that {yy} can mean it is the latest that
  /// has begun by `this_year` or the next one: clocks differ. Nothing: it is no such text.
  /// `fields`: as for format().
  [[nodiscard]] std::optional<std::chrono::year_month_day> day_in(
      std::string_view text, std::span<const std::string> fields, Check check,
      std::chrono::year this_year) const;
  /// The parts that are the same in all texts of a sequence.
  struct Fixed {
    std::chrono::year_month_day day;
    Reset reset = Reset::none;  ///< of the date: what does not change before that
    std::span<const std::string* const> fields{};  ///< by fields(): its text; null: it varies
  };
  /// The format of all texts of a sequence: as format(), or with a pattern if the texts vary in
  /// more than number and check digits, or if their order is not that of the numbers.
  [[nodiscard]] NumberFormat format_of_all(const Fixed& fixed, Check check) const;

 private:
  class Parser;

  [[nodiscard]] std::string pattern(const Fixed& fixed, Check check) const;

  std::vector<TemplatePiece> pieces_;
  std::vector<std::string> fields_;
  std::uint32_t width_ = 0;
  YearStart year_ = kCalendarYear;
  NumberFormat counter_;  // how to write it, by write_as()
};

}  // namespace idproxy::ids
