#include "ids/objectid.hpp"

#include <algorithm>
#include <boost/endian/conversion.hpp>
#include <chrono>
#include <mutex>
#include <optional>
#include <utility>

#include "idproxy/ids/strategies.hpp"
#include "ids/decoding.hpp"
#include "ids/encoding.hpp"
#include "ids/hex.hpp"

namespace idproxy::ids {
namespace {

constexpr unsigned kObjectIdBits = 8 * kObjectIdSize;

std::uint64_t second_of(const Clock& clock) {
  const auto second = std::chrono::floor<std::chrono::seconds>(clock.wall()).count();
  return static_cast<std::uint64_t>(std::max<std::int64_t>(second, 0));
}

void append_bytes(const ObjectIdPosition& position, const ObjectIdRandom& random, Values& out) {
  write_objectid(position, random, out.add(bson::Type::object_id, kObjectIdSize));
}

void append_id_text(const ObjectIdPosition& position, const ObjectIdRandom& random,
                    const TextForm& form, Values& out) {
  using boost::endian::load_big_u32, boost::endian::load_big_u64;
  std::array<std::uint8_t, kObjectIdSize> id;
  write_objectid(position, random, id.data());
  if (form.alphabet == kHex) {
    write_hex(id, form.add(form.digits, out));
  } else {
    form.append(Uint128{load_big_u32(id.data())} << 64 | load_big_u64(id.data() + 4), out);
  }
}

/// Every object has random bytes and a counter of its own: rules share no state, their ids differ
/// in the 5 random bytes, and tests can inject the sources. A mutex guards the sequence.
class ObjectId final : public Source {
 public:
  /// `text`: nothing for the BSON type.
  ObjectId(std::optional<TextForm> text, Sources sources)
      : text_(std::move(text)), sources_(sources) {
    seed();
  }

  [[nodiscard]] std::size_t most_bytes() const override {
    return kMostBytes + (text_ ? text_->prefix.size() : 0);
  }

  Draw next(std::size_t n, Values& out) override {
    const std::lock_guard lock(mutex_);
    // A child of fork() would continue with the parent's bytes and counter.
    if (generation_ != sources_.random.generation()) seed();
    sequence_.follow(second_of(sources_.clock));
    for (; text_ && n > 0; --n) append_id_text(sequence_.next(), random_, *text_, out);
    for (; n > 0; --n) append_bytes(sequence_.next(), random_, out);
    return {};
  }

 private:
  void seed() {
    std::array<std::uint8_t, 8> bytes;
    generation_ = sources_.random.generation();
    sources_.random.fill(bytes);
    std::copy_n(bytes.begin(), random_.size(), random_.begin());
    sequence_ = ObjectIdSequence(boost::endian::load_big_u24(bytes.data() + random_.size()));
  }

  const std::optional<TextForm> text_;
  const Sources sources_;
  std::mutex mutex_;
  std::uint64_t generation_ = 0;
  ObjectIdRandom random_{};
  ObjectIdSequence sequence_{0};
};

Decoded read_objectid(std::string_view text, const TextForm& form) {
  const auto bits = form.read(text);
  if (!bits) return bits.error();
  Meaning meaning{{"time", time_text(std::chrono::seconds(*bits >> 64))}};
  if (form.alphabet != kHex) {
    std::string hex(2 * kObjectIdSize, '0');
    encode(*bits, kHex, {reinterpret_cast<std::uint8_t*>(hex.data()), hex.size()});
    meaning.emplace_back("objectid", std::move(hex));
  }
  return meaning;
}

}  // namespace

void write_objectid(const ObjectIdPosition& position, const ObjectIdRandom& random,
                    std::uint8_t* at) {
  boost::endian::store_big_u32(at, position.second);
  std::copy_n(random.begin(), random.size(), at + 4);
  boost::endian::store_big_u24(at + 9, position.counter);
}

std::unique_ptr<RuleSource> make_object_ids(Sources sources) {
  const TextForm form({}, kHex, kObjectIdBits);
  return std::make_unique<SharedSource>(
      std::make_shared<ObjectId>(std::nullopt, sources),
      [form](std::string_view text) { return read_objectid(text, form); });
}

/// Keys: output (objectid, string), encoding, prefix.
std::unique_ptr<RuleSource> make_objectid(Parameters& parameters, Sources sources,
                                          std::string_view /*store_db*/) {
  TextForm form;
  const bool is_text = read_text_output(parameters, "objectid", kObjectIdBits, form);
  const bool is_encoded = !form.alphabet.empty();
  if (!is_encoded) form = TextForm(std::move(form.prefix), kHex, kObjectIdBits);
  SharedSource::Judge judge;
  if (is_encoded || !form.prefix.empty()) {
    judge = [form](std::string_view text) { return form.read(text).has_value(); };
  }
  return std::make_unique<SharedSource>(
      std::make_shared<ObjectId>(is_text ? std::optional(form) : std::nullopt, sources),
      [form](std::string_view text) { return read_objectid(text, form); }, std::move(judge));
}

}  // namespace idproxy::ids
