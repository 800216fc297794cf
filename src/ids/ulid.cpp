#include <array>
#include <boost/endian/conversion.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "idproxy/base/parameters.hpp"
#include "idproxy/ids/rule_source.hpp"
#include "ids/ascending_time.hpp"
#include "ids/decoding.hpp"
#include "ids/encoding.hpp"

namespace idproxy::ids {
namespace {

using boost::endian::load_big_u16;
using boost::endian::load_big_u64;

constexpr unsigned kUlidBits = 128;
constexpr unsigned kUlidRandomBits = 80;
constexpr Uint128 kUlidRandom = (Uint128{1} << kUlidRandomBits) - 1;

struct UlidForm {
  enum class Output { string, uuid, binary };
  Output output;
  TextForm text;  // of a string
};

/// 48 bits of milliseconds and 80 random bits, to which each further id of a millisecond adds one
/// (https://github.com/ulid/spec). A mutex guards the last id.
class Ulid final : public Source {
 public:
  enum class OnOverflow { advance, error };

  Ulid(UlidForm form, OnOverflow on_overflow, Sources sources)
      : form_(std::move(form)), on_overflow_(on_overflow), sources_(sources) {}

  [[nodiscard]] std::size_t most_bytes() const override {
    return kMostBytes + form_.text.prefix.size();
  }

  Draw next(std::size_t n, Values& out) override {
    if (n == 0) return {};
    const std::lock_guard lock(mutex_);
    const auto now = time_.begins_anew(millisecond(), sources_);
    if (now) begin(*now);
    for (bool is_new = now.has_value(); n > 0; --n) {
      if (!std::exchange(is_new, false) && !step()) {
        return Error{Errc::exhausted,
                     "the random bits of this millisecond are used up, and on_overflow is error"};
      }
      append(out);
    }
    return {};
  }

 private:
  [[nodiscard]] std::uint64_t millisecond() const {
    return static_cast<std::uint64_t>(last_ >> kUlidRandomBits);
  }

  void begin(std::uint64_t milliseconds) {
    std::array<std::uint8_t, kUlidRandomBits / 8> bytes;
    sources_.random.fill(bytes);
    last_ = Uint128{milliseconds} << kUlidRandomBits | Uint128{load_big_u16(bytes.data())} << 64 |
            load_big_u64(bytes.data() + 2);
  }

  /// False: there is no further id.
  bool step() {
    if ((last_ & kUlidRandom) != kUlidRandom) {
      ++last_;
    } else if (on_overflow_ == OnOverflow::error) {
      return false;
    } else {
      begin(millisecond() + 1);
    }
    return true;
  }

  void append(Values& out) const {
    if (form_.output == UlidForm::Output::string) return form_.text.append(last_, out);
    std::uint8_t* at = out.add(bson::Type::binary, 4 + 1 + kUlidBits / 8);
    store_i32(at, kUlidBits / 8);
    at[4] = form_.output == UlidForm::Output::uuid ? 4 : 0;
    store_big_u128(at + 5, last_);
  }

  const UlidForm form_;
  const OnOverflow on_overflow_;
  const Sources sources_;
  std::mutex mutex_;
  AscendingTime time_;
  Uint128 last_ = 0;
};

/// A UUID is read as 36 characters, a binary also as 32 digits of hex.
Decoded read_ulid(std::string_view text, const UlidForm& form) {
  const TextForm hex({}, kHex, kUlidBits);
  const bool is_hex = form.output == UlidForm::Output::binary && text.size() == hex.digits;
  const bool is_text = form.output == UlidForm::Output::string;
  const auto bits = is_text ? form.text.read(text) : is_hex ? hex.read(text) : uuid_bits(text);
  if (!bits) return bits.error();
  return Meaning{{"time", time_text(std::chrono::milliseconds(*bits >> kUlidRandomBits))},
                 {"uuid", uuid_text(*bits)}};
}

}  // namespace

/// Keys: output (string, uuid, binary), prefix, on_overflow (advance, error).
std::unique_ptr<RuleSource> make_ulid(Parameters& parameters, Sources sources,
                                      std::string_view /*store_db*/) {
  const auto output =
      static_cast<UlidForm::Output>(parameters.choice("output", {"string", "uuid", "binary"}));
  UlidForm form{output, {read_prefix(parameters), kBase32Upper, kUlidBits}};
  const auto on_overflow =
      static_cast<Ulid::OnOverflow>(parameters.choice("on_overflow", {"advance", "error"}));
  if (output != UlidForm::Output::string && !form.text.prefix.empty()) {
    parameters.error("prefix", "needs a text to stand before: output: string");
  }
  SharedSource::Judge judge;
  if (output == UlidForm::Output::string) {
    judge = [form](std::string_view text) { return form.text.read(text).has_value(); };
  }
  return std::make_unique<SharedSource>(
      std::make_shared<Ulid>(form, on_overflow, sources),
      [form](std::string_view text) { return read_ulid(text, form); }, std::move(judge));
}

}  // namespace idproxy::ids
