#include "idproxy/rewrite/stage.hpp"

#include <algorithm>
#include <array>

#include "idproxy/bson/elements.hpp"
#include "idproxy/rewrite/reply.hpp"

namespace idproxy::rewrite {

bool Failure::rejects(std::string_view field) const {
  using enum ErrorCode;
  constexpr std::array kRejections{bad_value,       failed_to_parse,  type_mismatch,
                                   invalid_options, api_strict_error, idl_unknown_field};
  if (std::ranges::none_of(kRejections, [&](ErrorCode its) { return code == its; })) return false;
  const auto errmsg = bson::find(message.body(), "errmsg", bson::Type::string);
  return errmsg && errmsg->text().find(field) != std::string_view::npos;
}

}  // namespace idproxy::rewrite
