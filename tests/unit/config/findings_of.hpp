#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "config/tree.hpp"
#include "idproxy/base/file_finding.hpp"
#include "idproxy/base/parameters.hpp"
#include "idproxy/config/config.hpp"

namespace idproxy::config {

class StoppedClock : public Clock {
 public:
  [[nodiscard]] std::chrono::nanoseconds monotonic() const override { return {}; }
  [[nodiscard]] std::chrono::nanoseconds wall() const override {
    return std::chrono::seconds(1'700'000'000);
  }
};

/// Sources that strategies can be made of.
inline ids::Sources test_sources() {
  static const StoppedClock clock;
  return {clock, system_random()};
}

inline Loaded load(const std::string& text) {
  return parse(text, test_sources());
}

/// Each as "LINE:COLUMN: error: MESSAGE"; "error: MESSAGE" for what concerns the file as a whole.
inline std::vector<std::string> texts_of(const std::vector<FileFinding>& findings) {
  std::vector<std::string> texts;
  texts.reserve(findings.size());
  for (const FileFinding& finding : findings) {
    texts.push_back(finding.text("").substr(finding.place.line == 0 ? 2 : 1));
  }
  return texts;
}

inline std::vector<std::string> findings_of(const std::string& text) {
  return texts_of(load(text).findings);
}

/// What a configuration says about its keys, without the warning that it has no rules.
inline std::vector<std::string> findings_without_rules(const std::string& text) {
  return findings_of(text + "\nrules: [{ns: a.b, field: c, strategy: objectid}]\n");
}

inline std::string content_of(const std::string& path) {
  std::ostringstream content;
  content << std::ifstream(path).rdbuf();
  return content.str();
}

/// A mapping to be read, and what was found meanwhile.
class Mapping {
 public:
  explicit Mapping(const std::string& text)
      : root_(parse_tree(text, findings_)), reader(root_ ? &*root_ : nullptr, "", {}, findings_) {}

  [[nodiscard]] std::vector<std::string> found() { return texts_of(findings_.in_file_order()); }

 private:
  Findings findings_;
  std::optional<TreeNode> root_;

 public:
  Parameters reader;
};

}  // namespace idproxy::config
