#include "ids/counter.hpp"

#include <array>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "idproxy/base/bytes.hpp"
#include "idproxy/base/glob.hpp"
#include "idproxy/bson/builder.hpp"
#include "idproxy/bson/elements.hpp"
#include "idproxy/ids/block_cache.hpp"
#include "idproxy/ids/rule_source.hpp"
#include "idproxy/ids/store.hpp"
#include "ids/number_parameters.hpp"

namespace idproxy::ids {
namespace {

using namespace std::chrono_literals;
using Int64 = std::numeric_limits<std::int64_t>;
using Int32 = std::numeric_limits<std::int32_t>;
using Output = NumberFormat::Output;
using ValueIs = CounterPlace::ValueIs;

// ---- the rule's keys ---------------------------------------------------------------------------

/// The published recipes (docs/counters.md#layouts), in the order of read_layout().
struct Layout {
  std::string_view collection;
  std::string_view value_field;
  ValueIs value_is;
  std::string_view name_field{};
  std::string_view scope_field{};
};
constexpr std::array<Layout, 5> kLayouts{{
    {"uniqueIdentifierCounter", "COUNT", ValueIs::next},
    {"counters", "next", ValueIs::last},
    {"counters", "seq", ValueIs::last},
    {"ids", "index", ValueIs::next},
    {"counters", "seq", ValueIs::last, "id", "reference_value"},
}};

std::size_t read_layout(Parameters& store) {
  return store.choice("layout", {"unique-count", "counters-next", "counters-seq", "ids-index",
                                 "mongoose-sequence", "custom"});
}

/// Reads the name of a top-level field of the counter's document.
std::string read_name(std::string_view key, Parameters& store) {
  std::string name = store.required_text(key);
  if (name.starts_with('$') || name.find('.') != std::string::npos) {
    store.error(key,
                "must be a field of the document itself, without '.' and without '$' at its "
                "beginning");
  }
  return name;
}

void check_custom(const CounterPlace& place, Parameters& store) {
  if (place.value_field == "_id") store.error("value_field", "must not be _id, which is fixed");
  if (!place.value_field.empty() && place.value_field == place.key_field) {
    store.error("value_field", "must not be key_field");
  }
  if (place.filter.empty()) return;
  for (const std::string& field : {place.key_field, place.value_field}) {
    if (!bson::find(as_bytes(place.filter), field)) continue;
    store.error("filter", "must not name '" + field + "', which is the counter's own");
  }
}

/// Reads `filter` as a BSON document; "" if it is empty.
std::string read_filter(Parameters& store) {
  const auto members = store.members("filter");
  if (members.empty()) return {};
  Buffer filter;
  bson::Scope document(filter);
  for (const auto& [name, value] : members) {
    if (const auto* text = std::get_if<std::string>(&value)) {
      bson::append_string(filter, name, *text);
    } else if (const auto* number = std::get_if<std::int64_t>(&value)) {
      bson::append_int64(filter, name, *number);
    } else if (const auto* boolean = std::get_if<bool>(&value)) {
      bson::append_bool(filter, name, *boolean);
    } else {
      bson::append_head(filter, bson::Type::null, name);
    }
  }
  document.close();
  return std::string(as_text(filter.view()));
}

void read_custom(CounterPlace& place, Parameters& store) {
  place.key_field = read_name("key_field", store);
  place.value_field = read_name("value_field", store);
  place.value_is = static_cast<ValueIs>(store.choice("value_is", {"next", "last"}));
  store.spec("value_is").required = true;
  if (!store.given("value_is")) store.error("value_is", "is missing; must be next or last");
  place.filter = read_filter(store);
  check_custom(place, store);
}

/// The place of a rule without `scope`, as mongoose-sequence has it without `reference_fields`.
void set_scope_field(CounterPlace& place, const Layout& layout) {
  place.name_field = place.key_field = layout.name_field;
  place.scope_field = layout.scope_field;
  Buffer filter;
  bson::Scope document(filter);
  bson::append_head(filter, bson::Type::null, place.scope_field);
  document.close();
  place.filter = as_text(filter.view());
}

/// Reads everything except the key.
CounterPlace read_place(Parameters& store, std::string_view store_db) {
  CounterPlace place;
  const std::size_t layout = read_layout(store);
  const bool custom = layout >= kLayouts.size();
  place.store_db = store_db;
  place.db = store.text("db", store_db);
  place.collection = store.text("collection", custom ? "" : kLayouts.at(layout).collection);
  store.spec("collection").computed = true;
  store.spec("collection").required = custom;
  if (place.collection.empty()) store.error("collection", "must name a collection");
  if (custom) {
    read_custom(place, store);
    return place;
  }
  place.value_field = kLayouts.at(layout).value_field;
  place.value_is = kLayouts.at(layout).value_is;
  if (!kLayouts.at(layout).scope_field.empty()) set_scope_field(place, kLayouts.at(layout));
  return place;
}

void read_numbers(CounterSpec& spec, const NumberFormat& format, Parameters& rule) {
  const bool narrow = format.output == Output::int32;
  const bool encoded = format.alphabet.size() != 10;
  const std::int64_t lowest = encoded ? 0 : narrow ? Int32::min() : Int64::min();
  const std::int64_t highest = narrow ? Int32::max() : Int64::max();
  spec.step = rule.integer("step", -65535, 65535, 1);
  if (spec.step == 0) rule.error("step", "must not be 0");
  const bool down = spec.step < 0;
  spec.max = rule.integer("max", lowest, highest, down ? lowest : highest);
  rule.spec("max").computed = true;
  spec.start = rule.integer("start", lowest, highest, 1);
  if (down ? spec.start < spec.max : spec.start > spec.max) {
    rule.error("start", "must not be beyond max (" + std::to_string(spec.max) + ")");
  }
}

}  // namespace

void read_counter(RuleSource::About& about, Parameters& rule, std::string_view store_db,
                  CounterSpec::Heal (*read_heal)(Parameters&)) {
  CounterSpec& spec = *about.counter;
  spec.block = read_block(rule);
  const auto name = rule.optional_text("name");
  Parameters& store = rule.section("store");
  spec.place = read_place(store, store_db);
  if (!spec.place.scope_field.empty() && about.sequences.reset != Reset::none) {
    rule.error(
        "reset",
        "has no place in layout mongoose-sequence, whose counters have no field for a period");
  }
  const auto key = store.optional_text("key");
  about.per_namespace = !name && !key;
  const std::string own = about.field.ns + "." + about.field.field;
  const std::string of_each = has_wildcards(about.field.ns) ? "<ns>." + about.field.field : own;
  rule.falls_back_to("name", of_each);
  store.falls_back_to("key", name.value_or(of_each));
  spec.place.key = key ? *key : name.value_or(own);
  spec.scan = rule.duration_or_off("scan", 1s, 1h, spec.scan);
  spec.heal = read_heal(rule.section("heal"));
  check_gap(rule, about.sequences, spec.heal);
  spec.on_store_down = read_on_store_down(rule.section("on_store_down"));
}

// ---- its values --------------------------------------------------------------------------------

FieldCounter counter_in(const RuleSource::About& about, std::string_view ns) {
  FieldCounter counter{*about.counter, about.field};
  if (about.per_namespace) {
    counter.field.ns = ns;
    counter.field.except.clear();
    counter.spec.place.key = counter.field.ns + "." + counter.field.field;
  }
  return counter;
}

FieldCounter counter_of(const RuleSource::About& about, const FieldCounter& of_all,
                        const Sequences::Chosen& chosen) {
  FieldCounter counter = of_all;
  if (!chosen.key.empty()) choose_in(counter.spec.place, chosen.key, chosen.scope);
  counter.field.format = chosen.stored;
  counter.field.scope = chosen.scope;
  counter.field.repeats = about.sequences.repeats();
  return counter;
}

namespace {

class Counter final : public RuleSource {
 public:
  Counter(About about, const Clock& clock)
      : RuleSource(std::move(about)), clock_(clock), recent_(this->about().sequences.most) {}

  /// Of a rule with several sequences, today's; if documents decide, their family.
  void announce(Store& store) override {
    recent_.renew(store);
    FieldCounter counter{*about().counter, about().field};
    const bool is_one =
        !about().per_namespace || counter.field.ns.find_first_of("*?") == std::string::npos;
    if (!is_one) return;
    if (about().sequences.by_document()) {
      counter.spec.place.key_is = CounterPlace::KeyIs::family;
    } else {
      const Sequences sequences(about().sequences, counter.spec.place.key, counter.field.format,
                                clock_, {});
      counter = counter_of(about(), counter, sequences.choose({}, clock_.wall()));
    }
    announced_ = store.announce(counter.spec, counter.field);
  }

  [[nodiscard]] Bound bind(std::string_view ns, Store* store) override {
    FieldCounter counter = counter_in(about(), ns);
    const NumberFormat format = counter.field.format;
    if (!about().sequences.any()) {
      return {.source = number_source(store->counter(counter.spec, counter.field), format,
                                      counter.spec.on_store_down)};
    }
    std::string name = counter.spec.place.key;
    auto open = [this, store, of_all = std::move(counter)](const Sequences::Chosen& chosen,
                                                           Opening opening) {
      return sequence(counter_of(about(), of_all, chosen), chosen.format, *store, opening);
    };
    return {.sequences = std::make_shared<Sequences>(about().sequences, std::move(name), format,
                                                     clock_, std::move(open))};
  }

 private:
  /// Its numbers go back when nobody uses it any more.
  [[nodiscard]] std::shared_ptr<Source> sequence(const FieldCounter& counter,
                                                 const NumberFormat& format, Store& store,
                                                 Opening opening) {
    const std::string key = counter.spec.place.filter + counter.spec.place.key;
    const auto open = [&]() -> RecentSequences::Write {
      const auto cache = store.counter(counter.spec, counter.field);
      std::shared_ptr<NumberStock> lent(cache.get(), [cache](auto*) { cache->let_go(); });
      return [lent, on_store_down = counter.spec.on_store_down](const NumberFormat& written) {
        return number_source(lent, written, on_store_down);
      };
    };
    // Another rule may share it: its heal has to know this rule's field, too.
    const auto again = [&] { (void)store.counter(counter.spec, counter.field); };
    return recent_.get(key, format, opening, open, store, again);
  }

  const Clock& clock_;
  RecentSequences recent_;
  // Other rules may share this counter by its name. Holding it makes the store count the numbers in
  // this rule's field from the start, and keeps it from forgetting the counter.
  std::shared_ptr<BlockCache> announced_;
};

}  // namespace

std::unique_ptr<RuleSource> counter_rule(RuleSource::About about, const Clock& clock) {
  return std::make_unique<Counter>(std::move(about), clock);
}

/// Keys: output, encoding, format, start, step, max, and those of read_sequences(), read_width()
/// and read_counter().
std::unique_ptr<RuleSource> make_counter(Parameters& rule, Sources sources,
                                         std::string_view store_db) {
  RuleSource::About about;
  about.field = {rule.text("ns", ""), rule.text("field", ""), read_format(rule)};
  about.sequences = read_sequences(rule, about.field.format);
  CounterSpec& spec = about.counter.emplace();
  read_numbers(spec, about.field.format, rule);
  spec.max =
      read_width(rule, about.field.format, about.sequences, {spec.start, spec.step, spec.max});
  read_counter(about, rule, store_db, read_heal);
  return counter_rule(std::move(about), sources.clock);
}

}  // namespace idproxy::ids
