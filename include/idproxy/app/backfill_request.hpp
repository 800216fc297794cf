#pragma once

#include <cstdint>
#include <string>

namespace idproxy::app {

/// A backfill as the command line asks for it.
struct BackfillRequest {
  std::string file;           ///< the configuration
  std::string ns;             ///< "db.collection"
  std::string field;          ///< which a rule fills; dotted path
  std::string sort = "_id";   ///< documents get values in its order; "-created": descending
  std::string period_from{};  ///< the field whose date says a document's period; empty: not given
  std::uint32_t rate = 0;     ///< documents per second at most; 0: no limit
  enum class Mode { write, dry_run } mode = Mode::write;
};

}  // namespace idproxy::app
