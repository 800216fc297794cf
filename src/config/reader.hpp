#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "config/tree.hpp"
#include "idproxy/base/buffer.hpp"
#include "idproxy/ids/parameters.hpp"

namespace idproxy::config {

/// Reads one mapping. Each getter says what the key must be, and reports what it is instead; keys
/// that nothing has asked for are reported by finish(). Faults of a key are placed at the key.
class Reader : public ids::Parameters {
 public:
  /// `node` is null for a mapping that the file does not have: then there are only fallbacks.
  /// `path` is "" for the file, else "listen.tls" or "rules[2]"; `place` is where faults of absent
  /// keys are shown. The node and the findings must outlive the reader.
  Reader(const TreeNode* node, std::string path, Place place, Findings& findings);

  std::int64_t integer(std::string_view key, std::int64_t min, std::int64_t max,
                       std::int64_t fallback) override;
  double number(std::string_view key, double min, double max, double fallback) override;
  bool boolean(std::string_view key, bool fallback) override;
  std::string text(std::string_view key, std::string_view fallback) override;
  std::string required_text(std::string_view key) override;
  std::optional<std::string> optional_text(std::string_view key) override;
  std::vector<std::string> texts(std::string_view key) override;
  std::size_t choice(std::string_view key,
                     std::initializer_list<std::string_view> allowed) override;
  std::chrono::milliseconds duration(std::string_view key, std::chrono::milliseconds min,
                                     std::chrono::milliseconds max,
                                     std::chrono::milliseconds fallback) override;
  std::string document(std::string_view key) override;
  Reader& section(std::string_view key) override;
  [[nodiscard]] bool given(std::string_view key) const override;
  void error(std::string_view key, std::string_view reason) override;
  void warning(std::string_view key, std::string_view reason) override;

  /// A scalar as it is in the file, with ${NAME} where a variable was replaced; else "".
  [[nodiscard]] std::string_view as_written(std::string_view key) const;
  /// Bytes. `why` says what the bounds are for: "a size of 64MiB to 1GiB, WHY".
  std::int64_t size(std::string_view key, std::int64_t min, std::int64_t max, std::int64_t fallback,
                    std::string_view why = {});
  /// An integer, or nothing for `word` and for an absent key.
  std::optional<std::int64_t> integer_unless(std::string_view key, std::string_view word,
                                             std::int64_t min, std::int64_t max);
  /// The section, or nothing for an absent key and for null.
  Reader* optional_section(std::string_view key);
  /// The mappings of a list, as readers of "key[0]", "key[1]"...; an absent key and null are an
  /// empty list. Nothing if it is something else.
  std::optional<std::vector<Reader*>> list(std::string_view key);

  /// True for an absent key and for null.
  [[nodiscard]] bool is_none(std::string_view key) const;
  /// For keys that are not ours to know, such as names of servers.
  [[nodiscard]] std::vector<std::string> keys() const;
  /// Takes every key of this mapping for known.
  void accept_all() { accepts_all_ = true; }

  /// Reports keys that nobody asked for, here and in all sections.
  void finish();

  /// Of the whole file so far.
  [[nodiscard]] std::size_t errors() const { return findings_.errors(); }
  [[nodiscard]] const std::string& path() const { return path_; }
  /// What is read; null if there is no mapping, only fallbacks.
  [[nodiscard]] const TreeNode* node() const { return node_; }

 private:
  [[nodiscard]] const TreeNode* find(std::string_view key) const;
  /// The value of a key that must be a scalar; nothing if it is absent or something else, which is
  /// reported with `expected`.
  const TreeNode* scalar(std::string_view key, std::string_view expected);
  void mismatch(std::string_view key, std::string_view expected, const TreeNode& found);
  /// A value that came from a variable may be a secret: its ${NAME} is shown in its place.
  [[nodiscard]] std::string message(std::string_view key, std::string_view reason) const;
  [[nodiscard]] std::string name_of(std::string_view key) const;
  [[nodiscard]] Place place_of(std::string_view key) const;
  Reader& add_child(const TreeNode* node, std::string path, Place place);
  void report_unknown(const TreeNode& child);
  void append_member(const TreeNode& member, const std::string& path, Buffer& out);

  const TreeNode* node_;
  std::string path_;
  Place place_;
  Findings& findings_;
  std::set<std::string, std::less<>> known_;
  std::map<std::string, Reader*, std::less<>> sections_;
  std::vector<std::unique_ptr<Reader>> children_;
  bool accepts_all_ = false;
};

}  // namespace idproxy::config
