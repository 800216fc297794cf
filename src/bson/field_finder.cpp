#include "idproxy/bson/field_finder.hpp"

#include <algorithm>
#include <bit>

#include "value_size.hpp"

namespace idproxy::bson {
namespace {

constexpr std::size_t kWordBytes = 8;
constexpr std::ptrdiff_t kWord = kWordBytes;

std::uint64_t load_word(const std::uint8_t* at) {
  return static_cast<std::uint64_t>(load_i64(at));
}

/// The bytes 00 of a word, as bits 7, 15, …; above the first one there may be others.
std::uint64_t nuls_in(std::uint64_t word) {
  constexpr std::uint64_t kOnes = 0x0101010101010101;
  constexpr std::uint64_t kHighs = 0x8080808080808080;
  return (word - kOnes) & ~word & kHighs;
}

/// The NUL of a key that begins with `word`; `end` if there is none.
const std::uint8_t* end_of_key(std::uint64_t word, const std::uint8_t* key,
                               const std::uint8_t* end) {
  std::uint64_t nuls = nuls_in(word);
  while (nuls == 0) {
    key += kWord;
    if (end - key < kWord) return std::find(key, end, 0);
    nuls = nuls_in(load_word(key));
  }
  return key + std::countr_zero(nuls) / kWord;
}

}  // namespace

void FieldFinder::add(std::string_view name) {
  Name& its = names_[count_++];
  std::array<std::uint8_t, kWordBytes> bytes{};
  std::copy_n(name.begin(), std::min(name.size(), kWordBytes), bytes.begin());
  its.word = load_word(bytes.data());
  its.mask = ~std::uint64_t{0};
  if (name.size() + 1 < kWordBytes) its.mask = (std::uint64_t{1} << (8 * (name.size() + 1))) - 1;
  its.text = name;
}

std::optional<FieldFinder::Found> FieldFinder::find(Bytes document, Until until,
                                                    Places& places) const {
  const std::uint8_t* at = document.data() + 4;
  const std::uint8_t* const end = document.data() + document.size() - 1;
  const std::uint32_t enough = until == Until::all_found ? all() : 0;
  const std::size_t count = count_;
  std::uint32_t there = 0;
  std::uint32_t twice = 0;
  const auto meet = [&](std::size_t i, const std::uint8_t* place) {
    const std::uint32_t bit = std::uint32_t{1} << i;
    if ((there & bit) == 0) places[i] = place;
    twice |= there & bit;
    there |= bit;
  };
  while (at != end) {
    const std::uint8_t* const key = at + 1;
    const std::uint8_t* nul;
    if (end - key >= kWord) {
      const std::uint64_t word = load_word(key);
      nul = end_of_key(word, key, end);
      for (std::size_t i = 0; i < count; ++i) {
        const Name& name = names_[i];
        if (((word ^ name.word) & name.mask) != 0) continue;
        if (name.text.size() < kWordBytes || as_text({key, nul}) == name.text) meet(i, at);
      }
    } else {
      nul = std::find(key, end, 0);
      for (std::size_t i = 0; i < count; ++i) {
        if (as_text({key, nul}) == names_[i].text) meet(i, at);
      }
    }
    if (nul == end) return std::nullopt;
    at = end_of_value(static_cast<Type>(*at), nul + 1, end);
    if (at == nullptr) return std::nullopt;
    if (there == enough && enough != 0) break;
  }
  return Found{there, twice};
}

}  // namespace idproxy::bson
