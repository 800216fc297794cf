#pragma once

#include <string>
#include <utility>
#include <vector>

#include "idproxy/base/finding.hpp"
#include "idproxy/base/typed_command.hpp"

/// What a part of `mongo-idproxy doctor` has found.
namespace idproxy::app::doctor {

/// A part of the examination.
struct DoctorCheck {
  std::string name;      ///< one word, for people and programs
  std::string what{};    ///< what was looked at, with figures
  bool skipped = false;  ///< `what` says why
  std::vector<Finding> findings{};

  void add(const FindingKind& kind, std::string subject, std::string text, Commands commands) {
    add({kind, std::move(subject), {std::move(text), ": ", std::move(commands)}}, {});
  }
  /// `more`: what the examination knows of, besides.
  void add(Finding finding, const Commands& more) {
    finding.what.commands.append(more);
    findings.push_back(std::move(finding));
  }
};

/// A part of the examination took too long.
[[nodiscard]] inline Finding no_answer_in_time(std::string part) {
  return {finding::kNoAnswerInTime,
          std::move(part),
          {"the servers, or the name service, did not answer all questions in time"}};
}

/// To see what a start with the configuration would meet.
[[nodiscard]] inline Commands check_connect(const std::string& file) {
  return Commands().shell({"mongo-idproxy", "check", "--connect", "--config", as_path(file)});
}

[[nodiscard]] inline Commands reload(const std::string& file) {
  return Commands().shell({"sudo", "mongo-idproxy", "reload", "--config", as_path(file)});
}

/// To change the configuration and have it in force.
[[nodiscard]] inline Commands edit_and_reload(const std::string& file) {
  return Commands().shell({"sudoedit", as_path(file)}).append(reload(file));
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
