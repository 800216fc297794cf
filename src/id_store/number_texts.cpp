#include "id_store/number_texts.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "id_store/index.hpp"
#include "id_store/reply_reasons.hpp"
#include "id_store/server_text.hpp"
#include "idproxy/base/printable.hpp"
#include "idproxy/base/regex.hpp"
#include "idproxy/id_store/stored_value.hpp"
#include "idproxy/ids/number_format.hpp"

namespace idproxy::id_store {
namespace {

using ids::CounterField;
using ids::NumberFormat;
using mongo::Array;
using mongo::Document;
using mongo::Reply;
using Reading = FieldNumbers::Reading;

/// At least one digit, even without a pad.
std::size_t width_of(const ids::NumberFormat& format) {
  return std::max<std::size_t>(format.pad, 1);
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// A pattern for texts with the same digits: what a collation calls equal differs in the rest.
std::string pattern_of_digits(std::string_view text) {
  std::string pattern = "[^0-9]*";
  for (const char c : text) {
    if (is_digit(c)) pattern.append(1, c).append("[^0-9]*");
  }
  return pattern;
}

using Pattern = std::string (*)(std::string_view text);

/// The pattern for the text behind the number, check digits included.
std::string pattern_behind(const ids::NumberFormat& format, Pattern pattern = escaped_for_regex) {
  const std::string_view suffix = format.suffix;
  if (format.check == ids::Check::none) return pattern(suffix);
  return pattern(suffix.substr(0, format.check_at)) + "[0-9]{" +
         std::to_string(ids::width_of(format.check)) + "}" +
         pattern(suffix.substr(format.check_at));
}

/// The texts of a class that is_wide() does not say of, from the first to the last one.
TextRange range_of(TextClass which, const ids::NumberFormat& format) {
  const std::int64_t most = ids::largest_number(width_of(format), format.alphabet.size());
  const bool negative = is_negative(which);
  return {ids::number_text(negative ? -1 : 0, format),
          ids::number_text(negative ? -most : most, format)};
}

bool is_set(const FieldPlace& place, std::string_view option) {
  const auto found = bson::find(as_bytes(place.collation), option);
  return found && found->type == bson::Type::boolean && found->value[0] != 0;
}

TextOrder order_in(const FieldPlace& place) {
  if (place.collation.empty()) return TextOrder::of_bytes;
  return is_set(place, "numericOrdering") ? TextOrder::of_numbers : TextOrder::of_collation;
}

/// True if the collation calls "a" and "A" equal.
bool ignores_case(const FieldPlace& place) {
  if (place.collation.empty() || is_set(place, "caseLevel")) return false;
  const auto strength = bson::find(as_bytes(place.collation), "strength");
  return strength && strength->as_integer().value_or(3) < 3;
}

constexpr std::size_t kPage = 1000;
constexpr std::size_t kMostPages =
    200;  // per job; if all their numbers are taken, the next job continues
constexpr std::size_t kEnoughPages = 10;  // after these, a shorter run is enough
// Where the documents that were read do not tell enough, so many times as many are read, up to
// these.
constexpr std::size_t kMoreDocuments = 8;
constexpr std::size_t kMostRead = 1'000'000;
constexpr std::chrono::milliseconds kIndexLimit{5000};
constexpr std::chrono::milliseconds kPatternLimit{30'000};  // reads all texts of the index
constexpr std::chrono::milliseconds kLeastLimit{1};         // 0 would be none
constexpr std::string_view kTooLong = " (reading the whole collection took longer than `scan`)";

bool is_text(const CounterField& field) {
  return field.format.output == NumberFormat::Output::string;
}

bool is_hidden(const CounterField& field) {
  return static_cast<bool>(field.format.permutation);
}

Array values_of(std::span<const std::int64_t> numbers, const CounterField& field) {
  Array values;
  ids::Values written;
  for (const std::int64_t number : numbers) {
    if (is_text(field) || is_hidden(field)) {
      written.clear();
      ids::append_number(number, field.format, written);
      values.push(written.type(), written[0]);
    } else {
      values.push(number);
    }
  }
  return values;
}

/// The number that a stored one of any type hides.
std::optional<std::int64_t> hidden_by(std::optional<std::int64_t> stored,
                                      const CounterField& field) {
  if (!stored || !is_hidden(field)) return stored;
  ids::Values value;
  store_i64(value.add(bson::Type::int64, 8), *stored);
  return ids::read_number(value.type(), value[0], field.format);
}

std::string digits_in(std::string_view text) {
  std::string digits;
  std::ranges::copy_if(text, std::back_inserter(digits), is_digit);
  return digits;
}

std::optional<std::int64_t> decimal_in(std::string_view digits) {
  std::int64_t number = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return read.ec == std::errc() ? std::optional(number) : std::nullopt;
}

/// The number in a text that a collation may call equal to one of the format, by its digits; with
/// numericOrdering, zeros in front of them do not count.
std::optional<std::int64_t> number_in_equal(std::string_view text, const NumberFormat& format) {
  const std::string digits = digits_in(text);
  const std::size_t before = digits_in(format.prefix).size();
  const std::size_t behind = digits_in(format.suffix).size() + ids::width_of(format.check);
  if (digits.size() <= before + behind) return std::nullopt;
  const std::string_view all = digits;
  const std::string_view its = all.substr(before, all.size() - before - behind);
  const auto number = format.permutation ? format.permutation->read(its) : decimal_in(its);
  if (!number) return std::nullopt;
  const std::string own = digits_in(ids::number_text(*number, format));
  const std::string shown = format.permutation ? std::string(its) : std::to_string(*number);
  const bool is_equal = own.starts_with(all.substr(0, before)) &&
                        own.ends_with(all.substr(all.size() - behind)) &&
                        own.find(shown, before) != std::string::npos;
  return is_equal ? number : std::nullopt;
}

/// A number in a field.
struct Stored {
  std::int64_t number;
  bool is_certain;  ///< false: perhaps a collation calls the text equal to that of the number
};

std::optional<Stored> number_of(const bson::Element& element, const FieldPlace& place) {
  const CounterField& field = *place.field;
  const auto number = is_text(field) ? ids::read_number(element.type, element.value, field.format)
                                     : hidden_by(floor_of(element), field);
  if (number) return Stored{*number, true};
  const bool may_differ = is_text(field) && order_in(place) != TextOrder::of_bytes &&
                          field.format.pattern.empty() && element.type == bson::Type::string;
  const auto its = may_differ ? number_in_equal(element.text(), field.format) : std::nullopt;
  return its ? std::optional(Stored{*its, false}) : std::nullopt;
}

/// All values at a path, including those in arrays, as an index sees them.
void add_elements(Bytes document, std::string_view path, std::vector<bson::Element>& found);

void add_element(const bson::Element& element, std::string_view rest,
                 std::vector<bson::Element>& found) {
  if (element.type == bson::Type::array) {
    for (const bson::Element& each : bson::Elements(element.value)) {
      if (each.type != bson::Type::array) add_element(each, rest, found);
    }
  } else if (rest.empty()) {
    found.push_back(element);
  } else if (element.type == bson::Type::document) {
    add_elements(element.value, rest, found);
  }
}

void add_elements(Bytes document, std::string_view path, std::vector<bson::Element>& found) {
  const std::size_t dot = path.find('.');
  const auto rest = dot == path.npos ? std::string_view() : path.substr(dot + 1);
  if (const auto element = bson::find(document, path.substr(0, dot))) {
    add_element(*element, rest, found);
  }
}

std::vector<Stored> numbers_in(Bytes document, const FieldPlace& place) {
  std::vector<bson::Element> elements;
  add_elements(document, place.field->field, elements);
  std::vector<Stored> numbers;
  for (const bson::Element& element : elements) {
    if (const auto number = number_of(element, place)) numbers.push_back(*number);
  }
  return numbers;
}

/// The number of a document whose field is none of an array.
std::optional<Stored> only_number_in(Bytes document, const FieldPlace& place) {
  const auto element = find_path(document, place.field->field);
  return element ? number_of(*element, place) : std::nullopt;
}

/// {$regexFind: {input: "$field", regex: pattern}}. An array that holds a matching text is matched,
/// too; $regexFind would fail with it.
Document find_in_text(const std::string& field, const std::string& pattern, bool any_case) {
  const std::string path = "$" + field;
  const Document is_one{"$eq", Array{Document{"$type", path}, "string"}};
  const Document text{"$cond", Array{is_one, path, ""}};
  return {"$regexFind", {{"input", text}, {"regex", pattern}, {"options", any_case ? "i" : ""}}};
}

/// An expression for the number in digits, `otherwise` where these are null.
Document number_in_digits(const Document& digits, const NumberFormat& format,
                          std::int64_t otherwise) {
  if (format.alphabet.size() == 10) {
    return {"$convert",
            {{"input", digits}, {"to", "long"}, {"onError", otherwise}, {"onNull", otherwise}}};
  }
  const Document size{"$strLenBytes", {"$ifNull", Array{digits, ""}}};
  const Document character{"$substrBytes", Array{digits, "$$this", 1}};
  const Document digit{"$indexOfBytes", Array{format.alphabet, character}};
  const Document shifted{"$multiply",
                         Array{"$$value", static_cast<std::int64_t>(format.alphabet.size())}};
  const Document sum{"$reduce",
                     {{"input", {"$range", Array{0, size}}},
                      {"initialValue", std::int64_t{0}},
                      {"in", {"$add", Array{shifted, digit}}}}};
  return {"$cond", Array{Document{"$gt", Array{size, 0}}, sum, otherwise}};
}

/// The command that reads the `count` numbers furthest ahead, up to the counter's max, from texts
/// that vary around them (NumberFormat::pattern), as documents {n: number}. Their order is not that
/// of the texts, so the server looks at each text.
Document numbers_in_varying_texts(const FieldPlace& place, const Numbers& numbers,
                                  std::size_t count, std::chrono::milliseconds limit) {
  constexpr std::int64_t kNone = INT64_MIN;  // stands for a text that is no number
  const NumberFormat& format = place.field->format;
  const bool by_bytes = order_in(place) == TextOrder::of_bytes;
  Document texts{{"$gte", by_bytes ? format.prefix : ""}, {"$regex", format.pattern}};
  if (ignores_case(place)) texts.add("$options", "i");
  const Document found = find_in_text(place.field->field, format.pattern, ignores_case(place));
  // The first group of what has been found, as a number.
  const Document digits{"$arrayElemAt", Array{"$f.captures", 0}};
  const Document number = number_in_digits(digits, format, kNone);
  const bool up = numbers.upwards();
  Document bracket{{up ? "$lte" : "$gte", numbers.max()}, {"$gt", kNone}};
  const Array stages{Document{"$match", filter_in(place, texts)},
                     Document{"$project", {{"_id", 0}, {"f", found}}},
                     Document{"$project", {"n", number}},
                     Document{"$match", {"n", bracket}},
                     Document{"$sort", {"n", up ? -1 : 1}},
                     Document{"$limit", static_cast<std::int64_t>(count)}};
  Document command{{"aggregate", place.ns.collection},
                   {"pipeline", stages},
                   {"cursor", Document()},
                   {"maxTimeMS", std::int64_t{limit.count()}}};
  if (!place.hint.empty()) command.add("hint", place.hint);
  return command.add("collation", collation_in(place));
}

/// Looks for a run of `count` free numbers among candidates in order.
class Row {
 public:
  explicit Row(std::uint64_t count) : count_(count) {}
  void see(std::int64_t number, bool is_taken) {
    if (is_taken) {
      row_ = {};
    } else if (row_.count++ == 0) {
      row_.first = number;
    }
    if (row_.count > longest_.count) longest_ = row_;
  }
  [[nodiscard]] bool is_done() const { return longest_.count >= count_; }
  [[nodiscard]] const ids::Range& longest() const { return longest_; }

 private:
  std::uint64_t count_;
  ids::Range row_{};
  ids::Range longest_{};
};

}  // namespace

TextClass class_of(std::int64_t number, const ids::NumberFormat& format) {
  const bool negative = number < 0;
  if (ids::digits_in(number, format) > width_of(format))
    return negative ? TextClass::wide_negative : TextClass::wide;
  return negative ? TextClass::negative : TextClass::positive;
}

mongo::Document texts_of(TextClass which, const ids::NumberFormat& format, const TextRange& within,
                         TextOrder order) {
  const std::string begin = format.prefix + (is_negative(which) ? "-" : "");
  const std::string width = std::to_string(width_of(format));
  const bool by_bytes = order == TextOrder::of_bytes;
  const bool may_differ = !by_bytes && which == TextClass::positive;
  // The number of digits distinguishes the classes: wide texts have more, without leading zeros.
  const std::string_view alphabet = format.alphabet;
  const std::string digit = ids::digit_pattern(alphabet);
  std::string digits = is_wide(which)
                           ? ids::digit_pattern(alphabet.substr(1)) + digit + "{" + width + ",}"
                           : digit + "{" + width + "}";
  const bool has_any_zeros = may_differ && order == TextOrder::of_numbers;
  if (has_any_zeros) digits = "[0-9]+";
  TextRange range = within;
  if (!by_bytes && !is_wide(which)) {
    const TextRange all = range_of(which, format);
    range = {range.from ? range.from : all.from, range.to ? range.to : all.to};
  }
  mongo::Document texts{"$gte", range.from.value_or(begin + alphabet[is_wide(which) ? 1 : 0])};
  if (range.to) {
    texts.add("$lte", *range.to);
  } else if (by_bytes) {
    texts.add("$lt", begin + static_cast<char>(alphabet.back() + 1));
  }
  const Pattern pattern = may_differ ? pattern_of_digits : escaped_for_regex;
  return texts.add("$regex",
                   "^" + pattern(begin) + digits + pattern_behind(format, pattern) + "\\z");
}

std::string pattern_of_all(const ids::NumberFormat& format) {
  return "^" + escaped_for_regex(format.prefix) + "(" + ids::digit_pattern(format.alphabet) + "{" +
         std::to_string(width_of(format)) + ",})" + pattern_behind(format) + "\\z";
}

bool has_hidden(std::span<const CounterField> fields) {
  return std::ranges::any_of(fields, is_hidden);
}

bool has_pattern(std::span<const CounterField> fields) {
  return std::ranges::any_of(
      fields, [](const CounterField& field) { return !field.format.pattern.empty(); });
}

namespace {

std::chrono::milliseconds limit_of(const FieldPlace& place,
                                   std::optional<std::chrono::steady_clock::time_point> scans_end) {
  if (place.access != FieldPlace::Access::scan || !scans_end) return kIndexLimit;
  const auto left = *scans_end - std::chrono::steady_clock::now();
  return std::max(std::chrono::duration_cast<std::chrono::milliseconds>(left), kLeastLimit);
}

Document texts_up_to_max(const Numbers& numbers, TextClass which, const FieldPlace& place) {
  const NumberFormat& format = place.field->format;
  TextRange within;
  if (class_of(numbers.max(), format) == which) {
    const bool is_first = is_negative(which) == numbers.upwards();
    (is_first ? within.from : within.to) = ids::number_text(numbers.max(), format);
  }
  return texts_of(which, format, within, order_in(place));
}

/// The next numbers, up to the counter's max.
std::vector<std::int64_t> page_of(const Numbers& all, std::int64_t from) {
  std::vector<std::int64_t> numbers;
  std::optional<std::int64_t> next = from;
  while (next && !all.is_beyond_max(*next) && numbers.size() < kPage) {
    numbers.push_back(*next);
    next = all.after(*next);
  }
  return numbers;
}

/// The first of them, at most as many as a job looks up at once.
std::vector<std::int64_t> first_of(const Numbers& all, std::span<const ids::Range> ranges) {
  std::vector<std::int64_t> numbers;
  for (const ids::Range& range : ranges) {
    for (std::uint64_t i = 0; i < range.count && numbers.size() < kEnoughPages * kPage; ++i) {
      numbers.push_back(*all.after(range.first, i));
    }
  }
  return numbers;
}

ids::Error no_index(mongo::Client& client, const FieldPlace& place, std::string_view why) {
  return exhausted(Reason{
      "the values of " + text_of(place) + " cannot be read without an index" + std::string(why),
      ": ", advise_index(client, place.ns, unique_field(*place.field))});
}

ids::Result<void> find_places(FieldJob& job) {
  if (job.places) return {};
  auto found = id_store::find_places(job.client, job.spec.place, job.fields);
  if (!found) return found.error();
  for (const FieldPlace& place : found->all) {
    const bool has_letters =
        is_text(*place.field) && place.field->format.alphabet != NumberFormat().alphabet;
    if (!has_letters || place.collation.empty()) continue;
    return exhausted("the index " + in_quotes(place.hint.empty() ? "_id_" : place.hint) + " of " +
                     text_of(place) +
                     " has a collation, in which texts with letters do not sort as their numbers, "
                     "or are the same as others: make it without one, or write the numbers in "
                     "digits");
  }
  job.places = *std::move(found);
  return {};
}

ids::Result<void> find_readable_places(FieldJob& job) {
  if (const auto found = find_places(job); !found) return found.error();
  if (job.scans_end) return {};
  const auto unindexed =
      std::ranges::find(job.places->all, FieldPlace::Access::scan, &FieldPlace::access);
  if (unindexed == job.places->all.end()) return {};
  return no_index(job.client, *unindexed, {});
}

ids::Error failure(FieldJob& job, const FieldPlace& place, const Reply& reply) {
  const bool is_too_long =
      place.access == FieldPlace::Access::scan && reply.refused(ErrorCode::max_time_ms_expired);
  if (is_too_long) return no_index(job.client, place, kTooLong);
  if (reply.refused(ErrorCode::no_query_execution_plans))
    return no_index(job.client, place, kNoTableScan);
  // The index of the hint has just been dropped, or its collection.
  job.index_has_gone = reply.refused(ErrorCode::query_plan_killed) ||
                       (reply.refused(ErrorCode::bad_value) && !place.hint.empty() &&
                        reply.message.find("hint") != std::string::npos);
  if (job.index_has_gone) return failed("the id store answered with " + error_text(reply));
  return after_read_error(job.client, reply, place.ns);
}

Reply read(FieldJob& job, const FieldPlace& place, const Document& command,
           const std::function<bool(Bytes)>& use) {
  if (job.linearizable && job.client.has_replicas()) {
    Reply reply = job.client.read_all(place.ns.db,
                                      {command, {"readConcern", {"level", "linearizable"}}}, use);
    if (!reply.refused(ErrorCode::not_a_replica_set)) return reply;
  }
  return job.client.read_all(place.ns.db, command, use);
}

ids::Result<std::set<std::int64_t>> taken(FieldJob& job, std::span<const std::int64_t> numbers) {
  std::set<std::int64_t> taken;
  for (std::span<const std::int64_t> rest(numbers); !rest.empty();) {
    const auto some = rest.first(std::min(rest.size(), kPage));
    rest = rest.subspan(some.size());
    for (const FieldPlace& place : job.places->all) {
      if (place.access == FieldPlace::Access::nothing) continue;
      const Document command =
          find_in(place, {"$in", values_of(some, *place.field)}, limit_of(place, job.scans_end));
      const Reply reply = job.client.read_all(place.ns.db, command, [&](Bytes document) {
        for (const Stored& each : numbers_in(document, place)) taken.insert(each.number);
        return true;
      });
      if (!reply.ok()) return failure(job, place, reply);
    }
  }
  return taken;
}

/// The numbers within a bracket, up to the counter's max; `order` sorts the furthest to the front.
/// Reads on until `count` documents held a single number: an array sorts by an element that may lie
/// outside of the bracket, and so hides numbers that sort behind it; and texts with the digits of a
/// number may be other texts.
ids::Result<std::vector<std::int64_t>> furthest(FieldJob& job, const FieldPlace& place,
                                                const Document& bracket, std::int32_t order,
                                                std::size_t count) {
  const Document command{find_in(place, bracket, limit_of(place, job.scans_end)),
                         {"sort", {place.field->field, order}}};
  for (std::size_t limit = count;; limit *= kMoreDocuments) {
    std::vector<std::int64_t> numbers;
    std::vector<std::int64_t> uncertain;
    std::vector<Stored> single;
    std::size_t seen = 0;
    const auto use = [&](Bytes document) {
      ++seen;
      if (const auto only = only_number_in(document, place)) single.push_back(*only);
      for (const auto [number, is_certain] : numbers_in(document, place)) {
        if (!job.numbers.is_beyond_max(number))
          (is_certain ? numbers : uncertain).push_back(number);
      }
      return true;
    };
    const Reply reply =
        read(job, place, {command, {"limit", static_cast<std::int32_t>(limit)}}, use);
    if (!reply.ok()) return failure(job, place, reply);
    const auto equal = taken(job, uncertain);
    if (!equal) return equal.error();
    numbers.insert(numbers.end(), equal->begin(), equal->end());
    const auto known = static_cast<std::size_t>(std::ranges::count_if(
        single, [&](Stored each) { return each.is_certain || equal->contains(each.number); }));
    if (seen < limit || known >= count) return numbers;
    if (limit >= kMostRead) {
      return exhausted("the values of " + text_of(place) +
                       " cannot be read in time: many other values stand in their midst");
    }
  }
}

/// Hidden numbers are in no order. Only the latest ones are read, if documents have their time.
ids::Result<void> read_hidden(FieldJob& job, const FieldPlace& place, Reading& reading) {
  const Document any{"$type", is_text(*place.field) ? "string" : "number"};
  const Document find = find_in(place, any, limit_of(place, job.scans_end));
  const Reply first = job.client.read_first(place.ns.db, Document(find).add("limit", 1));
  if (!first.ok()) return failure(job, place, first);
  if (first.document.empty()) return {};
  if (place.access == FieldPlace::Access::scan) return no_index(job.client, place, {});
  reading.is_known = false;
  if (job.spec.heal.by.empty()) return {};
  FieldPlace of_time = place;
  of_time.hint.clear();
  const Document latest{find_in(of_time, any, kIndexLimit), {"sort", {job.spec.heal.by, -1}}};
  const auto limit = static_cast<std::int32_t>(kPage);
  // If they cannot be read in time, the search for free numbers takes longer.
  (void)read(job, place, {latest, {"limit", limit}}, [&](Bytes document) {
    for (const Stored& each : numbers_in(document, place)) reading.furthest.push_back(each.number);
    return true;
  });
  return {};
}

/// Without the bracket, strings and ObjectIds would sort behind all numbers. Numbers beyond the
/// counter's max do not matter: it never reaches them.
ids::Result<void> read_numbers(FieldJob& job, const FieldPlace& place, std::size_t count,
                               Reading& reading) {
  const bool up = job.numbers.upwards();
  Document bracket{{"$gte", up ? INT64_MIN : job.spec.max},
                   {"$lte", up ? job.spec.max : INT64_MAX}};
  const auto found = furthest(job, place, bracket, up ? -1 : 1, count);
  if (!found) return found.error();
  reading.furthest.insert(reading.furthest.end(), found->begin(), found->end());
  return {};
}

/// True, too, if the server exceeds the time limit for an index: if most texts use all of `pad`, it
/// must skip many texts of other widths. Not linearizable, which takes a tenth of a second: the
/// answer says how to look, not what is there.
ids::Result<bool> holds_texts(FieldJob& job, const FieldPlace& place, TextClass which) {
  Document texts = texts_of(which, place.field->format, {}, order_in(place));
  if (ignores_case(place)) texts.add("$options", "i");
  const Document command = find_in(place, texts, limit_of(place, job.scans_end)).add("limit", 1);
  const Reply reply = job.client.read_first(place.ns.db, command);
  const bool is_scan = place.access == FieldPlace::Access::scan;
  if (!is_scan && reply.refused(ErrorCode::max_time_ms_expired)) return true;
  if (!reply.ok()) return failure(job, place, reply);
  return !reply.document.empty();
}

/// Class by class, the furthest first. A class that cannot be read in order matters only if no
/// number has been found further ahead.
ids::Result<void> read_texts(FieldJob& job, const FieldPlace& place, std::size_t count,
                             Reading& reading) {
  const int step = job.numbers.upwards() ? -1 : 1;
  std::size_t found = 0;
  for (int at = static_cast<int>(class_of(job.spec.max, place.field->format));
       at >= static_cast<int>(job.lowest) && at <= static_cast<int>(TextClass::wide); at += step) {
    const auto which = static_cast<TextClass>(at);
    if (is_wide(which)) {
      if (found > 0) return {};
      const auto holds = holds_texts(job, place, which);
      if (!holds) return holds.error();
      reading.is_known = reading.is_known && !*holds;
      if (*holds) return {};
      continue;
    }
    const std::int32_t order = is_negative(which) == job.numbers.upwards() ? 1 : -1;
    const auto numbers =
        furthest(job, place, texts_up_to_max(job.numbers, which, place), order, count);
    if (!numbers) return numbers.error();
    reading.furthest.insert(reading.furthest.end(), numbers->begin(), numbers->end());
    found += numbers->size();
    if (found >= count) return {};
  }
  return {};
}

/// The server takes the numbers out of the texts, which sort by something else.
ids::Result<void> read_pattern(FieldJob& job, const FieldPlace& place, std::size_t count,
                               Reading& reading) {
  const bool is_scan = place.access == FieldPlace::Access::scan;
  const auto limit = is_scan ? limit_of(place, job.scans_end) : kPatternLimit;
  const Document command = numbers_in_varying_texts(place, job.numbers, count, limit);
  const Reply reply = read(job, place, command, [&](Bytes document) {
    if (const auto number = bson::find_integer(document, "n")) reading.furthest.push_back(*number);
    return true;
  });
  if (reply.ok()) return {};
  if (is_scan || !reply.refused(ErrorCode::max_time_ms_expired)) return failure(job, place, reply);
  return exhausted("the values of " + text_of(place) +
                   " cannot be read in time, as their texts do not sort like their numbers: add a "
                   "`reset` or a `scope` that fixes what stands in front of {counter}");
}

/// Past stored numbers that are in no order: looks 1, 2, 4, … numbers ahead for three free ones in
/// a row, and through ever smaller rests of what lies before the last number.
ids::Result<std::int64_t> gallop(FieldJob& job, std::int64_t from) {
  constexpr std::int64_t kInARow = 3;
  std::int64_t last = job.spec.max;
  if (job.spec.heal.max_jump < last - from) last = from + job.spec.heal.max_jump;
  for (std::int64_t ahead = 1; from <= last;) {
    const ids::Range next{from, static_cast<std::uint64_t>(std::min(kInARow, last - from + 1))};
    const auto found = taken(job, first_of(job.numbers, std::array{next}));
    if (!found) return found.error();
    if (found->empty()) return from;
    ahead = std::min(ahead, last - from > 1 ? (last - from) / 2 : 1);
    from += ahead;
    ahead *= 2;
  }
  return exhausted("no three numbers in a row are free up to " + std::to_string(last) +
                   ", which is heal.max_jump ahead, or max");
}

}  // namespace

ids::Result<std::vector<FieldPlace>> FieldNumbers::places_to_scan() {
  if (const auto found = find_places(job_); !found) return found.error();
  std::vector<FieldPlace> scanned;
  std::ranges::copy_if(job_.places->all, std::back_inserter(scanned), [](const FieldPlace& place) {
    return place.access == FieldPlace::Access::scan;
  });
  return scanned;
}

bool FieldNumbers::are_guarded() const {
  const std::vector<FieldPlace>& places = job_.places->all;
  return can_be_guarded(job_.fields) &&
         (job_.fields.front().repeats || (places.size() == 1 && places.front().is_unique));
}

bool FieldNumbers::may_scan(const FieldPlace& place) {
  const Document find{{"find", place.ns.collection},
                      {"filter", {place.field->field, {"$exists", true}}}};
  const Reply planned =
      job_.client.read(place.ns.db, {{"explain", find}, {"verbosity", "queryPlanner"}});
  return !planned.refused(ErrorCode::no_query_execution_plans);
}

ids::Error FieldNumbers::not_indexed(const FieldPlace& place, std::string_view why) {
  return no_index(job_.client, place, why);
}

ids::Result<FieldNumbers::Reading> FieldNumbers::read_furthest(std::size_t count) {
  if (const auto found = find_readable_places(job_); !found) return found.error();
  Reading reading{.asked = count};
  const std::vector<FieldPlace>& places = job_.places->all;
  reading.is_guarded = are_guarded();
  for (const FieldPlace& place : places) {
    if (place.access == FieldPlace::Access::nothing) continue;
    const auto done = is_hidden(*place.field)  ? read_hidden(job_, place, reading)
                      : !is_text(*place.field) ? read_numbers(job_, place, count, reading)
                      : place.field->format.pattern.empty()
                          ? read_texts(job_, place, count, reading)
                          : read_pattern(job_, place, count, reading);
    if (!done) return done.error();
  }
  std::sort(reading.furthest.begin(), reading.furthest.end(),
            [this](std::int64_t a, std::int64_t b) { return job_.numbers.is_ahead(a, b); });
  return reading;
}

ids::Result<std::vector<ids::Range>> FieldNumbers::taken_among(
    std::span<const ids::Range> numbers) {
  std::vector<ids::Range> found;
  const std::vector<std::int64_t> candidates = first_of(job_.numbers, numbers);
  const auto stored = taken(job_, candidates);
  if (!stored) return stored.error();
  for (const std::int64_t number : candidates) {
    if (stored->contains(number)) found.push_back({number, 1});
  }
  return found;
}

ids::Result<ids::Range> FieldNumbers::first_free(std::int64_t from, std::uint64_t count) {
  if (const auto found = find_readable_places(job_); !found) return found.error();
  if (has_pattern(job_.fields)) {
    return exhausted("free numbers cannot be looked for, as the texts around them vary");
  }
  if (has_hidden(job_.fields)) {
    const auto behind_stored = gallop(job_, from);
    if (!behind_stored) return behind_stored.error();
    from = *behind_stored;
  }
  Row row(count);
  std::optional<std::int64_t> next = from;
  for (std::size_t looked = 0; next && looked < kMostPages; ++looked) {
    const std::vector<std::int64_t> candidates = page_of(job_.numbers, *next);
    if (candidates.empty()) break;
    const auto found = taken(job_, candidates);
    if (!found) return found.error();
    for (const std::int64_t number : candidates) {
      row.see(number, found->contains(number));
      if (row.is_done()) return row.longest();
    }
    next = job_.numbers.after(candidates.back());
    if (row.longest().count > 0 && looked + 1 >= kEnoughPages) break;
  }
  if (row.longest().count > 0) return row.longest();
  if (!next || job_.numbers.is_beyond_max(*next))
    return exhausted("all numbers up to its max are taken");
  return ids::Range{*next, 0};
}

}  // namespace idproxy::id_store
