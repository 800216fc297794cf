#include "idproxy/wire/op_query.hpp"

#include <cstring>

#include "idproxy/bson/elements.hpp"

namespace idproxy::wire {

std::optional<OpQueryView> OpQueryView::parse(Bytes message) {
  if (message.size() < kHeaderSize + 4) return std::nullopt;
  const Bytes rest = message.subspan(kHeaderSize + 4);
  const auto* nul = static_cast<const std::uint8_t*>(std::memchr(rest.data(), 0, rest.size()));
  if (nul == nullptr) return std::nullopt;
  OpQueryView view;
  const auto name_size = static_cast<std::size_t>(nul - rest.data());
  view.full_collection_name = as_text(rest.first(name_size));
  constexpr std::size_t kSkipAndReturn = 8;
  if (rest.size() < name_size + 1 + kSkipAndReturn) return std::nullopt;
  const auto query = bson::document_at(rest.subspan(name_size + 1 + kSkipAndReturn));
  if (!query) return std::nullopt;
  view.query = *query;
  return view;
}

bool is_exhaust(Bytes front) {
  constexpr std::uint32_t kExhaust = 1U << 6;
  return front.size() >= kHeaderSize + 4 && (load_u32(front.data() + kHeaderSize) & kExhaust) != 0;
}

}  // namespace idproxy::wire
