#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "idproxy/ids/grant.hpp"

namespace idproxy::ids {

/// What the store is to do for one counter.
struct CounterJob {
  enum class Kind {
    allocate,   ///< move the counter on by `count` numbers; create it if it is not there
    heal,       ///< raise it past all that is stored, then as allocate
    give_back,  ///< if nobody has allocated since, set it back to `unused.first`
  };
  Kind kind;
  std::uint64_t count = 0;  ///< > 0
  /// Every new number must lie beyond this one: the last that this process was ever given.
  std::optional<std::int64_t> beyond{};
  /// heal: the counter has gone back, or its document had vanished, while this process (and perhaps
  /// others) held numbers of it.
  bool lost = false;
  Range unused{};  ///< give_back: the numbers that nobody was given, up to the counter's value
};

/// What came of a job.
struct CounterReply {
  enum class Kind {
    allocated,   ///< `range`; allocate and heal
    given_back,  ///< the counter has been set back
    kept,        ///< give_back: others have allocated since; the numbers are still ours
    not_sent,    ///< give_back: no server was there; the numbers are still ours
    not_healed,  ///< heal, unless it is `lost`: `reason`; the counter goes on where it stands
    exhausted,   ///< `reason`; nothing more is asked for 60 s
    failed,      ///< `reason`: the store could not be asked, or what it did may be undone
  };
  Kind kind;
  Range range{};
  std::string reason{};
};

/// What became of the numbers of a reply.
enum class BlockOutcome {
  used,
  dropped,    ///< nobody gets them: the counter is about to be healed, or the reply made no sense
  went_back,  ///< dropped: they lie behind what this process got before; a heal follows, if allowed
};

/// Why a counter that has come to its end gives nothing, whoever finds out.
[[nodiscard]] std::string handed_out_up_to(std::int64_t max);

}  // namespace idproxy::ids
