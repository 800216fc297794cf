#include "rewrite/own_command.hpp"

#include <algorithm>

#include "idproxy/bson/elements.hpp"

namespace idproxy::rewrite {

void OwnCommand::send(std::span<const std::string_view> kept, std::string_view db,
                      wire::PatchedMessage& out) {
  bson::Elements fields(client_.body());
  while (const auto field = fields.next()) {
    if (std::ranges::find(kept, field->key) != kept.end()) bson::append_copy(out_, *field);
  }
  bson::append_string(out_, "$db", db);
  document_.close();
  frame_.close();
  out.start({}, out_.size());
  out.add(out_.view());
}

}  // namespace idproxy::rewrite
