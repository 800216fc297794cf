#include "id_store/hello_guard.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "idproxy/base/printable.hpp"
#include "idproxy/base/server_address.hpp"
#include "idproxy/bson/elements.hpp"

namespace idproxy::id_store {
namespace {

// A set has at most 50 members, and libmongoc starts a thread for each.
constexpr std::size_t kMostMembers = 100;
constexpr std::int64_t kMostWireVersion = 1000;

bool is_member(const bson::Element& name) {
  return name.type == bson::Type::string && is_server_address(name.text());
}

bool is_member_or_none(const bson::Element& name) {
  return is_member(name) || (name.type == bson::Type::string && name.text().empty());
}

bool is_text(const bson::Element& element) {
  return element.type == bson::Type::string && element.text().find('\0') == std::string_view::npos;
}

/// `is_one`: whether an element of the array is what it must be.
template <class IsOne>
bool is_list(const bson::Element& field, const IsOne& is_one) {
  if (field.type != bson::Type::array) return false;
  bson::Elements each(field.value);
  std::size_t count = 0;
  while (const auto element = each.next()) {
    if (!is_one(*element) || ++count > kMostMembers) return false;
  }
  return !each.malformed();
}

bool is_document(const bson::Element& field) {
  const bool is_one = field.type == bson::Type::document;
  const auto whole = is_one ? bson::document_at(field.value) : std::nullopt;
  return whole && whole->size() == field.value.size();
}

bool is_wire_version(const bson::Element& field) {
  const auto value = field.as_integer();
  return field.type == bson::Type::int32 && *value >= 0 && *value <= kMostWireVersion;
}

/// What the field had to be; empty: it is that, or libmongoc does not care.
std::string_view wanted_of(const bson::Element& field) {
  const std::string_view key = field.key;
  if (key == "hosts" || key == "passives" || key == "arbiters") {
    return is_list(field, is_member) ? "" : "a list of HOST:PORT";
  }
  if (key == "me" || key == "primary") return is_member_or_none(field) ? "" : "a HOST:PORT";
  if (key == "setName") return is_text(field) && !field.text().empty() ? "" : "a name";
  if (key == "msg") return is_text(field) ? "" : "a text";
  if (key == "compression") return is_list(field, is_text) ? "" : "a list of names";
  if (key == "minWireVersion" || key == "maxWireVersion") {
    return is_wire_version(field) ? "" : "a number from 0 to 1000";
  }
  if (key == "speculativeAuthenticate") return is_document(field) ? "" : "a document";
  return "";
}

/// ", not "x:0"": the first text that had to be a member.
std::string instead_of_member(const bson::Element& field) {
  if (field.type == bson::Type::string) return ", not " + named(field.text());
  if (field.type != bson::Type::array) return "";
  for (const bson::Element& element : bson::Elements(field.value)) {
    if (element.type == bson::Type::string && !is_member(element)) {
      return ", not " + named(element.text());
    }
  }
  return "";
}

}  // namespace

std::string fault_of_hello(Bytes reply) {
  const auto whole = bson::document_at(reply);
  if (!whole || whole->size() != reply.size()) return "its reply to hello is no document";
  bson::Elements fields(*whole);
  while (const auto field = fields.next()) {
    const std::string_view wanted = wanted_of(*field);
    if (wanted.empty()) continue;
    return "its reply to hello cannot be used: " + std::string(field->key) + " must be " +
           std::string(wanted) + (wanted.ends_with("HOST:PORT") ? instead_of_member(*field) : "");
  }
  return fields.malformed() ? "its reply to hello is malformed" : "";
}

}  // namespace idproxy::id_store
