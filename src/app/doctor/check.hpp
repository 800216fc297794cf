#pragma once

#include <string>
#include <utility>
#include <vector>

#include "app/state/diagnosis.hpp"
#include "idproxy/base/typed_command.hpp"

/// What a part of `mongo-idproxy doctor` has found.
namespace idproxy::app::doctor {

namespace diagnosis = state::diagnosis;
using state::Diagnosis;
using state::rule_subject;

/// Something that is so, and what to do about it.
struct DoctorFinding {
  Diagnosis diagnosis;
  std::string subject;  ///< a server, rule, file, …
  std::string text;     ///< a sentence without its full stop
  Commands commands;
};

/// A part of the examination.
struct DoctorCheck {
  std::string name;      ///< one word, for people and programs
  std::string what{};    ///< what was looked at, with figures
  bool skipped = false;  ///< `what` says why
  std::vector<DoctorFinding> findings{};

  void add(const Diagnosis& diagnosis, std::string subject, std::string text, Commands commands) {
    findings.push_back({diagnosis, std::move(subject), std::move(text), std::move(commands)});
  }
};

/// To change the configuration and have it in force.
[[nodiscard]] inline Commands edit_and_reload(const std::string& file) {
  return Commands()
      .shell({"sudoedit", as_path(file)})
      .shell({"sudo", "mongo-idproxy", "reload", "--config", as_path(file)});
}

/// A command of this program about one rule; none if the names may be a trap.
[[nodiscard]] inline Commands about_rule(const char* command, const std::string& ns,
                                         const std::string& field, const std::string& file,
                                         const std::vector<std::string>& more = {}) {
  if (!is_name(ns) || !is_name(field)) return {};
  auto words = with_option({"mongo-idproxy", command}, "--ns", ns);
  words = with_option(std::move(words), "--field", field);
  words.insert(words.end(), more.begin(), more.end());
  return Commands().shell(with_option(std::move(words), "--config", as_path(file)));
}

}  // namespace idproxy::app::doctor
