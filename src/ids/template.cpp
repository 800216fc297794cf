#include "idproxy/ids/template.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <optional>
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
    return result_.fault();
  }
  Template take() { return std::move(result_); }

 private:
  void literal(std::string_view text) {
    auto& pieces = result_.pieces_;
    if (pieces.empty() || pieces.back().kind != Kind::literal) pieces.push_back({Kind::literal});
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
    static constexpr std::array<std::pair<std::string_view, Kind>, 8> kNames{
        {{"counter", Kind::counter},
         {"yyyy", Kind::yyyy},
         {"yy", Kind::yy},
         {"MM", Kind::month},
         {"dd", Kind::day},
         {"fy", Kind::fy},
         {"fy4", Kind::fy4},
         {"check", Kind::check}}};
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
    const auto* known = std::ranges::find(kNames, name, &std::pair<std::string_view, Kind>::first);
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
    result_.pieces_.push_back({Kind::field, {}, index});
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

bool Template::has(Kind kind) const {
  return std::ranges::find(pieces_, kind, &Piece::kind) != pieces_.end();
}

/// The number of pieces in front of the first one of this kind.
std::size_t Template::at(Kind kind) const {
  return static_cast<std::size_t>(std::ranges::find(pieces_, kind, &Piece::kind) - pieces_.begin());
}

std::string Template::fault() const {
  const auto count = [this](Kind kind) { return std::ranges::count(pieces_, kind, &Piece::kind); };
  if (count(Kind::counter) == 0) return "has no {counter}: all values would be the same";
  if (count(Kind::counter) > 1) return "has {counter} twice";
  if (count(Kind::check) > 1) return "has {check} twice";
  return {};
}

bool Template::is_ambiguous(std::span<const std::string> fixed) const {
  const auto counter = pieces_.begin() + static_cast<std::ptrdiff_t>(at(Kind::counter));
  const std::vector<Piece> before(std::make_reverse_iterator(counter), pieces_.rend());
  if (counter_.permutation) {
    // Of one length: found from the side on which nothing varies.
    return varies(before, fixed) && varies({counter + 1, pieces_.end()}, fixed);
  }
  return touches_field(before, fixed) || touches_field({counter + 1, pieces_.end()}, fixed);
}

bool Template::joins_fields() const {
  bool follows = false;
  for (const Piece& piece : pieces_) {
    if (piece.kind == Kind::field) {
      if (follows) return true;
      follows = true;
    }
    if (piece.kind == Kind::literal && !only_digits(piece.text)) follows = false;
  }
  return false;
}

/// True if a field other than `fixed` is among them.
bool Template::varies(std::span<const Piece> pieces, std::span<const std::string> fixed) const {
  return std::ranges::any_of(pieces, [&](const Piece& piece) {
    return piece.kind == Kind::field &&
           std::ranges::find(fixed, fields_[piece.field]) == fixed.end();
  });
}

/// `pieces`: from the counter on. True if nothing separates it from a field other than `fixed`.
bool Template::touches_field(std::span<const Piece> pieces,
                             std::span<const std::string> fixed) const {
  for (const Piece& piece : pieces) {
    const bool is_field = piece.kind == Kind::field;
    if (is_field && std::ranges::find(fixed, fields_[piece.field]) == fixed.end()) return true;
    if (piece.kind == Kind::literal && !only_digits(piece.text)) return false;
  }
  return false;
}

bool Template::has_check() const {
  return has(Kind::check);
}

bool Template::shows_period(Reset reset) const {
  if (reset == Reset::none) return true;
  if (has_fiscal_year() || year_ != kCalendarYear) return has_fiscal_year();
  return (has(Kind::yyyy) || has(Kind::yy)) && (reset < Reset::monthly || has(Kind::month)) &&
         (reset < Reset::daily || has(Kind::day));
}

bool Template::shows_periods_only(Reset reset) const {
  return std::ranges::all_of(pieces_,
                             [&](const Piece& piece) { return is_fixed(piece.kind, reset); });
}

bool Template::is_timeless() const {
  return !has_calendar_date() && !has_fiscal_year();
}

// ---- formats -----------------------------------------------------------------------------------

/// Of pieces that depend on nothing but the day.
std::string Template::text_of(const Piece& piece, std::chrono::year_month_day day) const {
  const auto year = static_cast<unsigned>(static_cast<int>(day.year()));
  const int first = first_year_of(day, year_);
  switch (piece.kind) {
    case Kind::literal:
      return piece.text;
    case Kind::yyyy:
      return padded(year, 4);
    case Kind::yy:
      return padded(year % 100, 2);
    case Kind::month:
      return padded(static_cast<unsigned>(day.month()), 2);
    case Kind::day:
      return padded(static_cast<unsigned>(day.day()), 2);
    case Kind::fy:
      return digits_of_year(first) + "-" + padded(static_cast<unsigned>(first + 1) % 100, 2);
    case Kind::fy4:
      return digits_of_year(first);
    case Kind::counter:
    case Kind::field:
    case Kind::check:
      break;
  }
  return {};
}

NumberFormat Template::format(std::chrono::year_month_day day, std::span<const std::string> fields,
                              Check check) const {
  NumberFormat format = counter_;
  format.output = NumberFormat::Output::string;
  format.pad = width_;
  format.check = check;
  bool behind = false;
  bool placed = false;
  for (const Piece& piece : pieces_) {
    std::string& part = behind ? format.suffix : format.prefix;
    if (piece.kind == Kind::counter) {
      behind = true;
    } else if (piece.kind == Kind::check) {
      format.check_in = behind ? NumberFormat::Part::suffix : NumberFormat::Part::prefix;
      format.check_at = part.size();
      placed = true;
    } else {
      part += piece.kind == Kind::field ? fields[piece.field] : text_of(piece, day);
    }
  }
  if (!placed) format.check_at = format.suffix.size();
  return format;
}

/// In bytes; 0 for the counter, the only piece whose size varies.
std::size_t Template::size_of(const Piece& piece, std::span<const std::string> fields,
                              Check check) const {
  switch (piece.kind) {
    case Kind::literal:
      return piece.text.size();
    case Kind::fy:
      return 4 + 1 + 2;
    case Kind::fy4:
    case Kind::yyyy:
      return 4;
    case Kind::yy:
    case Kind::month:
    case Kind::day:
      return 2;
    case Kind::field:
      return fields[piece.field].size();
    case Kind::check:
      return width_of(check);
    case Kind::counter:
      break;
  }
  return 0;
}

std::optional<std::chrono::year_month_day> Template::day_in(std::string_view text,
                                                            std::span<const std::string> fields,
                                                            Check check,
                                                            std::chrono::year this_year) const {
  std::size_t others = has(Kind::check) ? 0 : width_of(check);
  for (const Piece& piece : pieces_) others += size_of(piece, fields, check);
  if (text.size() <= others) return std::nullopt;
  const std::size_t counter = text.size() - others;
  int year = 2000;
  unsigned month = 1;
  unsigned day = 1;
  for (const Piece& piece : pieces_) {
    const bool is_counter = piece.kind == Kind::counter;
    std::string_view part = text.substr(0, is_counter ? counter : size_of(piece, fields, check));
    text.remove_prefix(part.size());
    const bool is_fiscal = piece.kind == Kind::fy || piece.kind == Kind::fy4;
    const bool is_year = piece.kind == Kind::yyyy || piece.kind == Kind::yy;
    const bool is_date =
        is_year || is_fiscal || piece.kind == Kind::month || piece.kind == Kind::day;
    if (!is_date) continue;
    if (is_fiscal) part = part.substr(0, 4);
    unsigned number = 0;
    const auto read = std::from_chars(part.data(), part.data() + part.size(), number);
    if (read.ec != std::errc{} || read.ptr != part.data() + part.size()) return std::nullopt;
    if (piece.kind == Kind::month) month = number;
    if (piece.kind == Kind::day) day = number;
    if (piece.kind == Kind::yyyy) year = static_cast<int>(number);
    if (piece.kind == Kind::yy && !has(Kind::yyyy)) year = latest_year(number, this_year);
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

/// Whether a piece does not change before the next reset.
bool Template::is_fixed(Kind kind, Reset reset) const {
  if (kind == Kind::fy || kind == Kind::fy4) return reset >= Reset::yearly;
  const bool is_year = kind == Kind::yyyy || kind == Kind::yy;
  if (is_year && year_ != kCalendarYear) return reset >= Reset::monthly;
  if (is_year) return reset >= Reset::yearly;
  if (kind == Kind::month) return reset >= Reset::monthly;
  return kind != Kind::day || reset == Reset::daily;
}

NumberFormat Template::format_of_all(const Fixed& fixed, Check check) const {
  std::vector<std::string> texts;
  bool varies = has(Kind::check) && at(Kind::check) < at(Kind::counter);
  for (const std::string* text : fixed.fields) {
    varies = varies || text == nullptr;
    texts.push_back(text == nullptr ? std::string() : *text);
  }
  for (const Piece& piece : pieces_) varies = varies || !is_fixed(piece.kind, fixed.reset);
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
  for (const Piece& piece : pieces_) {
    if (piece.kind == Kind::counter) {
      pattern += "(-?" + digit_pattern(counter_.alphabet) + "{" +
                 std::to_string(std::max(width_, 1U)) + ",})";
    } else if (piece.kind == Kind::check) {
      pattern += digits(width_of(check));
    } else if (piece.kind == Kind::field) {
      const std::string* text = fixed.fields[piece.field];
      pattern += text == nullptr ? "[\\s\\S]*" : escaped_for_regex(*text);
    } else if (is_fixed(piece.kind, fixed.reset)) {
      pattern += escaped_for_regex(text_of(piece, fixed.day));
    } else {
      const bool is_long =
          piece.kind == Kind::yyyy || piece.kind == Kind::fy4 || piece.kind == Kind::fy;
      pattern += digits(is_long ? 4 : 2);
      if (piece.kind == Kind::fy) pattern += "-" + digits(2);
    }
  }
  if (!has(Kind::check) && check != Check::none) pattern += digits(width_of(check));
  return pattern + "\\z";
}

}  // namespace idproxy::ids
