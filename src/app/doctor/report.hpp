#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <vector>

#include "app/doctor/check.hpp"
#include "app/views/terminal.hpp"

/// What `mongo-idproxy doctor` prints.
namespace idproxy::app::doctor {

struct DoctorReport {
  std::string file;  ///< the configuration
  std::vector<DoctorCheck> checks;
};

/// The errors and warnings for people, the worst first, each with its commands; empty: none.
[[nodiscard]] std::string findings_text(const std::vector<Finding>& findings,
                                        const views::Terminal& terminal);
/// A finding of this check, for programs.
[[nodiscard]] boost::json::object finding_json(const Finding& finding, const std::string& check);

/// For people: what was looked at, the findings, the worst first, and a summary; one line if there
/// is none.
[[nodiscard]] std::string doctor_text(const DoctorReport& report, const views::Terminal& terminal);

/// For programs (docs/doctor.md).
[[nodiscard]] boost::json::object doctor_json(const DoctorReport& report);

/// True if a finding is more than a note.
[[nodiscard]] bool has_faults(const DoctorReport& report);

}  // namespace idproxy::app::doctor
