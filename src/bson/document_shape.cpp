#include "idproxy/bson/document_shape.hpp"

#include <cstring>

#include "idproxy/bson/element_ends.hpp"

namespace idproxy::bson {

bool DocumentShape::begin_part() {
  if (parts_.size() == kMostParts) return false;
  parts_.emplace_back();
  return true;
}

/// Adds bytes to the last part, and to new ones behind it.
bool DocumentShape::append(Bytes bytes, std::uint8_t mask) {
  for (const std::uint8_t byte : bytes) {
    const bool full = parts_.empty() || parts_.back().counted || parts_.back().size == kAtOnce;
    if (full && !begin_part()) return false;
    Part& part = parts_.back();
    part.bytes[kAtOnce + part.size] = byte;
    part.masks[kAtOnce + part.size] = mask;
    ++part.size;
  }
  return true;
}

bool DocumentShape::add(const Element& element, std::uint32_t names) {
  constexpr std::uint8_t kCounts = 0xff;
  constexpr std::uint8_t kAny = 0;
  const Bytes head(element.begin, element.value.data());
  const std::int16_t fixed = kFixedSizes[static_cast<std::uint8_t>(element.type)];
  const auto counted = counted_value(element.type);
  if (fixed < 0 && !counted) return false;
  // Bytes of the value that are always there.
  const std::size_t front = counted ? counted->front : static_cast<std::size_t>(fixed);
  if (names != 0) {
    // The walk may end where this element is found, so one part must have all of it.
    if (head.size() + front > kAtOnce || !begin_part()) return false;
    Part& part = parts_.back();
    part.names = names;
    part.name_end = static_cast<std::uint8_t>(head.size());
    part.value_end = static_cast<std::uint8_t>(counted ? 0 : head.size() + front);
  }
  if (!append(head, kCounts)) return false;
  // An int32 of which the parts have a half each could not be read.
  const bool splits = counted && parts_.back().size + front > kAtOnce;
  if (splits && !begin_part()) return false;
  if (!append(element.value.first(front), kAny)) return false;
  if (!counted) return true;
  Part& part = parts_.back();
  part.counted = true;
  part.count_at = static_cast<std::uint8_t>(part.size - front);
  part.last = counted->ends_with_nul ? 0xff : 0;
  part.least = counted->least;
  return true;
}

/// `first`: the position in the part's patterns that stands for the byte at `at`.
bool DocumentShape::differs(const Part& part, const std::uint8_t* at, std::size_t first) {
  using Words = std::uint64_t __attribute__((vector_size(16)));  // as SSE2 and NEON have them
  Words difference{};
  for (std::size_t i = 0; i < kAtOnce; i += sizeof(Words)) {
    const auto words = [&](const std::uint8_t* from) {
      Words read;
      std::memcpy(&read, from + i, sizeof read);
      return read;
    };
    difference |= (words(at) ^ words(part.bytes.data() + first)) & words(part.masks.data() + first);
  }
  return (difference[0] | difference[1]) != 0;
}

bool DocumentShape::fits(Bytes document, std::uint64_t enough, FoundNames& found,
                         FoundNames::Places& places) const {
  if (document.size() < kAtOnce) return false;
  const std::uint8_t* at = document.data() + 4;
  const std::uint8_t* const end = document.data() + document.size() - 1;
  for (const Part& part : parts_) {
    std::ptrdiff_t left = end - at;
    // Where the document has fewer bytes left, its last ones are compared with as many of the
    // pattern: those before the part do not count.
    constexpr auto kMany = static_cast<std::ptrdiff_t>(kAtOnce) - 1;
    if (left >= kMany ? differs(part, at, kAtOnce)
                      : differs(part, at + left - kMany, static_cast<std::size_t>(left) + 1)) {
      return false;
    }
    left -= part.size;
    if (left < part.least) return false;
    const std::uint8_t* next = at + part.size;
    if (part.counted) {
      const std::ptrdiff_t count = load_i32(at + part.count_at);
      const auto more = static_cast<std::size_t>(left - part.least);
      if (static_cast<std::size_t>(count - part.least) > more) return false;
      next += count;
      if ((*(next - 1) & part.last) != 0) return false;
    }
    if (part.names != 0) {
      const std::uint8_t* const value_end = part.value_end != 0 ? at + part.value_end : next;
      found.note(part.names, element_at(at, part.name_end, value_end), places);
      if (found.there == enough) return true;
    }
    at = next;
  }
  return at == end;
}

}  // namespace idproxy::bson
