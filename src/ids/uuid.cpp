#include "ids/uuid.hpp"

#include <algorithm>
#include <boost/endian/conversion.hpp>
#include <chrono>
#include <limits>
#include <mutex>
#include <string>
#include <utility>

#include "idproxy/base/parameters.hpp"
#include "idproxy/ids/rule_source.hpp"
#include "ids/ascending_time.hpp"
#include "ids/decoding.hpp"
#include "ids/hex.hpp"
#include "ids/random_chunk.hpp"

namespace idproxy::ids {
namespace {

using boost::endian::load_big_u16;
using boost::endian::load_big_u32;
using boost::endian::load_big_u64;
using boost::endian::store_big_u16;
using boost::endian::store_big_u32;
using boost::endian::store_big_u64;

constexpr std::uint16_t kRandA = 0x0FFF;
constexpr std::uint64_t kRandB = 0x3FFF'FFFF'FFFF'FFFF;
constexpr std::uint16_t kClockSeq = 0x3FFF;

using TimeOfVersion1 = std::chrono::duration<std::int64_t, std::ratio<1, 10'000'000>>;

void set_version_and_variant(Uuid& uuid, unsigned version) {
  uuid[6] = static_cast<std::uint8_t>((uuid[6] & 0x0F) | version << 4);
  uuid[8] = static_cast<std::uint8_t>((uuid[8] & 0x3F) | 0x80);
}

/// For each stored byte, its position in the UUID.
constexpr Uuid kAsItIs{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
constexpr Uuid kJava{7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8};
constexpr Uuid kCsharp{3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15};

constexpr std::size_t kBinaryHead = 4 + 1;  // of BSON binary: int32 size, subtype
constexpr std::size_t kBinarySize = kBinaryHead + kUuidSize;

/// Writes the head, and returns where the bytes belong.
std::uint8_t* write_head(std::uint8_t subtype, std::uint8_t* at) {
  store_i32(at, kUuidSize);
  at[4] = subtype;
  return at + kBinaryHead;
}

void append_binary(const Uuid& uuid, std::uint8_t subtype, const Uuid& order, Values& out) {
  std::uint8_t* at = write_head(subtype, out.add(bson::Type::binary, kBinarySize));
  for (std::size_t i = 0; i < kUuidSize; ++i) at[i] = uuid[order[i]];
}

void append_text(const Uuid& uuid, const TextForm& form, Values& out) {
  if (form.alphabet.empty()) return write_uuid_text(uuid, form.add(kUuidTextSize, out));
  form.append(load_big_u128(uuid.data()), out);
}

/// Whether these are bits of a UUID of this version, with the variant of RFC 9562.
bool has_version(Uint128 uuid, unsigned version) {
  return static_cast<unsigned>(uuid >> 76 & 0xF) == version &&
         static_cast<unsigned>(uuid >> 62 & 3) == 2;
}

/// A UUID as two numbers, whose bytes are in big-endian order.
struct Halves {
  std::uint64_t first;
  std::uint64_t second;
  void write(std::uint8_t* at) const {
    store_big_u64(at, first);
    store_big_u64(at + 8, second);
  }
};

Halves halves_v7(std::uint64_t milliseconds, const Random74& random) {
  constexpr std::uint64_t kVersion = 7;
  constexpr std::uint64_t kVariant = 2;
  return {milliseconds << 16 | kVersion << 12 | random.rand_a, kVariant << 62 | random.rand_b};
}

/// Appends `n` ids, which `next` returns one after the other. Writes the usual form straight to
/// where it belongs: with thousands of ids a message, that counts. Calls `next` in one place only,
/// or compilers do not inline it.
template <class Next>
void append_v7(std::size_t n, const UuidForm& form, Values& out, Next next) {
  const bool is_usual = form.representation == Representation::standard;
  std::uint8_t* at = is_usual ? out.add(bson::Type::binary, kBinarySize, n) : nullptr;
  for (; n > 0; --n) {
    const Halves made = next();
    if (is_usual) {
      made.write(write_head(4, at));
      at += kBinarySize;
      continue;
    }
    Uuid uuid;
    made.write(uuid.data());
    append_uuid(uuid, form, out);
  }
}

class UuidSource : public Source {
 public:
  UuidSource(UuidForm form, Sources sources) : form_(std::move(form)), sources_(sources) {}

  [[nodiscard]] std::size_t most_bytes() const override {
    return kMostBytes + form_.text.prefix.size();
  }

 protected:
  const UuidForm form_;
  const Sources sources_;
};

/// Version 1. Never repeats a pair of time and clock_seq, whatever the clock does. A mutex guards
/// the state.
class TimeBasedUuid final : public UuidSource {
 public:
  TimeBasedUuid(UuidForm form, Sources sources) : UuidSource(std::move(form), sources) { seed(); }

  Draw next(std::size_t n, Values& out) override {
    const std::lock_guard lock(mutex_);
    if (generation_ != sources_.random.generation()) seed();
    follow_clock();
    for (std::size_t i = 0; i < n; ++i) {
      append_uuid(layout_v1(next_ticks_++, clock_seq_, node_), form_, out);
    }
    return {};
  }

 private:
  void seed() {
    std::array<std::uint8_t, 8> bytes;
    generation_ = sources_.random.generation();
    sources_.random.fill(bytes);
    clock_seq_ = load_big_u16(bytes.data()) & kClockSeq;
    std::copy_n(bytes.begin() + 2, node_.size(), node_.begin());
    // The multicast bit marks a node that is not a network address (RFC 9562 6.10); the host's own
    // address would reveal where the id was made.
    node_[0] |= 1;
    steps_back_ = 0;
  }

  /// The clock may be before next_ticks_ without having gone back, if the last call made more ids
  /// than ticks have passed. So this compares the clock with its last reading, not with the last
  /// tick used.
  void follow_clock() {
    const auto now = static_cast<std::uint64_t>(
                         std::chrono::floor<TimeOfVersion1>(sources_.clock.wall()).count()) +
                     kGregorianOffset;
    if (now < last_clock_) {
      step_back();
      next_ticks_ = now;
    }
    last_clock_ = now;
    next_ticks_ = std::max(next_ticks_, now);
  }

  void step_back() {
    clock_seq_ = (clock_seq_ + 1) & kClockSeq;
    // All values of clock_seq have been used with this node: draw another node.
    if (++steps_back_ > kClockSeq) seed();
  }

  std::mutex mutex_;
  std::uint64_t generation_ = 0;
  std::uint64_t last_clock_ = 0;
  std::uint64_t next_ticks_ = 0;
  std::uint16_t clock_seq_ = 0;
  std::uint32_t steps_back_ = 0;  // since seed()
  std::array<std::uint8_t, 6> node_{};
};

/// Version 4. No state. 122 random bits make the ids unique.
class RandomUuid final : public UuidSource {
 public:
  using UuidSource::UuidSource;
  Draw next(std::size_t n, Values& out) override {
    RandomChunk<kUuidSize> bytes(sources_.random, n);
    for (std::size_t i = 0; i < n; ++i) append_uuid(layout_v4(bytes.next()), form_, out);
    return {};
  }
};

/// Version 7 without order within a millisecond: each id has 74 fresh random bits. No state.
class UnorderedUuid final : public UuidSource {
 public:
  using UuidSource::UuidSource;
  Draw next(std::size_t n, Values& out) override {
    const std::uint64_t now = milliseconds_of(sources_.clock);
    RandomChunk<10> bytes(sources_.random, n);
    append_v7(n, form_, out, [&] { return halves_v7(now, Random74::from(bytes.next())); });
    return {};
  }
};

/// Version 7, each id above the one before. A mutex guards the position.
class OrderedUuid final : public UuidSource {
 public:
  using UuidSource::UuidSource;
  Draw next(std::size_t n, Values& out) override {
    if (n == 0) return {};
    const std::lock_guard lock(mutex_);
    bool is_new = follow_clock();
    RandomChunk<4> steps(sources_.random, n - (is_new ? 1 : 0));
    // In a variable of its own, which stays in registers: a member is stored whole and loaded in
    // pieces for each id, which takes twice as long.
    Uuid7Position last = position_;
    append_v7(n, form_, out, [&] {
      if (!std::exchange(is_new, false)) {
        last = behind(last, load_big_u32(steps.next()), sources_.random);
      }
      return halves_v7(last.milliseconds, last.random);
    });
    position_ = last;
    return {};
  }

 private:
  /// True if position_ is new and has not been handed out yet.
  bool follow_clock() {
    const auto now = time_.begins_anew(position_.milliseconds, sources_);
    if (now) position_ = first_in(*now, sources_.random);
    return now.has_value();
  }

  std::mutex mutex_;
  AscendingTime time_;
  Uuid7Position position_;  // of the last id
};

/// Of 36 characters; of the older binaries, also from hex as they are stored.
boost::system::result<Uint128, std::string> bits_of_uuid(std::string_view text,
                                                         const UuidForm& form) {
  const bool is_old = form.representation != Representation::standard &&
                      form.representation != Representation::string;
  const auto stored = decode(text, kHex, 8 * kUuidSize);
  if (!is_old || !stored || text.size() != 2 * kUuidSize) return uuid_bits(text);
  Uuid uuid;
  store_big_u128(uuid.data(), *stored);
  Values again;
  append_uuid(uuid, form, again);  // each of their orders is its own inverse
  return load_big_u128(again[0].last(kUuidSize).data());
}

/// The bits in a value, or why it is none of the rule.
boost::system::result<Uint128, std::string> read_bits(std::string_view text, const UuidForm& form,
                                                      unsigned version) {
  const TextForm& written = form.text;
  if (written.alphabet.empty() && !text.starts_with(written.prefix)) return written.fault(text);
  auto bits = written.alphabet.empty() ? bits_of_uuid(text.substr(written.prefix.size()), form)
                                       : written.read(text);
  if (bits && !has_version(*bits, version)) {
    return uuid_text(*bits) + " is no UUID of version " + std::to_string(version);
  }
  return bits;
}

Decoded read_uuid(std::string_view text, const UuidForm& form, unsigned version) {
  const auto bits = read_bits(text, form, version);
  if (!bits) return bits.error();
  Meaning meaning{{"uuid", uuid_text(*bits)}};
  if (version == 7) {
    meaning.emplace_back("time", time_text(std::chrono::milliseconds(*bits >> 80)));
  }
  if (version == 1) {
    const auto ticks = static_cast<std::int64_t>((*bits >> 64 & 0xFFF) << 48 |
                                                 (*bits >> 80 & 0xFFFF) << 32 | *bits >> 96);
    const std::int64_t since_1970 = ticks - static_cast<std::int64_t>(kGregorianOffset);
    meaning.emplace_back(
        "time",
        time_text(std::chrono::floor<std::chrono::milliseconds>(TimeOfVersion1(since_1970))));
  }
  return meaning;
}

template <class Made>
std::unique_ptr<RuleSource> rule_of(const UuidForm& form, unsigned version, Sources sources) {
  SharedSource::Judge judge;
  if (!form.text.alphabet.empty() || !form.text.prefix.empty()) {
    judge = [form, version](std::string_view text) {
      return read_bits(text, form, version).has_value();
    };
  }
  return std::make_unique<SharedSource>(
      std::make_shared<Made>(form, sources),
      [form, version](std::string_view text) { return read_uuid(text, form, version); },
      std::move(judge));
}

/// Whether a prefix with its "_" names a type of TypeIDs (TypeID 0.3.0):
/// ^([a-z]([a-z_]{0,61}[a-z])?)?$, without the "_" if it is empty.
bool names_type(std::string_view prefix) {
  const std::string_view type = prefix.substr(0, prefix.size() - 1);
  return !type.empty() && type.size() <= 63 && type.front() != '_' && type.back() != '_' &&
         std::ranges::all_of(type, [](char c) { return c == '_' || (c >= 'a' && c <= 'z'); });
}

UuidForm read_form(Parameters& rule) {
  UuidForm form{static_cast<Representation>(rule.choice(
      "representation", {"standard", "java-legacy", "csharp-legacy", "python-legacy", "string"}))};
  form.text = read_text_form(rule, 8 * kUuidSize);
  if (!form.text.alphabet.empty()) {
    form.representation = Representation::string;
    rule.falls_back_to("representation", "string");
    if (rule.given("representation")) {
      rule.error("representation",
                 "has no place beside `encoding`, which makes the value a text: remove one of "
                 "them");
    }
  }
  const std::string_view prefix = form.text.prefix;
  if (!prefix.empty() && form.representation != Representation::string) {
    rule.error("prefix", "needs a text to stand before: add `encoding`, or representation: string");
  }
  if (form.text.alphabet == kBase32 && prefix.ends_with('_') && !names_type(prefix)) {
    rule.warning(
        "prefix",
        "ends in _, but is no type of a TypeID, which has 1 to 63 letters a to z, and _ "
        "between them: libraries for TypeIDs will not read the values; choose such a type");
  }
  return form;
}

}  // namespace

Uuid layout_v1(std::uint64_t ticks, std::uint16_t clock_seq,
               const std::array<std::uint8_t, 6>& node) {
  Uuid uuid;
  store_big_u32(uuid.data(), static_cast<std::uint32_t>(ticks));
  store_big_u16(uuid.data() + 4, static_cast<std::uint16_t>(ticks >> 32));
  store_big_u16(uuid.data() + 6, static_cast<std::uint16_t>(ticks >> 48));
  store_big_u16(uuid.data() + 8, clock_seq);
  std::copy_n(node.begin(), node.size(), uuid.begin() + 10);
  set_version_and_variant(uuid, 1);
  return uuid;
}

Uuid layout_v4(const std::uint8_t* random16) {
  Uuid uuid;
  std::copy_n(random16, kUuidSize, uuid.begin());
  set_version_and_variant(uuid, 4);
  return uuid;
}

Random74 Random74::from(const std::uint8_t* bytes10) {
  return {static_cast<std::uint16_t>(load_big_u16(bytes10) & kRandA),
          load_big_u64(bytes10 + 2) & kRandB};
}

bool Random74::raise(std::uint64_t amount) {
  rand_b += amount;  // below 2^63: no wrap
  rand_a = static_cast<std::uint16_t>(rand_a + (rand_b >> 62));
  rand_b &= kRandB;
  return rand_a <= kRandA;
}

Uuid layout_v7(std::uint64_t milliseconds, const Random74& random) {
  Uuid uuid;
  halves_v7(milliseconds, random).write(uuid.data());
  return uuid;
}

Uuid7Position first_in(std::uint64_t milliseconds, RandomSource& random) {
  std::array<std::uint8_t, 10> bytes;
  random.fill(bytes);
  bytes[0] &= 0x07;
  return {milliseconds, Random74::from(bytes.data())};
}

Uuid7Position behind(const Uuid7Position& last, std::uint32_t step, RandomSource& random) {
  Uuid7Position position = last;
  if (position.random.raise(std::uint64_t{step} + 1)) return position;
  return first_in(last.milliseconds + 1, random);
}

void append_uuid(const Uuid& uuid, const UuidForm& form, Values& out) {
  switch (form.representation) {
    case Representation::standard:
      return append_binary(uuid, 4, kAsItIs, out);
    case Representation::java_legacy:
      return append_binary(uuid, 3, kJava, out);
    case Representation::csharp_legacy:
      return append_binary(uuid, 3, kCsharp, out);
    case Representation::python_legacy:
      return append_binary(uuid, 3, kAsItIs, out);
    case Representation::string:
      return append_text(uuid, form.text, out);
  }
}

/// Keys: version (7, 1, 4), representation (standard, java-legacy, csharp-legacy, python-legacy,
/// string), encoding, prefix, monotonic (process, none; it concerns version 7).
std::unique_ptr<RuleSource> make_uuid(Parameters& parameters, Sources sources,
                                      std::string_view /*store_db*/) {
  using Limits = std::numeric_limits<std::int64_t>;
  const auto version = parameters.integer("version", Limits::min(), Limits::max(), 7);
  parameters.spec("version").words = {"7", "4", "1"};
  const UuidForm form = read_form(parameters);
  const bool ordered = parameters.choice("monotonic", {"process", "none"}) == 0;

  if (version == 1) return rule_of<TimeBasedUuid>(form, 1, sources);
  if (version == 4) return rule_of<RandomUuid>(form, 4, sources);
  if (version != 7) {
    parameters.error("version", "must be 1, 4 or 7, is " + std::to_string(version));
    return nullptr;
  }
  if (form.representation == Representation::java_legacy ||
      form.representation == Representation::csharp_legacy) {
    parameters.warning("representation",
                       "stores the bytes of version 7 in another order: ids are not in time order");
  }
  return ordered ? rule_of<OrderedUuid>(form, 7, sources)
                 : rule_of<UnorderedUuid>(form, 7, sources);
}

}  // namespace idproxy::ids
