#include "id_store/server_text.hpp"

#include <cstddef>

#include "id_store/counter_commands.hpp"
#include "idproxy/base/printable.hpp"

namespace idproxy::id_store {
namespace {

constexpr std::size_t kLongestText = 300;
constexpr std::string_view kCut = "…";

/// The text up to `what`, if it has that.
std::string_view up_to(std::string_view text, std::string_view what) {
  return text.substr(0, text.find(what));
}

/// Returns the beginning of the text that certainly shows no value. That of 13 Unauthorized goes on
/// with the whole command.
std::string_view safe_part(std::int32_t code, std::string_view text) {
  if (code == ErrorCode::duplicate_key) return up_to(up_to(text, " dup key"), " collation:");
  if (code == ErrorCode::unauthorized) return up_to(text, " to execute command");
  if (is(code, CodeTrait::no_values)) return text;
  return text.substr(0, text.find_first_of("\"'`{}[]()<>0123456789"));
}

}  // namespace

std::string server_text(std::int32_t code, std::string_view message) {
  std::string_view safe = safe_part(code, message);
  const bool is_cut = safe.size() < message.size();
  while (safe.ends_with(' ')) safe.remove_suffix(1);
  std::string text = printable(safe, kLongestText);
  if (is_cut && !text.empty() && !text.ends_with(kCut)) text.append(" ").append(kCut);
  return text;
}

std::string error_text(const mongo::Reply& reply) {
  const std::string text = server_text(reply.code, reply.message);
  return "error " + code_name(reply) + (text.empty() ? "" : ": " + text);
}

}  // namespace idproxy::id_store
