#pragma once

#include <chrono>
#include <string>

#include "app/jobs/verify_findings.hpp"

namespace idproxy::app::jobs {

/// The circumstances of a verification.
struct VerifyRun {
  std::string ns;
  std::string field;
  std::string strategy;
  std::string scope{};  ///< JSON, as it was asked for; empty: all
  std::string allow{};  ///< the expression of VerifyAllowed; empty: none
  std::string index{};  ///< by which documents were read in order; empty: the server sorted them
  std::string unguarded{};  ///< why no unique index is known to guard the field; empty: one does
  std::string note{};       ///< what cannot be told of this rule; empty: nothing
  std::string why{};        ///< why not all was read; empty: it was
  std::chrono::system_clock::time_point begin{};
  std::chrono::nanoseconds took{};
};

/// The report, of several lines, with how it came out in the last one.
[[nodiscard]] std::string verify_report(const VerifyRun& run, const VerifyFindings& findings);

/// The same as a JSON document (docs/verify.md), with a newline.
[[nodiscard]] std::string verify_json(const VerifyRun& run, const VerifyFindings& findings);

}  // namespace idproxy::app::jobs
