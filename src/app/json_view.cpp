#include "app/json_view.hpp"

#include <bson/bson.h>

#include <boost/json/serialize.hpp>
#include <cmath>
#include <stdexcept>

#include "idproxy/base/printable.hpp"
#include "idproxy/base/utf8.hpp"

namespace idproxy::app {

JsonView JsonView::operator[](std::string_view key) const {
  if (!is_object()) return {};
  const boost::json::value* found = value_->get_object().if_contains(key);
  return found != nullptr ? JsonView(*found) : JsonView();
}

std::vector<JsonView> JsonView::items() const {
  std::vector<JsonView> items;
  if (!is_array()) return items;
  for (const boost::json::value& each : value_->get_array()) items.emplace_back(each);
  return items;
}

JsonView JsonView::last() const {
  if (!is_array()) return {};
  const boost::json::array& all = value_->get_array();
  return all.empty() ? JsonView() : JsonView(all.back());
}

std::vector<std::string> JsonView::keys() const {
  std::vector<std::string> keys;
  if (!is_object()) return keys;
  for (const auto& member : value_->get_object()) keys.emplace_back(member.key());
  return keys;
}

std::optional<double> JsonView::number() const {
  if (value_ == nullptr || !value_->is_number()) return std::nullopt;
  const double number = value_->to_number<double>();
  return std::isfinite(number) ? std::optional(number) : std::nullopt;
}

std::optional<std::uint64_t> JsonView::count() const {
  constexpr double kMost = std::uint64_t{1} << 53U;
  const double is = number().value_or(-1);
  if (is < 0 || is > kMost || std::floor(is) != is) return std::nullopt;
  return static_cast<std::uint64_t>(is);
}

std::string JsonView::text() const {
  return value_ != nullptr && value_->is_string() ? std::string(value_->get_string()) : "";
}

bool JsonView::is_true() const {
  return value_ != nullptr && value_->is_bool() && value_->get_bool();
}

bool JsonView::is_false() const {
  return value_ != nullptr && value_->is_bool() && !value_->get_bool();
}

boost::json::string json_text(std::string_view of) {
  boost::json::string valid;
  while (!of.empty()) {
    const auto [code_point, size] = first_character(of);
    if (code_point == kReplacementCharacter) {
      valid += "\xef\xbf\xbd";
    } else {
      valid.append(of.substr(0, size));
    }
    of.remove_prefix(size);
  }
  return valid;
}

boost::json::value text_or_null(std::string_view of) {
  return of.empty() ? boost::json::value() : boost::json::value(json_text(of));
}

boost::json::array commands_json(const Commands& commands) {
  boost::json::array all;
  for (const TypedCommand& each : commands.all()) {
    const bool is_shell = each.in == TypedCommand::In::shell;
    all.push_back({{"in", is_shell ? "shell" : "mongosh"},
                   {"command", each.line()},
                   {"words", boost::json::array(each.words.begin(), each.words.end())}});
  }
  return all;
}

Buffer bson_of(const boost::json::value& document) {
  const std::string text = boost::json::serialize(document);
  bson_t read = BSON_INITIALIZER;
  bson_error_t error;
  if (!bson_init_from_json(&read, text.data(), static_cast<ssize_t>(text.size()), &error)) {
    throw std::runtime_error(static_cast<const char*>(error.message));
  }
  Buffer out;
  out.append({bson_get_data(&read), read.len});
  bson_destroy(&read);
  return out;
}

std::string json_line(const boost::json::value& value) {
  return printable(boost::json::serialize(value), kWhole) + '\n';
}

}  // namespace idproxy::app
