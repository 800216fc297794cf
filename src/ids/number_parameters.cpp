#include "ids/number_parameters.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "idproxy/ids/number_format.hpp"
#include "ids/encoding.hpp"

namespace idproxy::ids {
namespace {

using namespace std::chrono_literals;
using Output = NumberFormat::Output;

enum class Width { any, own };

/// Reads the key `format`, and the text around the number with `read_text`.
template <class ReadText>
void read_format_into(NumberFormat& read, Parameters& rule, const ReadText& read_text,
                      Width width = Width::any) {
  Parameters& format = rule.section("format");
  if (width == Width::any) read.pad = static_cast<std::uint32_t>(format.integer("pad", 0, 34, 0));
  read.prefix = read_text("prefix", format);
  read.suffix = read_text("suffix", format);
  if (rule.given("format") && read.output != Output::string) {
    rule.error("format", "needs output: string");
  }
}

std::string read_affix(std::string_view key, Parameters& format) {
  std::string text = format.text(key, "");
  if (text.find_first_of("{}") != std::string::npos) {
    format.warning(key,
                   "is stored as it is, braces included: tokens such as {yyyy} belong into "
                   "`template`");
  }
  return text;
}

void refuse_prefix(Parameters& rule) {
  if (!rule.given("prefix")) return;
  static_cast<void>(rule.text("prefix", ""));  // or it would be unknown, too
  rule.error("prefix", "is for other strategies: put it into `format.prefix`, or into `template`");
}

std::optional<std::uint32_t> read_size(std::string_view key, Parameters& parameters) {
  const auto size = parameters.integer_unless(key, "auto", 1, CounterSpec::Block::kMost);
  return size ? std::optional(static_cast<std::uint32_t>(*size)) : std::nullopt;
}

std::optional<Template> read_template(Parameters& rule, const NumberFormat& format) {
  const auto text = rule.optional_text("template");
  if (!text || text->empty()) return std::nullopt;
  if (format.output != Output::string) rule.error("template", "needs output: string");
  if (rule.given("format")) rule.error("format", "has no place beside `template`, which says all");
  auto parsed = Template::parse(*text);
  if (const auto* fault = std::get_if<std::string>(&parsed)) {
    rule.error("template", *fault);
    return std::nullopt;
  }
  auto& read = std::get<Template>(parsed);
  read.write_as(format);
  return std::move(read);
}

/// "04-01"; nothing for what is no day of every year.
std::optional<YearStart> read_day(std::string_view text) {
  const auto digits = [&](std::size_t at) {
    unsigned number = 0;
    const auto* const end = text.data() + at + 2;
    const auto read = std::from_chars(text.data() + at, end, number);
    return read.ec == std::errc{} && read.ptr == end ? number : 0;
  };
  if (text.size() != 5 || text[2] != '-') return std::nullopt;
  const YearStart day{std::chrono::month(digits(0)), std::chrono::day(digits(3))};
  const bool is_leap_day = day == std::chrono::February / 29;
  return day.ok() && !is_leap_day ? std::optional(day) : std::nullopt;
}

/// `reset: {yearly: "04-01"}` begins with this day of each year.
void read_reset(Parameters& rule, SequenceOptions& options) {
  if (!rule.is_section("reset")) {
    options.reset =
        static_cast<Reset>(rule.choice("reset", {"none", "yearly", "monthly", "daily"}));
  } else {
    Parameters& reset = rule.section("reset");
    const std::string text = reset.required_text("yearly");
    options.reset = Reset::yearly;
    const auto day = text.empty() ? kCalendarYear : read_day(text);
    if (!day) {
      reset.error("yearly",
                  "must be the first day of the year as MM-DD, such as \"04-01\"; not "
                  "02-29, which not every year has");
    }
    options.year = day.value_or(kCalendarYear);
    if (options.text) options.text->begin_years(options.year);
  }
  if (!options.text || !options.text->has_fiscal_year()) return;
  if (options.reset != Reset::yearly || !rule.is_section("reset")) {
    rule.error("template",
               "has {fy} or {fy4}, the fiscal year: `reset` must say when it begins, as in reset: "
               "{yearly: \"04-01\"}");
  } else if (options.text->has_calendar_date()) {
    rule.error("template",
               "has {fy} or {fy4}, the fiscal year, beside a date of the calendar: leave {yyyy}, "
               "{yy}, {MM} and {dd} out");
  }
}

TimeZone read_zone(Parameters& rule, const SequenceOptions& options) {
  const std::string name = rule.text("timezone", "UTC");
  const bool has_date =
      options.reset != Reset::none || (options.text && !options.text->is_timeless());
  if (rule.given("timezone") && !has_date) {
    rule.warning("timezone",
                 "has no effect: the rule has neither `reset` nor a template with a date");
  }
  if (auto zone = TimeZone::find(name)) return *std::move(zone);
  rule.error("timezone",
             "must be a time zone that this host knows, such as UTC or Europe/Berlin "
             "(names below /usr/share/zoneinfo, not localtime; Debian's package is tzdata)");
  return {};
}

void read_check_of(Parameters& rule, SequenceOptions& options, NumberFormat& format) {
  options.check = read_check(rule);
  const bool shows = options.text && options.text->has_check();
  if (shows && options.check == Check::none) {
    rule.error("template", "has {check}, but `check` does not say how to compute it");
  }
  if (options.check == Check::none) return;
  if (format.output != Output::string) rule.error("check", "needs output: string");
  if (format.alphabet != alphabet_named("digits")) {
    rule.error("check", std::string("is computed of decimal digits: leave out ") +
                            (format.permutation ? "`alphabet`" : "`encoding`") + ", or `check`");
  }
  format.check = options.check;
  format.check_in = NumberFormat::Part::suffix;
  format.check_at = format.suffix.size();
}

void read_scope(Parameters& rule, SequenceOptions& options) {
  options.scope = options.scope_as_written = rule.texts("scope");
  std::ranges::sort(options.scope);
  if (std::ranges::adjacent_find(options.scope) != options.scope.end()) {
    rule.error("scope", "must not name a field twice");
  }
  options.on_missing =
      static_cast<SequenceOptions::OnMissing>(rule.choice("on_missing_scope", {"error", "null"}));
  options.most = static_cast<std::uint32_t>(rule.integer("max_scopes", 1, 10'000'000, 10'000));
}

/// The fields of `scope` are the same in a sequence, and its index tells the sequences apart; but
/// that of _id has no other field.
void check_ambiguity(Parameters& rule, const SequenceOptions& options, bool is_hidden) {
  const bool is_id = rule.text("field", "") == "_id";
  const std::span<const std::string> scope = options.scope;
  if (!options.text || !options.text->is_ambiguous(is_id ? scope.first(0) : scope)) return;
  if (is_hidden) {
    return rule.error("template",
                      "has {field:…} on both sides of {counter}: two numbers could have the same "
                      "value. Leave those of one side out" +
                          std::string(is_id ? "" : ", or name them in `scope`"));
  }
  rule.error("template",
             std::string("has {field:…} next to {counter}, without text other than digits in "
                         "between: a1 and 2, a and 12 would be the same value. Write text in "
                         "between") +
                 (is_id ? "" : ", or name the field in `scope`"));
}

bool shows_all(const SequenceOptions& options) {
  return options.text && !options.repeats() &&
         std::ranges::all_of(options.scope, [&](const std::string& field) {
           return std::ranges::find(options.text->fields(), field) != options.text->fields().end();
         });
}

/// The index on _id tells values of several sequences apart only if the values do so themselves.
void check_id(Parameters& rule, const SequenceOptions& options) {
  if (rule.text("field", "") != "_id") return;
  if (shows_all(options)) {
    if (options.scope.empty() || !options.text->joins_fields()) return;
    return rule.error("template",
                      "has a {field:…} next to another, without text other than digits in "
                      "between: a and bc, ab and c would be the same value. Write text in between");
  }
  if (!options.scope.empty()) {
    rule.error("scope",
               "on _id needs a template that shows each of its fields: the sequences' "
               "values would be the same");
  } else if (options.repeats()) {
    rule.error("reset", "on _id needs a template that shows the period: values would repeat");
  }
}

/// A template that has nothing but the number is a format, which costs less.
void write_plainly(SequenceOptions& options, NumberFormat& format) {
  if (!options.text || !options.text->is_timeless() || !options.text->fields().empty()) return;
  NumberFormat all = options.text->format_of_all({}, options.check);
  if (!all.pattern.empty()) return;
  format = std::move(all);
  options.text.reset();
}

}  // namespace

NumberFormat read_format(Parameters& rule) {
  NumberFormat read;
  read.output = static_cast<Output>(rule.choice("output", {"int64", "int32", "string"}));
  if (const std::string_view digits = read_encoding(rule); !digits.empty()) {
    if (rule.given("output") && read.output != Output::string) {
      rule.error("output",
                 "must be string beside `encoding`, which makes the value a text: leave it out");
    }
    rule.falls_back_to("output", "string");
    read.output = Output::string;
    read.alphabet = digits;
  }
  read_format_into(read, rule, read_affix);
  refuse_prefix(rule);
  return read;
}

NumberFormat read_hidden_format(Parameters& rule) {
  NumberFormat read;
  const bool is_text = rule.choice("output", {"int64", "string"}) == 1;
  const bool has_alphabet = rule.given("alphabet");
  if (has_alphabet && !is_text && rule.given("output")) {
    rule.error("output",
               "must be string beside `alphabet`, which makes the value a text: leave it out");
  }
  if (has_alphabet) rule.falls_back_to("output", "string");
  if (is_text || has_alphabet) read.output = Output::string;
  read_format_into(read, rule, read_affix, Width::own);
  refuse_prefix(rule);
  return read;
}

NumberFormat read_plain_format(Parameters& rule) {
  NumberFormat read;
  if (rule.choice("output", {"int64", "string"}) == 1) read.output = Output::string;
  read_format_into(read, rule,
                   [](std::string_view key, Parameters& format) { return format.text(key, ""); });
  return read;
}

CounterSpec::Block read_block(Parameters& rule) {
  CounterSpec::Block read;
  if (!rule.is_section("block")) {
    read.size = read_size("block", rule);
    return read;
  }
  Parameters& block = rule.section("block");
  read.size = read_size("size", block);
  for (const char* key : {"prefetch", "give_back", "idle", "adaptive", "target", "min", "max"}) {
    block.gone(key);
  }
  return read;
}

namespace {

void read_heal_into(CounterSpec::Heal& read, Parameters& heal) {
  read.after = static_cast<std::uint32_t>(heal.integer("after", 1, 1'000'000, read.after));
  read.max_jump =
      heal.integer("max_jump", 0, std::numeric_limits<std::int64_t>::max(), read.max_jump);
  read.at_start = heal.boolean("at_start", read.at_start);
  if (read.at_start && read.mode == CounterSpec::Heal::Mode::off) {
    heal.warning("at_start", "has no effect with mode: off");
  }
}

}  // namespace

CounterSpec::Heal read_heal(Parameters& heal) {
  CounterSpec::Heal read;
  read.mode = static_cast<CounterSpec::Heal::Mode>(heal.choice("mode", {"max", "gap", "off"}));
  read_heal_into(read, heal);
  return read;
}

CounterSpec::Heal read_hidden_heal(Parameters& heal) {
  using Mode = CounterSpec::Heal::Mode;
  CounterSpec::Heal read;
  read.mode = heal.choice("mode", {"gap", "off"}) == 0 ? Mode::gap : Mode::off;
  read_heal_into(read, heal);
  read.by = heal.optional_text("by").value_or("");
  return read;
}

CounterSpec::OnStoreDown read_on_store_down(Parameters& on_store_down) {
  using Action = CounterSpec::OnStoreDown::Action;
  CounterSpec::OnStoreDown read;
  read.action = static_cast<Action>(on_store_down.choice("action", {"fail", "wait"}));
  read.wait = on_store_down.duration("wait", 0ms, 2s, read.wait);  // Source::kPatience
  return read;
}

SequenceOptions read_sequences(Parameters& rule, NumberFormat& format) {
  SequenceOptions options;
  options.text = read_template(rule, format);
  read_reset(rule, options);
  options.zone = read_zone(rule, options);
  read_check_of(rule, options, format);
  read_scope(rule, options);
  check_id(rule, options);
  check_ambiguity(rule, options, static_cast<bool>(format.permutation));
  write_plainly(options, format);
  return options;
}

void check_gap(Parameters& rule, const SequenceOptions& options, const CounterSpec::Heal& heal) {
  if (heal.mode != CounterSpec::Heal::Mode::gap || !options.text) return;
  const std::string zero = "0";
  std::vector<const std::string*> fixed;
  for (const std::string& field : options.text->fields()) {
    const bool in_scope = std::ranges::find(options.scope, field) != options.scope.end();
    fixed.push_back(in_scope ? &zero : nullptr);
  }
  const std::chrono::year_month_day day(std::chrono::sys_days{});
  if (options.text->format_of_all({day, options.reset, fixed}, options.check).pattern.empty())
    return;
  rule.section("heal").error("mode",
                             "gap needs a template whose text differs within a sequence only in "
                             "{counter} and a {check} behind it: add `reset` or `scope`");
}

std::int64_t read_width(Parameters& rule, const NumberFormat& format,
                        const SequenceOptions& options, const Course& course) {
  constexpr std::uint32_t kDigits = 18;  // all numbers of so many digits fit int64
  const bool fails = rule.choice("on_width", {"widen", "error"}) == 1;
  const std::uint32_t width = options.text ? options.text->width() : format.pad;
  if (rule.given("on_width") && width == 0) {
    rule.error("on_width", "needs a template with a width, such as {counter:06}");
  }
  if (format.alphabet.size() != 10 && width == 0) {
    rule.note("encoding",
              "texts are as short as their numbers, so that their order in an index is not that of "
              "the numbers; with a width it is: format.pad, or {counter:06} in a template");
  }
  if (!fails || width == 0 || width > kDigits) return course.max;
  const std::int64_t most = largest_number(width, format.alphabet.size());
  if (course.start > most || course.start < -most) {
    rule.error("start", "does not fit the template's width of " + std::to_string(width));
  }
  return course.step > 0 ? std::min(course.max, most) : std::max(course.max, -most);
}

}  // namespace idproxy::ids
