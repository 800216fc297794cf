#include "idproxy/id_store/stored_counters.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <string_view>
#include <utility>

#include "id_store/counter_commands.hpp"
#include "id_store/number_texts.hpp"
#include "id_store/numbers.hpp"
#include "id_store/reply_reasons.hpp"
#include "idproxy/base/glob.hpp"
#include "idproxy/bson/elements.hpp"
#include "idproxy/id_store/namespaces.hpp"
#include "idproxy/ids/range_spec.hpp"
#include "idproxy/ids/scope.hpp"

namespace idproxy::id_store {

struct AllRanges {
  ids::CounterSpec spec;                  // with the last range's max
  std::vector<ids::CounterField> fields;  // empty: nothing has been read yet
  ids::Result<FieldNumbers::Reading> reading{};
  FieldPlaces places{};  // if `reading` is no error
};

namespace {

using About = ids::RuleSource::About;
using ids::CounterPlace;
using ids::FieldCounter;
using mongo::Document;
using mongo::Reply;

constexpr std::size_t kTextOfUuid = 36;

/// True if each sequence has a document of its own, with a document as its key.
bool has_document_keys(const About& rule) {
  return !rule.sequences.scope.empty() || rule.sequences.reset != ids::Reset::none;
}

bool is_of_plugin(const About& rule) {
  return !rule.counter->place.scope_field.empty();
}

/// Where a counter's document has the name that all sequences of a collection share.
std::string name_path(const About& rule) {
  const CounterPlace& place = rule.counter->place;
  if (!has_document_keys(rule)) return place.key_field;
  return is_of_plugin(rule) ? place.name_field : place.key_field + ".c";
}

bool has_many_names(const About& rule) {
  return rule.per_namespace && has_wildcards(rule.field.ns);
}

Document find_counters_of(const About& rule) {
  const CounterPlace& place = rule.counter->place;
  Document filter;
  if (has_many_names(rule)) {
    filter.add(name_path(rule), Document{"$type", "string"});
  } else {
    filter.add(name_path(rule), place.key);
  }
  if (is_of_plugin(rule) && has_document_keys(rule)) {
    filter.add(place.scope_field, Document{"$type", "object"});
  } else {
    filter.append(Document(as_bytes(place.filter)));
  }
  return {{"find", place.collection}, {"filter", filter}};
}

/// The collection of a counter with this name; nothing: it is none of the rule's.
std::optional<std::string> collection_of(const About& rule, std::string_view name) {
  if (!rule.per_namespace) return rule.field.ns;
  const std::string end = "." + rule.field.field;
  if (!name.ends_with(end)) return std::nullopt;
  name.remove_suffix(end.size());
  const bool is_its = glob_matches(rule.field.ns, rule.field.except, name);
  return is_its ? std::optional(std::string(name)) : std::nullopt;
}

/// A time on the day, or in the middle of the month or year, that "2026-11-22", "2026-11" or "2026"
/// names. `hour` is UTC's.
std::chrono::nanoseconds time_in(std::string_view period, int hour) {
  std::array<unsigned, 3> parts{1970, 7, 15};
  for (std::size_t i = 0, at = 0; i < parts.size() && at < period.size(); ++i) {
    const std::size_t end = std::min(period.find('-', at), period.size());
    (void)std::from_chars(period.data() + at, period.data() + end, parts[i]);
    at = end + 1;
  }
  const std::chrono::sys_days day = std::chrono::year(static_cast<int>(parts[0])) /
                                    std::chrono::month(parts[1]) / std::chrono::day(parts[2]);
  return (day + std::chrono::hours(hour)).time_since_epoch();
}

/// The values of the fields that chose a sequence, from its key.
std::vector<ids::FieldValue> values_in(Bytes scope, const std::vector<std::string>& fields) {
  std::vector<ids::FieldValue> values;
  for (const std::string& field : fields) {
    const auto element = bson::find(scope, field);
    values.push_back(element ? ids::FieldValue{ids::FieldValue::Is::there, *element}
                             : ids::FieldValue{});
  }
  return values;
}

/// The plugin writes UUIDs as texts, so that the type that the documents have is not known.
bool may_be_uuid(const ids::FieldValue& value) {
  return value.is == ids::FieldValue::Is::there && value.element.type == bson::Type::string &&
         value.element.text().size() == kTextOfUuid;
}

/// The sequence of a rule in a collection that has this document; nothing: none has. `of_all`: as
/// from ids::counter_in().
std::optional<StoredCounter> sequence_in(const About& rule, const FieldCounter& of_all,
                                         const Clock& clock, Bytes document) {
  const CounterPlace& place = rule.counter->place;
  const bool has_keys = has_document_keys(rule);
  const auto key =
      bson::document_in(document, is_of_plugin(rule) ? place.scope_field : place.key_field);
  if (has_keys && !key) return std::nullopt;
  const Document nothing;
  const Bytes scope = !has_keys            ? nothing.bytes()
                      : is_of_plugin(rule) ? *key
                                           : bson::document_in(*key, "s").value_or(nothing.bytes());
  const std::string_view period = has_keys ? bson::text_in(*key, "p") : "";
  const ids::Sequences sequences(rule.sequences, of_all.spec.place.key, of_all.field.format, clock,
                                 {});
  const auto values = values_in(scope, sequences.fields());
  for (const int hour : {12, 0}) {  // one of them is on that day in each time zone
    const ids::Sequences::Chosen chosen = sequences.choose(values, time_in(period, hour));
    // The plugin writes numbers of any type.
    const bool is_it = !has_keys || is_of_plugin(rule) || chosen.key == as_text(*key);
    if (!is_it) continue;
    const FieldCounter counter = ids::counter_of(rule, of_all, chosen);
    StoredCounter found{key_text(counter.spec.place), counter.spec, {counter.field}, {}};
    found.is_past = rule.sequences.is_past(period, clock.wall());
    if (is_of_plugin(rule) && std::ranges::any_of(values, may_be_uuid)) {
      found.unreadable = "its key may have a UUID as a text";
    }
    return found;
  }
  return std::nullopt;
}

/// The counter of a rule that has this document; nothing: none has.
std::optional<StoredCounter> counter_in_document(const About& rule, const Clock& clock,
                                                 Bytes document) {
  const auto name = find_path(document, name_path(rule));
  if (!name || name->type != bson::Type::string) return std::nullopt;
  const auto ns = collection_of(rule, name->text());
  if (!ns) return std::nullopt;
  const FieldCounter counter = ids::counter_in(rule, *ns);
  if (rule.sequences.any()) return sequence_in(rule, counter, clock, document);
  return StoredCounter{key_text(counter.spec.place), counter.spec, {counter.field}, {}};
}

void take(StoredCounter& counter, Bytes document) {
  const Numbers numbers(counter.spec);
  counter.document = as_text(document);
  counter.value = stored_value(document, counter.spec.place.value_field);
  counter.next = counter.value.is_number() ? numbers.first_at(counter.value.number) : std::nullopt;
  counter.left = counter.next ? numbers.count(*counter.next, counter.spec.max) : 0;
}

/// Of a rule without gaps, as if the floors were its counters.
About with_floors(const About& rule) {
  About floors = rule;
  ids::CounterSpec& counter = floors.counter.emplace();
  CounterPlace& place = counter.place;
  place.db = place.store_db = rule.gapless->store_db;
  place.collection = kFloors;
  place.key = rule.gapless->key();
  place.value_field = "floor";
  place.value_is = CounterPlace::ValueIs::last;
  counter.start = rule.gapless->start;
  counter.max = rule.gapless->max;
  floors.per_namespace = true;
  return floors;
}

/// The document's `_id`.
bson::Element id_of(const std::string& document) {
  return bson::find(as_bytes(document), "_id").value_or(bson::Element{});
}

ids::Result<StoredNumbers> numbers_of(const ids::Result<FieldNumbers::Reading>& reading,
                                      std::span<const ids::CounterField> fields) {
  if (!reading) {
    if (reading.error().code != ids::Errc::exhausted) return reading.error();
    return StoredNumbers{.unknown = reading.error().reason};
  }
  StoredNumbers numbers{reading->most(), reading->is_guarded, {}};
  if (!reading->is_known) numbers.unknown = "the stored texts do not sort like their numbers";
  if (!reading->is_known && has_hidden(fields)) {
    numbers = {{}, reading->is_guarded, "the stored values hide the order of their numbers"};
  }
  return numbers;
}

/// One reading of all of them says which have no number yet, and where the others are.
ids::Result<StoredNumbers> read_range(mongo::Client& client, const StoredCounter& range,
                                      AllRanges& all) {
  if (all.fields.size() != range.fields.size()) {
    all.fields = range.fields;
    FieldNumbers stored(client, all.spec, all.fields);
    all.reading = stored.read_furthest(1);
    if (all.reading) all.places = stored.places();
  }
  if (!all.reading) return numbers_of(all.reading, all.fields);
  const auto is_of_another = [&](std::optional<std::int64_t> most) {
    return !most || Numbers(range.spec).is_ahead(range.spec.start, *most);
  };
  if (all.reading->is_known && is_of_another(all.reading->most())) {
    return StoredNumbers{{}, all.reading->is_guarded, {}};
  }
  FieldNumbers stored(client, range.spec, range.fields);
  stored.use(all.places);
  auto numbers = numbers_of(stored.read_furthest(1), range.fields);
  if (numbers && is_of_another(numbers->most)) numbers->most.reset();
  return numbers;
}

/// Which document it is, and which field of that.
std::string identity_text(const StoredCounter& counter) {
  const CounterPlace& place = counter.spec.place;
  std::string text = counter.ns() + '\0' + place.value_field + '\0';
  if (counter.exists()) return text.append(as_text(id_of(counter.document).value));
  return text.append(place.filter).append(place.key);
}

}  // namespace

/// Several rules can share a counter. Of two rules for one field the first one is in force.
void StoredCounters::Found::add(StoredCounter counter, const About& rule) {
  const std::string name = rule.field.ns + ", " + rule.field.field;
  const auto [known, is_new] = by_document.emplace(identity_text(counter), all.size());
  if (is_new) {
    counter.rules.push_back(name);
    all.push_back(std::move(counter));
    return;
  }
  StoredCounter& shared = all[known->second];
  const ids::CounterField& field = counter.fields.front();
  const bool is_known = std::ranges::any_of(shared.fields, [&](const ids::CounterField& other) {
    return other.ns == field.ns && other.field == field.field;
  });
  if (is_known) return;
  shared.fields.push_back(field);
  shared.rules.push_back(name);
}

StoredCounters::StoredCounters(const Options& options, const Clock& clock)
    : clock_(clock),
      uri_key_(options.uri_key),
      pool_(options.uri, options.wtimeout, options.uri_key),
      client_(pool_.client()) {}

StoredCounters::~StoredCounters() = default;

ids::Error StoredCounters::failure(const Reply& reply, const std::string& db) const {
  const std::string why = why_unreached(reply, client_.login());
  return why.empty() ? after_error(client_, reply, db)
                     : failed("the id store (" + uri_key_ + ") " + why);
}

ids::Result<std::vector<StoredCounter>> StoredCounters::find(std::span<const About* const> rules) {
  Found found;
  for (const About* rule : rules) {
    if (!rule->counter && !rule->gapless) continue;
    const auto done = rule->gapless  ? find(with_floors(*rule), found)
                      : rule->ranges ? find_ranges(*rule, found)
                                     : find(*rule, found);
    if (!done) return done.error();
  }
  return std::move(found.all);
}

ids::Result<void> StoredCounters::find(const About& rule, Found& found) {
  const std::string& db = rule.counter->place.db;
  bool exists = false;
  const Reply reply = client_.read_all(db, find_counters_of(rule), [&](Bytes document) {
    if (auto counter = counter_in_document(rule, clock_, document)) {
      take(*counter, document);
      counter->is_gapless = rule.gapless.has_value();
      found.add(*std::move(counter), rule);
      exists = true;
    }
    return true;
  });
  if (!reply.ok()) return failure(reply, db);
  if (exists || has_many_names(rule) || has_document_keys(rule)) return {};
  const FieldCounter missing = ids::counter_in(rule, rule.field.ns);
  StoredCounter counter{key_text(missing.spec.place), missing.spec, {missing.field}, {}};
  counter.is_gapless = rule.gapless.has_value();
  found.add(std::move(counter), rule);
  return {};
}

ids::Result<void> StoredCounters::find_ranges(const About& rule, Found& found) {
  const CounterPlace& place = rule.counter->place;
  std::vector<ids::RangeDocument> documents;
  std::vector<std::pair<std::int64_t, std::string>> by_number;
  const Reply reply = client_.read_all(place.db, {"find", place.collection}, [&](Bytes document) {
    const auto number = ids::range_number(bson::text_in(document, "_id"));
    if (!number) return true;
    documents.push_back(
        {*number, integer_at(document, place.value_field), integer_at(document, place.max_field)});
    by_number.emplace_back(*number, as_text(document));
    return true;
  });
  if (!reply.ok()) return failure(reply, place.db);
  if (documents.empty()) return {};
  const ids::RangeFindings ranges = ids::check_ranges(*rule.ranges, documents);
  if (!ranges.fault.empty()) {
    return exhausted("the collection of ranges, " + place.ns() + ", " + ranges.fault);
  }
  std::ranges::sort(by_number);
  for (const ids::RangeState& range : ranges.ranges) {
    const auto its =
        std::ranges::find(by_number, range.number, [](auto& each) { return each.first; });
    if (its == by_number.end()) continue;
    const ids::CounterSpec spec = ids::counter_of(*rule.ranges, range);
    StoredCounter counter{key_text(spec.place), spec, {rule.field}, {}};
    take(counter, as_bytes(its->second));
    AllRanges& all = ranges_[place.ns()];
    if (all.spec.max < spec.max || all.spec.place.key.empty()) all.spec = spec;
    found.add(std::move(counter), rule);
  }
  return {};
}

ids::Result<StoredNumbers> StoredCounters::read(const StoredCounter& counter) {
  if (!counter.unreadable.empty()) return StoredNumbers{.unknown = counter.unreadable};
  const auto repeats = std::ranges::find_if(counter.fields, &ids::CounterField::repeats);
  if (repeats != counter.fields.end()) {
    return StoredNumbers{.unknown = "numbers of " + repeats->field +
                                    " repeat in each period, which no document tells"};
  }
  const auto all = ranges_.find(counter.ns());
  if (all != ranges_.end()) return read_range(client_, counter, all->second);
  return numbers_of(FieldNumbers(client_, counter.spec, counter.fields).read_furthest(1),
                    counter.fields);
}

ids::Result<StoredNumbers> StoredCounters::look_at(StoredCounter& counter) {
  auto stored = read(counter);
  if (!stored || !counter.is_gapless) return stored;
  const Numbers numbers(counter.spec);
  counter.next.reset();
  if (!stored->unknown.empty()) return stored;
  std::optional<std::int64_t> last = stored->most;
  if (counter.value.is_number())
    last = std::max(last.value_or(counter.value.number), counter.value.number);
  counter.next = last ? numbers.first_at(*last) : counter.spec.start;
  counter.left = counter.next ? numbers.count(*counter.next, counter.spec.max) : 0;
  return stored;
}

ids::Result<bool> StoredCounters::set_next(StoredCounter& counter, std::int64_t next) {
  const CounterPlace& place = counter.spec.place;
  const auto value = Numbers(counter.spec).value_before(next);
  if (!value) return exhausted("no counter can stand before " + std::to_string(next));
  const bson::Element id = id_of(counter.document);
  const auto was = bson::find(as_bytes(counter.document), place.value_field);
  const Document its{"_id", id.type, id.value};
  const Document same = was ? Document{"$eq", was->type, was->value} : Document{"$exists", false};
  const Reply reply = client_.write(place.db, {{"findAndModify", place.collection},
                                               {"query", {its, {place.value_field, same}}},
                                               {"update", set_value(place.value_field, *value)},
                                               {"new", true}});
  if (!reply.ok()) return failure(reply, place.db);
  if (const auto changed = value_of(reply)) {
    take(counter, *changed);
    return true;
  }
  const Reply read =
      client_.read_first(place.db, {{"find", place.collection}, {"filter", its}, {"limit", 1}});
  if (!read.ok()) return failure(read, place.db);
  const Bytes found = read.document.bytes();
  if (read.document.empty()) {
    return exhausted("the counter " + counter.key + " has just been deleted");
  }
  take(counter, found);
  return false;
}

}  // namespace idproxy::id_store
