#include "ids/objectid.hpp"

#include <algorithm>
#include <boost/endian/conversion.hpp>
#include <chrono>
#include <mutex>

#include "idproxy/ids/strategies.hpp"
#include "ids/hex.hpp"

namespace idproxy::ids {
namespace {

enum class IdOutput { objectid, string };

std::uint64_t second_of(const Clock& clock) {
  const auto second = std::chrono::floor<std::chrono::seconds>(clock.wall()).count();
  return static_cast<std::uint64_t>(std::max<std::int64_t>(second, 0));
}

void append_bytes(const ObjectIdPosition& position, const ObjectIdRandom& random, Values& out) {
  write_objectid(position, random, out.add(bson::Type::object_id, kObjectIdSize));
}

void append_hex(const ObjectIdPosition& position, const ObjectIdRandom& random, Values& out) {
  std::array<std::uint8_t, kObjectIdSize> id;
  write_objectid(position, random, id.data());
  write_hex(id, out.add_string(2 * kObjectIdSize));
}

/// Every object has random bytes and a counter of its own: rules share no state, their ids differ
/// in the 5 random bytes, and tests can inject the sources. A mutex guards the sequence.
class ObjectId final : public Source {
 public:
  ObjectId(IdOutput output, Sources sources) : output_(output), sources_(sources) { seed(); }

  Draw next(std::size_t n, Values& out) override {
    const std::lock_guard lock(mutex_);
    // A child of fork() would continue with the parent's bytes and counter.
    if (generation_ != sources_.random.generation()) seed();
    sequence_.follow(second_of(sources_.clock));
    const auto append = output_ == IdOutput::objectid ? append_bytes : append_hex;
    for (std::size_t i = 0; i < n; ++i) append(sequence_.next(), random_, out);
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

  const IdOutput output_;
  const Sources sources_;
  std::mutex mutex_;
  std::uint64_t generation_ = 0;
  ObjectIdRandom random_{};
  ObjectIdSequence sequence_{0};
};

}  // namespace

void write_objectid(const ObjectIdPosition& position, const ObjectIdRandom& random,
                    std::uint8_t* at) {
  boost::endian::store_big_u32(at, position.second);
  std::copy_n(random.begin(), random.size(), at + 4);
  boost::endian::store_big_u24(at + 9, position.counter);
}

std::unique_ptr<RuleSource> make_object_ids(Sources sources) {
  return std::make_unique<SharedSource>(std::make_shared<ObjectId>(IdOutput::objectid, sources));
}

/// Keys: output (objectid, string).
std::unique_ptr<RuleSource> make_objectid(Parameters& parameters, Sources sources,
                                          std::string_view /*store_db*/) {
  const auto output = static_cast<IdOutput>(parameters.choice("output", {"objectid", "string"}));
  return std::make_unique<SharedSource>(std::make_shared<ObjectId>(output, sources));
}

}  // namespace idproxy::ids
