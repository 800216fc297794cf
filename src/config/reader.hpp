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

/// Reads one mapping of the configuration. Each getter reports a value that is not what it expects,
/// at the key, and returns the fallback. finish() reports keys that no getter has asked for.
class Reader : public ids::Parameters {
 public:
  /// `node` is null for a mapping that is not in the file: then every getter returns its fallback.
  /// `path` is "" for the file, else like "listen.tls" or "rules[2]". Faults of absent keys are
  /// reported at `place`. The node and the findings must outlive the reader.
  Reader(const TreeNode* node, std::string path, Place place, Findings& findings);

  std::int64_t integer(std::string_view key, std::int64_t min, std::int64_t max,
                       std::int64_t fallback) override;
  std::optional<std::int64_t> integer_unless(std::string_view key, std::string_view word,
                                             std::int64_t min, std::int64_t max) override;
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
  std::chrono::milliseconds duration_or_off(std::string_view key, std::chrono::milliseconds min,
                                            std::chrono::milliseconds max,
                                            std::chrono::milliseconds fallback) override;
  std::string document(std::string_view key) override;
  Reader& section(std::string_view key) override;
  [[nodiscard]] bool given(std::string_view key) const override;
  [[nodiscard]] bool is_section(std::string_view key) const override;
  void gone(std::string_view key) override;
  void error(std::string_view key, std::string_view reason) override;
  void warning(std::string_view key, std::string_view reason) override;

  /// The scalar as it is in the file, before variables were replaced; "" for other values.
  [[nodiscard]] std::string_view as_written(std::string_view key) const;
  /// A size in bytes. `why` explains the bounds in messages: "a size of 64MiB to 1GiB, WHY".
  std::int64_t size(std::string_view key, std::int64_t min, std::int64_t max, std::int64_t fallback,
                    std::string_view why = {});
  /// The section; null for an absent key and for a null value.
  Reader* optional_section(std::string_view key);
  /// Readers for the mappings of a list, with the paths "key[0]", "key[1]"...; an absent key or
  /// null is an empty list. Nothing if the value is not a list.
  std::optional<std::vector<Reader*>> list(std::string_view key);

  /// True for an absent key and for null.
  [[nodiscard]] bool is_none(std::string_view key) const;
  /// All keys, for mappings whose keys the operator chooses, such as names of servers.
  [[nodiscard]] std::vector<std::string> keys() const;
  /// Makes finish() accept every key of this mapping.
  void accept_all() { accepts_all_ = true; }

  /// Reports keys that no getter has asked for, here and in all sections.
  void finish();

  /// The number of errors in the whole file so far.
  [[nodiscard]] std::size_t errors() const { return findings_.errors(); }
  [[nodiscard]] const std::string& path() const { return path_; }
  /// The mapping; null if it is not in the file.
  [[nodiscard]] const TreeNode* node() const { return node_; }

 private:
  [[nodiscard]] const TreeNode* find(std::string_view key) const;
  /// The value of a key that must be a scalar; null if the key is absent. Null, too, for any other
  /// value, which it reports with `expected`.
  const TreeNode* scalar(std::string_view key, std::string_view expected);
  void mismatch(std::string_view key, std::string_view expected, const TreeNode& found);
  /// The duration in `node`; nothing if it is none within the bounds, which it reports with
  /// `expected`.
  std::optional<std::chrono::milliseconds> duration_in(const TreeNode& node, std::string_view key,
                                                       std::string_view expected,
                                                       std::chrono::milliseconds min,
                                                       std::chrono::milliseconds max);
  /// Shows ${NAME} instead of a value that came from a variable, since that may be secret.
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
  std::set<std::string, std::less<>> gone_;  // accepted, but not offered in messages
  std::map<std::string, Reader*, std::less<>> sections_;
  std::vector<std::unique_ptr<Reader>> children_;
  bool accepts_all_ = false;
};

}  // namespace idproxy::config
