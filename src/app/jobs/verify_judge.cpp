#include "app/jobs/verify_judge.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "app/jobs/value_text.hpp"
#include "app/system_clock.hpp"
#include "app/views/terminal.hpp"
#include "idproxy/base/printable.hpp"
#include "idproxy/id_store/mongo.hpp"
#include "idproxy/rewrite/document_fields.hpp"

namespace idproxy::app::jobs {
namespace {

using id_store::mongo::Document;
using Is = ids::FieldValue::Is;

bool has_numbers(const ids::RuleSource::About& about) {
  return about.counter || about.ranges || about.gapless;
}

std::int64_t step_of(const ids::RuleSource::About& about) {
  if (about.counter) return about.counter->step;
  return about.ranges ? about.ranges->counter.step : 1;
}

bool is_text(const ids::NumberFormat& format) {
  return format.output == ids::NumberFormat::Output::string;
}

/// {name: value} as JSON.
std::string json_of(std::string_view name, const bson::Element& value) {
  return id_store::mongo::json_of(Document().add(name, value.type, value.value).bytes());
}

/// Equal for values that an index takes for equal.
std::string comparable(const bson::Element& value) {
  if (const auto number = ids::integer_of(value)) {
    return "#" + std::to_string(*number);
  }
  return static_cast<char>(value.type) + std::string(as_text(value.value));
}

std::string range_text(const VerifyRuns::Gap& gap) {
  const std::string first = std::to_string(gap.first);
  return gap.first == gap.last ? first : first + " to " + std::to_string(gap.last);
}

std::uint64_t size_of(const VerifyRuns::Gap& gap) {
  return static_cast<std::uint64_t>(gap.last) - static_cast<std::uint64_t>(gap.first) + 1;
}

/// {s: scope, p: period} as JSON.
std::string sequence_name(const VerifiedSequence& sequence) {
  if (sequence.scope.empty() && sequence.period.empty()) return {};
  Document name;
  if (!sequence.scope.empty()) name.add("s", bson::Type::document, as_bytes(sequence.scope));
  if (!sequence.period.empty()) name.add("p", sequence.period);
  return id_store::mongo::json_of(name.bytes());
}

/// The kinds of findings that a rule can have.
std::vector<VerifyKind> kinds_of(const ids::RuleSource::About& about) {
  const ids::SequenceOptions& options = about.sequences;
  std::vector<VerifyKind> kinds{VerifyKind::missing, VerifyKind::null, VerifyKind::wrong_type,
                                VerifyKind::wrong_form};
  if (!options.repeats()) kinds.push_back(VerifyKind::duplicate);
  if (about.field.format.check != ids::Check::none) kinds.push_back(VerifyKind::wrong_check);
  if (options.by_document()) kinds.push_back(VerifyKind::no_sequence);
  if (about.gapless) kinds.push_back(VerifyKind::gap);
  if (about.counter && !options.repeats()) kinds.push_back(VerifyKind::beyond_counter);
  if (about.counter || about.gapless) kinds.push_back(VerifyKind::beyond_max);
  return kinds;
}

}  // namespace

std::string type_alias(bson::Type type) {
  if (type == bson::Type::min_key) return "minKey";
  if (type == bson::Type::max_key) return "maxKey";
  constexpr const char* kOther = "another";  // no longer in use
  constexpr const char* kAliases[] = {kOther,    "double",    "string",    "object",     "array",
                                      "binData", "undefined", "objectId",  "bool",       "date",
                                      "null",    "regex",     kOther,      "javascript", "symbol",
                                      kOther,    "int",       "timestamp", "long",       "decimal"};
  const auto number = static_cast<std::size_t>(type);
  return number < std::size(kAliases) ? kAliases[number] : kOther;
}

std::string verify_id_text(Bytes document) {
  const auto id = bson::find(document, "_id");
  return id ? json_of("_id", *id) : "{}";
}

std::string verify_value_text(const bson::Element& value) {
  using bson::Type;
  constexpr std::size_t kMost = 80;
  constexpr auto kWritten =
      std::to_array<Type>({Type::int32, Type::int64, Type::string, Type::object_id});
  constexpr std::size_t kUuidValue = 4 + 1 + 16;  // size, subtype, bytes
  const bool is_written = std::ranges::find(kWritten, value.type) != kWritten.end() ||
                          (value.type == Type::binary && value.value.size() == kUuidValue);
  const std::string text =
      is_written ? value_text(value.type, value.value) : json_of("value", value);
  return views::shortened(printable(text), kMost);
}

VerifyJudge::VerifyJudge(const ids::RuleSource& rule, std::string field, VerifyAnswers& answers,
                         const VerifyAllowed* allowed)
    : rule_(rule),
      about_(rule.about()),
      field_(std::move(field)),
      answers_(answers),
      allowed_(allowed),
      sequences_(about_.sequences, {}, about_.field.format, process_sources().clock, {}),
      this_year_(about_.sequences.zone.date_at(process_sources().clock.wall()).year()),
      counts_(has_numbers(about_)),
      step_(step_of(about_)) {
  for (const VerifyKind kind : kinds_of(about_)) findings_.kinds[kind];
}

void VerifyJudge::add(VerifyKind kind, VerifyExample example) {
  VerifyFound& found = findings_.kinds[kind];
  ++found.count;
  if (found.examples.size() < VerifyFound::kExamples) found.examples.push_back(std::move(example));
}

void VerifyJudge::next(Bytes document) {
  const auto value = rewrite::field_at(document, field_).value_or(ids::FieldValue{});
  if (value.is == Is::missing) return;  // removed meanwhile
  ++findings_.documents;
  if (value.is != Is::there) {
    ++findings_.types["array"];
    return add(VerifyKind::wrong_type, {.id = verify_id_text(document)});
  }
  if (value.element.type == bson::Type::null) {
    return add(VerifyKind::null, {.id = verify_id_text(document)});
  }
  if (!enter_scope(document)) return;
  if (!about_.sequences.repeats()) compare(value.element);
  judge(document, value.element);
}

/// False: the document belongs to no sequence.
bool VerifyJudge::enter_scope(Bytes document) {
  if (beside().empty()) return true;
  values_.clear();
  for (const std::string& path : beside()) {
    values_.push_back(rewrite::field_at(document, path).value_or(ids::FieldValue{}));
  }
  if (!sequences_.refusal(values_).empty()) {
    add(VerifyKind::no_sequence, {.id = verify_id_text(document)});
    return false;
  }
  std::string scope = sequences_.scope_of(values_);
  if (scope == scope_) return true;
  close_scope(Read::all);
  scope_ = std::move(scope);
  return true;
}

void VerifyJudge::compare(const bson::Element& value) {
  std::string comparable_value = comparable(value);
  if (equal_ == 0 || comparable_value != last_value_) {
    last_value_ = std::move(comparable_value);
    equal_ = 1;
    return;
  }
  ++equal_;
  if (equal_ == 2) {
    add(VerifyKind::duplicate,
        {.value = verify_value_text(value), .sequence = sequence_name({scope_})});
  }
  VerifyFound& found = findings_.kinds[VerifyKind::duplicate];
  if (found.count <= found.examples.size()) found.examples.back().count = equal_;
}

void VerifyJudge::judge(Bytes document, const bson::Element& value) {
  if (allowed_ != nullptr && allowed_->includes(value)) {
    ++findings_.allowed;
    return;
  }
  if (counts_) return judge_number(document, value);
  take(document, value, rule_.fit(value.type, value.value));
}

/// Notes what does not fit.
void VerifyJudge::take(Bytes document, const bson::Element& value, ids::Fit fit) {
  if (fit == ids::Fit::fits) return;
  VerifyExample example{verify_value_text(value), verify_id_text(document)};
  if (fit == ids::Fit::wrong_type) {
    ++findings_.types[type_alias(value.type)];
    return add(VerifyKind::wrong_type, std::move(example));
  }
  add(fit == ids::Fit::wrong_form ? VerifyKind::wrong_form : VerifyKind::wrong_check,
      std::move(example));
}

void VerifyJudge::judge_number(Bytes document, const bson::Element& value) {
  const ids::SequenceOptions& options = about_.sequences;
  ids::NumberFormat format = about_.field.format;
  std::string period;
  if (options.text && value.type == bson::Type::string) {
    const auto texts = sequences_.texts_of(values_);
    const auto day = options.text->day_in(value.text(), texts, options.check, this_year_);
    if (!day) return take(document, value, ids::Fit::wrong_form);
    format = options.text->format(*day, texts, options.check);
    period = ids::period_of(options.reset, *day, options.year);
  }
  auto [fit, number] = ids::fit_number(value.type, value.value, format);
  if (fit == ids::Fit::wrong_type && !is_text(format) && !format.permutation) {
    number = ids::integer_of(value);
    if (number) ++findings_.number_types[type_alias(value.type)];
  }
  if (!number || fit != ids::Fit::wrong_type) take(document, value, fit);
  if (!number) return;
  const bool is_limited = about_.counter || about_.gapless;
  const std::int64_t max = about_.gapless ? about_.gapless->max
                           : is_limited   ? about_.counter->max
                                          : std::numeric_limits<std::int64_t>::max();
  if (is_limited && (step_ > 0 ? *number > max : *number < max)) {
    add(VerifyKind::beyond_max,
        {.value = verify_value_text(value), .id = verify_id_text(document)});
  }
  if (options.repeats()) return;
  if (about_.ranges) note_in_range(*number);
  // Hidden numbers come in no order: until all are there, there are as many gaps as numbers.
  constexpr std::size_t kMostHidden = 10'000'000;
  const std::size_t most = format.permutation ? kMostHidden : VerifyRuns::kMostRuns;
  const auto sequence = periods_.try_emplace(period, Sequence{VerifyRuns(step_, most), {}}).first;
  sequence->second.runs.add(*number);
  sequence->second.format = std::move(format);
}

void VerifyJudge::end(Read read) {
  close_scope(read);
}

void VerifyJudge::close_scope(Read read) {
  for (auto& [period, sequence] : periods_) {
    close({scope_, period, sequence.format}, sequence.runs, read);
  }
  periods_.clear();
  last_value_.clear();
  equal_ = 0;
}

void VerifyJudge::close(const VerifiedSequence& sequence, VerifyRuns& runs, Read read) {
  if (read == Read::all && about_.gapless) note_gaps(sequence, runs);
  if (read == Read::all && about_.ranges) note_ranges();
  if (read == Read::all && about_.counter && !about_.ranges) note_position(sequence, runs);
  ++findings_.sequences;
  if (findings_.first_sequences.size() == VerifyFindings::kMostSequences) return;
  findings_.first_sequences.push_back({sequence_name(sequence), runs.first(), runs.last(),
                                       runs.numbers(), runs.missing(),
                                       !about_.field.format.permutation || !runs.has_closed()});
}

/// Reads on behind the last number: what is there up to `end` was stored meanwhile.
void VerifyJudge::read_on(const VerifiedSequence& sequence, std::int64_t end, VerifyRuns& runs) {
  while (runs.last() < end) {
    VerifyRuns::Gap ahead{runs.last() + 1, end};
    if (size_of(ahead) > kMostLookedFor) ahead.last = runs.last() + std::int64_t{kMostLookedFor};
    for (const std::int64_t number : answers_.stored(sequence, ahead)) runs.add(number);
    if (runs.last() < ahead.last) return;
  }
}

/// What was not there yet when its place was read may be there now.
void VerifyJudge::note_gaps(const VerifiedSequence& sequence, VerifyRuns& runs) {
  const auto next = answers_.next_number(sequence);
  const std::int64_t end = next ? *next - 1 : runs.last();
  read_on(sequence, end, runs);
  for (const VerifyRuns::Gap& gap : runs.gaps(VerifyFound::kExamples)) {
    if (size_of(gap) > kMostLookedFor) continue;
    for (const std::int64_t number : answers_.stored(sequence, gap)) runs.add(number);
  }
  std::vector<VerifyRuns::Gap> gaps = runs.gaps(VerifyFound::kExamples);
  std::uint64_t count = runs.gap_count();
  if (runs.first() > about_.gapless->start) {
    gaps.insert(gaps.begin(), {about_.gapless->start, runs.first() - 1});
    ++count;
  }
  if (runs.last() < end) {
    gaps.push_back({runs.last() + 1, end});
    ++count;
  }
  const std::string name = sequence_name(sequence);
  for (const VerifyRuns::Gap& gap : gaps)
    add(VerifyKind::gap, {range_text(gap), {}, name, size_of(gap)});
  findings_.kinds[VerifyKind::gap].count += count - gaps.size();
}

void VerifyJudge::note_position(const VerifiedSequence& sequence, const VerifyRuns& runs) {
  const auto next = answers_.next_number(sequence);
  const std::int64_t farthest = step_ > 0 ? runs.last() : runs.first();
  if (next && (step_ > 0 ? farthest >= *next : farthest <= *next)) {
    note_beyond(sequence, farthest, *next);
  }
}

void VerifyJudge::note_in_range(std::int64_t number) {
  if (!ranges_) ranges_ = answers_.ranges();
  const auto range = std::ranges::lower_bound(*ranges_, number, {}, &VerifiedRange::last);
  if (range == ranges_->end() || number < range->first) return;
  const auto largest = largest_.try_emplace(range->key, number).first;
  largest->second = std::max(largest->second, number);
}

/// Looks where the ranges are now: proxies have taken numbers from them meanwhile.
void VerifyJudge::note_ranges() {
  for (const VerifiedRange& range : answers_.ranges()) {
    const auto largest = largest_.find(range.key);
    const bool is_behind =
        largest != largest_.end() && range.next && *range.next <= largest->second;
    if (is_behind) note_beyond({.range = range.key}, largest->second, *range.next);
  }
}

void VerifyJudge::note_beyond(const VerifiedSequence& sequence, std::int64_t farthest,
                              std::int64_t next) {
  const std::string whose =
      sequence.range.empty() ? "the counter's next number is " : "the next number of its range is ";
  add(VerifyKind::beyond_counter, {std::to_string(farthest) + ", " + whose + std::to_string(next),
                                   {},
                                   sequence_name(sequence)});
  std::int64_t behind = 0;
  std::string& remedy = findings_.kinds[VerifyKind::beyond_counter].remedy;
  // Somebody else's value looks like any hidden number: behind it lie far too many.
  const bool is_first = remedy.empty() && !about_.field.format.permutation &&
                        !__builtin_add_overflow(farthest, step_, &behind);
  if (is_first) remedy = answers_.remedy(sequence, behind);
}

}  // namespace idproxy::app::jobs
