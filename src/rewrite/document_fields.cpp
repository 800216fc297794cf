#include "idproxy/rewrite/document_fields.hpp"

namespace idproxy::rewrite {
namespace {

using Is = ids::FieldValue::Is;

/// Nothing if the document is malformed.
std::optional<ids::FieldValue> child(Bytes document, std::string_view name) {
  ids::FieldValue found;
  bson::Elements elements(document);
  while (const auto element = elements.next()) {
    if (element->key != name) continue;
    found.is = found.is == Is::missing ? Is::there : Is::twice;
    if (found.is == Is::there) found.element = *element;
  }
  return elements.malformed() ? std::nullopt : std::optional(found);
}

}  // namespace

std::optional<ids::FieldValue> field_at(Bytes document, std::string_view path) {
  while (true) {
    const std::size_t dot = path.find('.');
    auto found = child(document, path.substr(0, dot));
    if (!found || found->is != Is::there || dot == std::string_view::npos) return found;
    if (found->element.type == bson::Type::array) return ids::FieldValue{Is::in_array, {}};
    if (found->element.type != bson::Type::document) return ids::FieldValue{};
    document = found->element.value;
    path.remove_prefix(dot + 1);
  }
}

std::optional<Bytes> first_batch(Bytes reply) {
  const auto cursor = bson::find(reply, "cursor", bson::Type::document);
  if (!cursor) return std::nullopt;
  const auto batch = bson::find(cursor->value, "firstBatch", bson::Type::array);
  return batch ? std::optional(batch->value) : std::nullopt;
}

}  // namespace idproxy::rewrite
