#include "ids/counter_parameters.hpp"

#include <array>
#include <limits>
#include <optional>
#include <string>
#include <variant>

#include "idproxy/base/buffer.hpp"
#include "idproxy/bson/builder.hpp"
#include "idproxy/bson/elements.hpp"
#include "ids/sequence_parameters.hpp"

namespace idproxy::ids {
namespace {

using namespace std::chrono_literals;
using Int64 = std::numeric_limits<std::int64_t>;
using Int32 = std::numeric_limits<std::int32_t>;
using Output = NumberFormat::Output;
using ValueIs = CounterPlace::ValueIs;

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

void read_numbers(CounterSpec& spec, Output output, Parameters& rule) {
  const bool narrow = output == Output::int32;
  const std::int64_t lowest = narrow ? Int32::min() : Int64::min();
  const std::int64_t highest = narrow ? Int32::max() : Int64::max();
  spec.step = rule.integer("step", -65535, 65535, 1);
  if (spec.step == 0) rule.error("step", "must not be 0");
  const bool down = spec.step < 0;
  spec.max = rule.integer("max", lowest, highest, down ? lowest : highest);
  spec.start = rule.integer("start", lowest, highest, 1);
  if (down ? spec.start < spec.max : spec.start > spec.max) {
    rule.error("start", "must not be beyond max (" + std::to_string(spec.max) + ")");
  }
}

/// Reads text around the number.
std::string read_affix(std::string_view key, Parameters& format) {
  std::string text = format.text(key, "");
  if (text.find_first_of("{}") != std::string::npos) {
    format.warning(key,
                   "is stored as it is, braces included: tokens such as {yyyy} belong into "
                   "`template`");
  }
  return text;
}

}  // namespace

NumberFormat read_format(Parameters& rule) {
  NumberFormat read;
  read.output = static_cast<Output>(rule.choice("output", {"int64", "int32", "string"}));
  Parameters& format = rule.section("format");
  read.pad = static_cast<std::uint32_t>(format.integer("pad", 0, 34, 0));
  read.prefix = read_affix("prefix", format);
  read.suffix = read_affix("suffix", format);
  if (rule.given("format") && read.output != Output::string) {
    rule.error("format", "needs output: string");
  }
  return read;
}

namespace {

std::optional<std::uint32_t> read_size(std::string_view key, Parameters& parameters) {
  const auto size = parameters.integer_unless(key, "auto", 1, CounterSpec::Block::kMost);
  return size ? std::optional(static_cast<std::uint32_t>(*size)) : std::nullopt;
}

}  // namespace

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

CounterSpec::Heal read_heal(Parameters& heal) {
  CounterSpec::Heal read;
  read.mode = static_cast<CounterSpec::Heal::Mode>(heal.choice("mode", {"max", "gap", "off"}));
  read.after = static_cast<std::uint32_t>(heal.integer("after", 1, 1'000'000, read.after));
  read.max_jump = heal.integer("max_jump", 0, Int64::max(), read.max_jump);
  read.at_start = heal.boolean("at_start", read.at_start);
  if (read.at_start && read.mode == CounterSpec::Heal::Mode::off) {
    heal.warning("at_start", "has no effect with mode: off");
  }
  return read;
}

CounterSpec::OnStoreDown read_on_store_down(Parameters& on_store_down) {
  using Action = CounterSpec::OnStoreDown::Action;
  CounterSpec::OnStoreDown read;
  read.action = static_cast<Action>(on_store_down.choice("action", {"fail", "wait"}));
  read.wait = on_store_down.duration("wait", 0ms, 2s, read.wait);  // StoreBacked::kPatience
  return read;
}

CounterUse read_counter(Parameters& rule, std::string_view store_db) {
  CounterUse use;
  use.field = {rule.text("ns", ""), rule.text("field", ""), read_format(rule)};
  use.sequences = read_sequences(rule, use.field.format);
  check_gap(rule, use.sequences);
  read_numbers(use.spec, use.field.format.output, rule);
  read_width(rule, use, use.spec);
  use.spec.block = read_block(rule);
  const auto name = rule.optional_text("name");
  Parameters& store = rule.section("store");
  use.spec.place = read_place(store, store_db);
  if (!use.spec.place.scope_field.empty() && use.sequences.reset != Reset::none) {
    rule.error(
        "reset",
        "has no place in layout mongoose-sequence, whose counters have no field for a period");
  }
  const auto key = store.optional_text("key");
  use.per_namespace = !name && !key;
  use.spec.place.key = key ? *key : name.value_or(use.field.ns + "." + use.field.field);
  use.spec.scan = rule.duration_or_off("scan", 1s, 1h, use.spec.scan);
  use.spec.heal = read_heal(rule.section("heal"));
  use.spec.on_store_down = read_on_store_down(rule.section("on_store_down"));
  return use;
}

}  // namespace idproxy::ids
