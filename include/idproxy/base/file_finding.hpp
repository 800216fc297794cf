#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace idproxy {

/// A position in the file; both count from 1. {0, 0}: the whole file.
struct Place {
  int line = 0;
  int column = 0;
};

/// An error, a warning or a note about a configuration file.
struct FileFinding {
  enum class Severity { note, warning, error };
  /// What it is about, if there are commands for it.
  enum class About {
    text,              ///< what stands in the file
    secret_file,       ///< `other_file` is open to every user
    certificate,       ///< `other_file` cannot be used for TLS
    certificate_date,  ///< one that can be used, and its dates
    password,          ///< the file has one, and is open to every user
    variable,          ///< one that is not defined
    credentials,       ///< the same, of the directory that systemd defines
  };
  Severity severity;
  Place place;
  std::string message;  ///< "rules[2].digits: must be 1 to 18 with output int64, is 19"
  /// One that the configuration names, if that is what is wrong; where a password could be instead.
  std::string other_file{};
  About about = About::text;
  std::string key{};  ///< "rules[2].digits"; empty: none, or it is not known

  /// As a compiler writes it: "FILE:LINE:COLUMN: error: MESSAGE".
  [[nodiscard]] std::string text(const std::string& file) const {
    const std::string at = ":" + std::to_string(place.line) + ":" + std::to_string(place.column);
    return file + (place.line > 0 ? at : "") + ": " + std::string(level()) + ": " + message;
  }
  [[nodiscard]] std::string_view level() const {
    constexpr std::array<std::string_view, 3> kLevels{"note", "warning", "error"};
    return kLevels[static_cast<std::size_t>(severity)];
  }
};

/// Collects errors and warnings, so that one run reports all of them, and the other files that the
/// configuration names.
class Findings {
 public:
  using About = FileFinding::About;
  /// Drops repeated findings: a key may be read twice.
  void add(FileFinding finding) {
    if (finding.severity == FileFinding::Severity::error) ++errors_;
    const std::pair position(finding.place.line, finding.place.column);
    const auto [first, last] = all_.equal_range(position);
    const bool known = std::any_of(first, last, [&](const auto& item) {
      return item.second.severity == finding.severity && item.second.message == finding.message;
    });
    if (!known) all_.emplace(position, std::move(finding));
  }
  void error(Place place, std::string message, About about = About::text) {
    add({FileFinding::Severity::error, place, std::move(message), {}, about});
  }
  /// Nothing is wrong: what the configuration does may surprise.
  void note(Place place, std::string message) {
    notes_.push_back({FileFinding::Severity::note, place, std::move(message)});
  }
  /// In the order in which they were added.
  [[nodiscard]] const std::vector<FileFinding>& notes() const { return notes_; }

  /// Notes a file before it is read, with a text that changes when it does.
  void note_file(const std::string& path, std::string state) {
    files_.emplace(path, std::move(state));
  }
  [[nodiscard]] const std::map<std::string, std::string>& files() const { return files_; }

  /// The number of errors so far. A check that needs valid values compares it before and after
  /// reading them.
  [[nodiscard]] std::size_t errors() const { return errors_; }

  /// All findings in the order of the file; those of one place in the order in which they were
  /// added.
  [[nodiscard]] std::vector<FileFinding> in_file_order() const {
    std::vector<FileFinding> findings;
    for (const auto& [position, finding] : all_) findings.push_back(finding);
    return findings;
  }

 private:
  std::multimap<std::pair<int, int>, FileFinding> all_;  // by line and column
  std::size_t errors_ = 0;
  std::vector<FileFinding> notes_;
  std::map<std::string, std::string> files_;  // states by path
};

}  // namespace idproxy
