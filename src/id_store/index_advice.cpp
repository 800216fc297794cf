#include "id_store/index_advice.hpp"

#include <algorithm>

namespace idproxy::id_store {
namespace {

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

std::string options_of(std::string_view field, ValueType type, const IndexOffer& offer) {
  std::string options = "{unique: true";
  if (offer.form == IndexForm::sparse) options += ", sparse: true";
  if (offer.form == IndexForm::partial) {
    options += ", partialFilterExpression: {" + in_quotes(field) +
               ": {$type: " + in_quotes(alias_of(type)) + "}}";
  }
  if (offer.form == IndexForm::existing) {
    options += ", partialFilterExpression: {" + in_quotes(field) + ": {$exists: true}}";
  }
  if (!offer.name.empty()) options += ", name: " + in_quotes(offer.name);
  return options + "}";
}

}  // namespace

std::vector<std::string> key_fields(std::string_view field, const Repeats& repeats) {
  std::vector<std::string> fields = repeats.scope;
  fields.emplace_back(field);
  return fields;
}

std::string default_name(std::span<const std::string> fields, bool descending) {
  std::string name;
  for (const std::string& field : fields) {
    const bool is_down = descending && &field == &fields.back();
    name += (name.empty() ? "" : "_") + field + (is_down ? "_-1" : "_1");
  }
  return name;
}

std::string free_name(std::span<const Index> indexes, std::string_view field,
                      const Repeats& repeats, bool descending) {
  const auto is_taken = [&](const std::string& name) {
    return std::ranges::find(indexes, name, &Index::name) != indexes.end();
  };
  if (!is_taken(default_name(key_fields(field, repeats), descending))) return {};
  std::string name = std::string(field) + "_unique";
  for (int n = 2; is_taken(name); ++n) name = std::string(field) + "_unique_" + std::to_string(n);
  return name;
}

bool has_ascending_key(std::span<const Index> indexes, std::span<const std::string> fields) {
  return std::ranges::any_of(indexes, [&](const Index& index) {
    return std::ranges::equal(index.keys, fields, [](const Index::Key& key, const auto& field) {
      return key.field == field && key.is_ordered && key.is_ascending;
    });
  });
}

std::string create_index_command(const Namespace& ns, std::string_view field, ValueType type,
                                 const IndexOffer& offer) {
  std::string key;
  const std::vector<std::string> fields = key_fields(field, offer.repeats);
  for (const std::string& each : fields) {
    const bool is_down = offer.descending && &each == &fields.back();
    key += (key.empty() ? "" : ", ") + in_quotes(each) + (is_down ? ": -1" : ": 1");
  }
  if (offer.repeats.and_more) key += ", <a field that differs from period to period>: 1";
  return "db.getSiblingDB(" + in_quotes(ns.db) + ").getCollection(" + in_quotes(ns.collection) +
         ").createIndex({" + key + "}, " + options_of(field, type, offer) + ")";
}

}  // namespace idproxy::id_store
