#include "idproxy/ids/template.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <ranges>
#include <span>
#include <utility>

#include "idproxy/base/regex.hpp"
#include "idproxy/ids/number_format.hpp"

namespace idproxy::ids {
namespace {

constexpr std::string_view kTokens =
    "{counter}, {counter:06}, {yyyy}, {yy}, {MM}, {dd}, {fy}, {fy4}, {field:PATH} and {check}";

/// A number in decimal, with leading zeros up to `width` digits.
std::string padded(unsigned number, std::size_t width) {
  std::string text = std::to_string(number);
  if (text.size() < width) text.insert(0, width - text.size(), '0');
  return text;
}

/// The calendar year in which the fiscal year of this day begins.
int first_year_of(std::chrono::year_month_day day, YearStart year) {
  const bool is_before = std::chrono::month_day(day.month(), day.day()) < year;
  return static_cast<int>(day.year()) - (is_before ? 1 : 0);
}

/// The latest year that ends in these two digits, up to the one after `this_year`.
int latest_year(unsigned two_digits, std::chrono::year this_year) {
  const int last = static_cast<int>(this_year) + 1;
  return last - (last - static_cast<int>(two_digits)) % 100;
}

std::string digits_of_year(int year) {
  return padded(static_cast<unsigned>(year), 4);
}

using Pieces = std::span<const TemplatePiece>;

/// The number of pieces in front of the first one of this kind.
std::size_t at(Pieces pieces, PieceKind kind) {
  return static_cast<std::size_t>(std::ranges::find(pieces, kind, &TemplatePiece::kind) -
                                  pieces.begin());
}

bool has(Pieces pieces, PieceKind kind) {
  return at(pieces, kind) < pieces.size();
}

std::string fault_of(Pieces pieces) {
  const auto count = [&](PieceKind kind) {
    return std::ranges::count(pieces, kind, &TemplatePiece::kind);
  };
  if (count(PieceKind::counter) == 0) return "has no {counter}: all values would be the same";
  if (count(PieceKind::counter) > 1) return "has {counter} twice";
  if (count(PieceKind::check) > 1) return "has {check} twice";
  return {};
}

/// Of pieces that depend on nothing but the day.
std::string text_of(const TemplatePiece& piece, std::chrono::year_month_day day, YearStart start) {
  const auto year = static_cast<unsigned>(static_cast<int>(day.year()));
  const int first = first_year_of(day, start);
  switch (piece.kind) {
    case PieceKind::literal:
      return piece.text;
    case PieceKind::yyyy:
      return padded(year, 4);
    case PieceKind::yy:
      return padded(year % 100, 2);
    case PieceKind::month:
      return padded(static_cast<unsigned>(day.month()), 2);
    case PieceKind::day:
      return padded(static_cast<unsigned>(day.day()), 2);
    case PieceKind::fy:
      return digits_of_year(first) + "-" + padded(static_cast<unsigned>(first + 1) % 100, 2);
    case PieceKind::fy4:
      return digits_of_year(first);
    case PieceKind::counter:
    case PieceKind::field:
    case PieceKind::check:
      break;
  }
  return {};
}

/// In bytes; 0 for the counter, the only piece whose size varies.
std::size_t size_of(const TemplatePiece& piece, std::span<const std::string> fields, Check check) {
  switch (piece.kind) {
    case PieceKind::literal:
      return piece.text.size();
    case PieceKind::fy:
      return 4 + 1 + 2;
    case PieceKind::fy4:
    case PieceKind::yyyy:
      return 4;
    case PieceKind::yy:
    case PieceKind::month:
    case PieceKind::day:
      return 2;
    case PieceKind::field:
      return fields[piece.field].size();
    case PieceKind::check:
      return width_of(check);
    case PieceKind::counter:
      break;
  }
  return 0;
}

/// Whether a piece does not change before the next reset.
bool is_fixed(PieceKind kind, Reset reset, YearStart start) {
  if (kind == PieceKind::fy || kind == PieceKind::fy4) return reset >= Reset::yearly;
  const bool is_year = kind == PieceKind::yyyy || kind == PieceKind::yy;
  if (is_year && start != kCalendarYear) return reset >= Reset::monthly;
  if (is_year) return reset >= Reset::yearly;
  if (kind == PieceKind::month) return reset >= Reset::monthly;
  return kind != PieceKind::day || reset == Reset::daily;
}

/// The width in "06"; nothing if there is none.
std::optional<std::uint32_t> width_in(std::string_view text) {
  std::uint32_t width = 0;
  if (text.size() < 2 || text.front() != '0') return std::nullopt;
  const auto read = std::from_chars(text.data() + 1, text.data() + text.size(), width);
  const bool whole = read.ec == std::errc{} && read.ptr == text.data() + text.size();
  if (!whole || width < 1 || width > Template::kMostWidth) return std::nullopt;
  return width;
}

}  // namespace

std::string period_of(Reset reset, std::chrono::year_month_day day, YearStart year) {
  if (reset == Reset::none) return {};
  if (reset == Reset::yearly && year != kCalendarYear) {
    return digits_of_year(first_year_of(day, year)) + "-" +
           padded(static_cast<unsigned>(year.month()), 2) + "-" +
           padded(static_cast<unsigned>(year.day()), 2) + "/P1Y";
  }
  std::string period = digits_of_year(static_cast<int>(day.year()));
  if (reset == Reset::yearly) return period;
  period += "-" + padded(static_cast<unsigned>(day.month()), 2);
  if (reset == Reset::monthly) return period;
  return period + "-" + padded(static_cast<unsigned>(day.day()), 2);
}

// ---- parsing -----------------------------------------------------------------------------------

class Template::Parser {
 public:
  explicit Parser(std::string_view text) : rest_(text) {}

  /// Returns what is wrong; empty: nothing.
  std::string run() {
    while (!rest_.empty()) {
      const char c = rest_.front();
      const bool doubled = rest_.size() > 1 && rest_[1] == c;
      if ((c == '{' || c == '}') && doubled) {
        literal(rest_.substr(0, 1));
        rest_.remove_prefix(2);
      } else if (c == '}') {
        return "has a '}' without '{' (a brace of the text itself is written twice)";
      } else if (c != '{') {
        const std::size_t size = std::min(rest_.find_first_of("{}"), rest_.size());
        literal(rest_.substr(0, size));
        rest_.remove_prefix(size);
      } else if (std::string fault = token(); !fault.empty()) {
        return fault;
      }
    }
    return fault_of(result_.pieces_);
  }
  Template take() { return std::move(result_); }

 private:
  void literal(std::string_view text) {
    auto& pieces = result_.pieces_;
    if (pieces.empty() || pieces.back().kind != PieceKind::literal)
      pieces.push_back({PieceKind::literal});
    pieces.back().text += text;
  }

  std::string token() {
    const std::size_t end = rest_.find('}');
    if (end == std::string_view::npos) {
      return "has a '{' without '}' (a brace of the text itself is written twice)";
    }
    const std::string_view inside = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return token(inside);
  }

  std::string token(std::string_view inside) {
    static constexpr std::array<std::pair<std::string_view, PieceKind>, 8> kNames{
        {{"counter", PieceKind::counter},
         {"yyyy", PieceKind::yyyy},
         {"yy", PieceKind::yy},
         {"MM", PieceKind::month},
         {"dd", PieceKind::day},
         {"fy", PieceKind::fy},
         {"fy4", PieceKind::fy4},
         {"check", PieceKind::check}}};
    const std::size_t colon = std::min(inside.find(':'), inside.size());
    const std::string_view name = inside.substr(0, colon);
    const std::string_view rest = inside.substr(std::min(colon + 1, inside.size()));
    const bool bare = colon == inside.size();
    if (name == "field" && !rest.empty()) return field(rest);
    if (name == "counter" && !bare) {
      const auto width = width_in(rest);
      if (!width) {
        return "has {" + std::string(inside) + "}: a width is 0 and a number up to " +
               std::to_string(kMostWidth) + ", as in {counter:06}";
      }
      result_.width_ = *width;
    }
    const auto* known =
        std::ranges::find(kNames, name, &std::pair<std::string_view, PieceKind>::first);
    if (known == kNames.end() || (!bare && name != "counter")) {
      return "has {" + std::string(inside) + "}, which is no token: there are " +
             std::string(kTokens);
    }
    result_.pieces_.push_back({known->second});
    return {};
  }

  std::string field(std::string_view path) {
    auto& fields = result_.fields_;
    const auto known = std::ranges::find(fields, path);
    const auto index = static_cast<std::size_t>(known - fields.begin());
    if (known == fields.end()) fields.emplace_back(path);
    result_.pieces_.push_back({PieceKind::field, {}, index});
    return {};
  }

  std::string_view rest_;
  Template result_;
};

std::variant<Template, std::string> Template::parse(std::string_view text) {
  Parser parser(text);
  if (std::string fault = parser.run(); !fault.empty()) return fault;
  return parser.take();
}

bool Template::is_ambiguous(std::span<const std::string> fixed) const {
  const auto varies = [&](const TemplatePiece& piece) {
    return piece.kind == PieceKind::field &&
           std::ranges::find(fixed, fields_[piece.field]) == fixed.end();
  };
  // Of pieces from the counter on: true if nothing separates it from one that varies.
  const auto touches_field = [&](const auto& pieces) {
    for (const TemplatePiece& piece : pieces) {
      if (varies(piece)) return true;
      const bool is_literal = piece.kind == PieceKind::literal;
      if (is_literal && piece.text.find_first_not_of(counter_.alphabet) != std::string::npos) {
        return false;
      }
    }
    return false;
  };
  const Pieces all(pieces_);
  const std::size_t counter = at(all, PieceKind::counter);
  const auto before = all.first(counter) | std::views::reverse;
  const Pieces after = all.subspan(counter + 1);
  if (counter_.permutation) {
    // Of one length: found from the side on which nothing varies.
    return std::ranges::any_of(before, varies) && std::ranges::any_of(after, varies);
  }
  return touches_field(before) || touches_field(after);
}

bool Template::joins_fields() const {
  bool follows = false;
  for (const TemplatePiece& piece : pieces_) {
    if (piece.kind == PieceKind::field) {
      if (follows) return true;
      follows = true;
    }
    const bool is_literal = piece.kind == PieceKind::literal;
    if (is_literal && piece.text.find_first_not_of(counter_.alphabet) != std::string::npos) {
      follows = false;
    }
  }
  return false;
}

bool Template::has_fiscal_year() const {
  return has(pieces_, PieceKind::fy) || has(pieces_, PieceKind::fy4);
}

bool Template::has_calendar_date() const {
  return has(pieces_, PieceKind::yyyy) || has(pieces_, PieceKind::yy) ||
         has(pieces_, PieceKind::month) || has(pieces_, PieceKind::day);
}

bool Template::has_check() const {
  return has(pieces_, PieceKind::check);
}

bool Template::shows_period(Reset reset) const {
  if (reset == Reset::none) return true;
  if (has_fiscal_year() || year_ != kCalendarYear) return has_fiscal_year();
  return (has(pieces_, PieceKind::yyyy) || has(pieces_, PieceKind::yy)) &&
         (reset < Reset::monthly || has(pieces_, PieceKind::month)) &&
         (reset < Reset::daily || has(pieces_, PieceKind::day));
}

bool Template::shows_periods_only(Reset reset) const {
  return std::ranges::all_of(
      pieces_, [&](const TemplatePiece& piece) { return is_fixed(piece.kind, reset, year_); });
}

bool Template::is_timeless() const {
  return !has_calendar_date() && !has_fiscal_year();
}

// ---- formats -----------------------------------------------------------------------------------

NumberFormat Template::format(std::chrono::year_month_day day, std::span<const std::string> fields,
                              Check check) const {
  NumberFormat format = counter_;
  format.output = NumberFormat::Output::string;
  format.pad = width_;
  format.check = check;
  bool behind = false;
  bool placed = false;
  for (const TemplatePiece& piece : pieces_) {
    std::string& part = behind ? format.suffix : format.prefix;
    if (piece.kind == PieceKind::counter) {
      behind = true;
    } else if (piece.kind == PieceKind::check) {
      format.check_in = behind ? NumberFormat::Part::suffix : NumberFormat::Part::prefix;
      format.check_at = part.size();
      placed = true;
    } else {
      part += piece.kind == PieceKind::field ? fields[piece.field] : text_of(piece, day, year_);
    }
  }
  if (!placed) format.check_at = format.suffix.size();
  return format;
}

std::optional<std::chrono::year_month_day> Template::day_in(std::string_view text,
                                                            std::span<const std::string> fields,
                                                            Check check,
                                                            std::chrono::year this_year) const {
  std::size_t others = has(pieces_, PieceKind::check) ? 0 : width_of(check);
  for (const TemplatePiece& piece : pieces_) others += size_of(piece, fields, check);
  if (text.size() <= others) return std::nullopt;
  const std::size_t counter = text.size() - others;
  int year = 2000;
  unsigned month = 1;
  unsigned day = 1;
  for (const TemplatePiece& piece : pieces_) {
    const bool is_counter = piece.kind == PieceKind::counter;
    std::string_view part = text.substr(0, is_counter ? counter : size_of(piece, fields, check));
    text.remove_prefix(part.size());
    const bool is_fiscal = piece.kind == PieceKind::fy || piece.kind == PieceKind::fy4;
    const bool is_year = piece.kind == PieceKind::yyyy || piece.kind == PieceKind::yy;
    const bool is_date =
        is_year || is_fiscal || piece.kind == PieceKind::month || piece.kind == PieceKind::day;
    if (!is_date) continue;
    if (is_fiscal) part = part.substr(0, 4);
    unsigned number = 0;
    const auto read = std::from_chars(part.data(), part.data() + part.size(), number);
    if (read.ec != std::errc{} || read.ptr != part.data() + part.size()) return std::nullopt;
    if (piece.kind == PieceKind::month) month = number;
    if (piece.kind == PieceKind::day) day = number;
    if (piece.kind == PieceKind::yyyy) year = static_cast<int>(number);
    if (piece.kind == PieceKind::yy && !has(pieces_, PieceKind::yyyy)) {
      year = latest_year(number, this_year);
    }
    if (is_fiscal) {
      // The template has no other token of the date.
      year = static_cast<int>(number);
      month = static_cast<unsigned>(year_.month());
      day = static_cast<unsigned>(year_.day());
    }
  }
  const std::chrono::year_month_day shown{std::chrono::year(year), std::chrono::month(month),
                                          std::chrono::day(day)};
  if (!shown.ok()) return std::nullopt;
  return shown;
}

NumberFormat Template::format_of_all(const Fixed& fixed, Check check) const {
  std::vector<std::string> texts;
  bool varies = has(pieces_, PieceKind::check) &&
                at(pieces_, PieceKind::check) < at(pieces_, PieceKind::counter);
  for (const std::string* text : fixed.fields) {
    varies = varies || text == nullptr;
    texts.push_back(text == nullptr ? std::string() : *text);
  }
  for (const TemplatePiece& piece : pieces_)
    varies = varies || !is_fixed(piece.kind, fixed.reset, year_);
  NumberFormat all = format(fixed.day, texts, check);
  if (!varies) return all;
  all.pattern = pattern(fixed, check);
  all.prefix = pieces_.front().text;  // empty unless it is a literal
  all.suffix.clear();
  all.check = Check::none;
  all.check_in = NumberFormat::Part::suffix;
  all.check_at = 0;
  return all;
}

std::string Template::pattern(const Fixed& fixed, Check check) const {
  const auto digits = [](std::size_t count) { return "[0-9]{" + std::to_string(count) + "}"; };
  std::string pattern = "^";
  for (const TemplatePiece& piece : pieces_) {
    if (piece.kind == PieceKind::counter) {
      pattern += "(-?" + digit_pattern(counter_.alphabet) + "{" +
                 std::to_string(std::max(width_, 1U)) + ",})";
    } else if (piece.kind == PieceKind::check) {
      pattern += digits(width_of(check));
    } else if (piece.kind == PieceKind::field) {
      const std::string* text = fixed.fields[piece.field];
      pattern += text == nullptr ? "[\\s\\S]*" : escaped_for_regex(*text);
    } else if (is_fixed(piece.kind, fixed.reset, year_)) {
      pattern += escaped_for_regex(text_of(piece, fixed.day, year_));
    } else {
      const bool is_long = piece.kind == PieceKind::yyyy || piece.kind == PieceKind::fy4 ||
                           piece.kind == PieceKind::fy;
      pattern += digits(is_long ? 4 : 2);
      if (piece.kind == PieceKind::fy) pattern += "-" + digits(2);
    }
  }
  if (!has(pieces_, PieceKind::check) && check != Check::none) pattern += digits(width_of(check));
  return pattern + "\\z";
}

}  // namespace idproxy::ids
