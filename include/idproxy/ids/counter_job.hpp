#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "idproxy/ids/grant.hpp"

namespace idproxy::ids {

/// A task for the store, for one counter.
struct CounterJob {
  enum class Kind {
    allocate,   ///< advance the counter by `count` numbers; create it if it does not exist
    heal,       ///< raise it past all numbers stored in its fields, then as allocate
    give_back,  ///< set it back to `unused.first` if nobody has allocated since
    confirm,    ///< read it by a write that changes nothing and that a majority confirms
  };
  Kind kind;
  std::uint64_t count = 0;  ///< > 0
  /// Every new number must lie beyond this one, the last that this process ever got.
  std::optional<std::int64_t> beyond{};
  /// heal: the counter went back, or its document vanished, while this process (and perhaps others)
  /// held numbers of it.
  bool lost = false;
  Range unused{};  ///< give_back: unused numbers up to the counter's value
  /// heal, unless `lost`: the numbers that this process holds and, until the reply, gives to
  /// nobody.
  std::vector<Range> held{};
};

/// The result of a job.
struct CounterReply {
  enum class Kind {
    allocated,   ///< allocate, heal: got `range`
    given_back,  ///< give_back: the counter has been set back
    overtaken,   ///< give_back: others have allocated since; the numbers are lost
    not_sent,    ///< give_back: no server was reached; the process keeps the numbers
    stands,      ///< confirm: the next allocation will begin with `range.first`
    unknown,     ///< confirm: the counter's value is not an integer, or the server does not say
    gone,        ///< confirm: there is no counter
    kept,        ///< heal, unless `lost`: the process goes on with what it holds, without `taken`
    not_healed,  ///< heal, unless `lost`: refused, says `why`; the counter stays as it is
    exhausted,   ///< no numbers, says `why`; the cache does not ask again for 60 s
    pending,  ///< no numbers yet: `why` is transient; requests wait, and the cache asks again soon
    failed,   ///< the store could not be asked, or may undo what it did, says `why`
  };
  Kind kind;
  Range range{};
  Error why{};
  std::vector<Range> taken{};  ///< kept: of CounterJob::held, in its order

  CounterReply(Kind its, Range numbers = {}, std::string reason = {}, std::vector<Range> those = {})
      : kind(its), range(numbers), taken(std::move(those)) {
    const bool lasts = kind != Kind::pending && kind != Kind::failed;
    why = {.code = lasts ? Errc::exhausted : Errc::unavailable,
           .reason = std::move(reason),
           .is_transient = kind == Kind::pending};
  }
  /// exhausted, pending or failed.
  CounterReply(Error error)
      : kind(error.code == Errc::exhausted ? Kind::exhausted
             : error.is_transient          ? Kind::pending
                                           : Kind::failed),
        why(std::move(error)) {}
};

/// The effect of a reply on the cache.
enum class BlockOutcome {
  used,
  dropped,    ///< not its numbers: they had been handed out before
  went_back,  ///< the counter stands behind numbers that this process got: they were dropped, and a
              ///< heal follows, if allowed
};

/// A counter that has reached `max` gives no more numbers.
[[nodiscard]] inline Error handed_out_up_to(std::int64_t max) {
  return {.code = Errc::exhausted,
          .reason = "all numbers up to max, " + std::to_string(max) + ", have been handed out",
          .at_end = true};
}

}  // namespace idproxy::ids
