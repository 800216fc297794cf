#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "idproxy/base/file_finding.hpp"

namespace idproxy {

/// A YAML value as written. Scalars have no type: the key that is read decides what they must be.
struct TreeNode {
  enum class Kind {
    null,  ///< nothing, `~` or `null`, not quoted
    scalar,
    sequence,
    mapping,
    refused,  ///< has been reported already; readers must not report it again
  };

  Kind kind = Kind::null;
  Place place;
  bool quoted = false;  ///< scalar: in quotes, or a block of text
  std::string text;     ///< scalar: its value, with variables replaced
  std::string written;  ///< scalar: as in the file, if it contained variables; else empty
  std::string key;      ///< child of a mapping: its key
  Place key_place;
  std::vector<TreeNode> children;  ///< sequence: its items; mapping: its values, in file order

  /// Of a scalar: what it is where no key decides. It is text if it is in quotes, or neither a
  /// boolean nor a number.
  [[nodiscard]] bool is_boolean() const;
  [[nodiscard]] bool is_text() const;
};

/// What the getters have said about a key: what the program knows of its own configuration.
struct KeySpec {
  enum class Type {
    none,
    integer,
    number,
    boolean,
    text,
    word,
    duration,
    size,
    texts,
    members,
    conditions
  };

  Type type = Type::none;  ///< of the value, if it is no section and no list of sections
  bool section = false;    ///< it may be a mapping
  bool list = false;       ///< it may be a list of mappings
  bool required = false;
  bool nullable = false;
  bool gone = false;                      ///< has no effect any more
  std::vector<std::string_view> words{};  ///< all its values, or, with bounds, others beside them
  std::string fallback{};                 ///< as in a file; null if it is empty and `nullable`
  bool computed = false;                  ///< the fallback follows from other keys
  /// Inclusive, in the type's unit: milliseconds or bytes. Those of 64 bits are no bounds.
  double min = std::numeric_limits<double>::lowest();
  double max = std::numeric_limits<double>::max();
  std::size_t order = 0;  ///< in which the keys of a mapping were asked for
};

/// Reads one mapping of the configuration. Each getter records a value that is not what it expects,
/// with the place of its key, and returns the fallback, so that one run finds all faults. finish()
/// reports keys that no getter has asked for.
class Parameters {
 public:
  /// `node` is null for a mapping that is not in the file: then every getter returns its fallback.
  /// `path` is "" for the file, else like "listen.tls" or "rules[2]". Faults of absent keys are
  /// reported at `place`. The node and the findings must outlive this object.
  Parameters(const TreeNode* node, std::string path, Place place, Findings& findings);

  /// Bounds are inclusive.
  std::int64_t integer(std::string_view key, std::int64_t min, std::int64_t max,
                       std::int64_t fallback);
  /// An integer; nothing for `word` and for an absent key.
  std::optional<std::int64_t> integer_unless(std::string_view key, std::string_view word,
                                             std::int64_t min, std::int64_t max);
  /// An integer, or nothing if the key is absent or null.
  std::optional<std::int64_t> optional_integer(std::string_view key, std::int64_t min,
                                               std::int64_t max);
  double number(std::string_view key, double min, double max, double fallback);
  bool boolean(std::string_view key, bool fallback);
  std::string text(std::string_view key, std::string_view fallback);
  /// A required text; "" after a fault.
  std::string required_text(std::string_view key);
  /// Text, or nothing if the key is absent or null; an empty text is a fault.
  std::optional<std::string> optional_text(std::string_view key);
  /// A list of texts.
  std::vector<std::string> texts(std::string_view key);
  /// The position of the value in `allowed`, whose first element is the fallback.
  std::size_t choice(std::string_view key, std::initializer_list<std::string_view> allowed);
  std::chrono::milliseconds duration(std::string_view key, std::chrono::milliseconds min,
                                     std::chrono::milliseconds max,
                                     std::chrono::milliseconds fallback);
  /// A duration, or the text "off", which is 0.
  std::chrono::milliseconds duration_or_off(std::string_view key, std::chrono::milliseconds min,
                                            std::chrono::milliseconds max,
                                            std::chrono::milliseconds fallback);
  /// A size in bytes. `why` explains the bounds in messages: "a size of 64MiB to 1GiB, WHY".
  std::int64_t size(std::string_view key, std::int64_t min, std::int64_t max, std::int64_t fallback,
                    std::string_view why = {});

  struct Member {
    std::string name;
    std::variant<std::nullptr_t, bool, std::int64_t, std::string> value;
  };
  /// A mapping of any names of top-level fields to text, integers, true, false or null; empty if it
  /// is absent.
  std::vector<Member> members(std::string_view key);

  /// A mapping of fields to conditions; null if it is absent or none, or after a fault.
  const TreeNode* conditions(std::string_view key);
  /// Records an error at a key of such a mapping.
  void error_in(std::string_view key, const TreeNode& child, std::string_view reason) {
    findings_.error(child.key_place, name_of(key) + "." + child.key + ": " + std::string(reason));
  }

  /// The keys of a nested mapping; empty if it is absent. Lives as long as this object.
  Parameters& section(std::string_view key);
  /// The section; null for an absent key and for a null value.
  Parameters* optional_section(std::string_view key);
  /// The mappings of a list, with the paths "key[0]", "key[1]"...; an absent key or null is an
  /// empty list. Nothing if the value is not a list.
  std::optional<std::vector<Parameters*>> list(std::string_view key);

  [[nodiscard]] bool given(std::string_view key) const { return find(key) != nullptr; }
  /// True if the key's value is a nested mapping.
  [[nodiscard]] bool is_section(std::string_view key);
  /// True for an absent key and for null.
  [[nodiscard]] bool is_none(std::string_view key) const;
  /// The scalar as it is in the file, before variables were replaced; "" for other values.
  [[nodiscard]] std::string_view as_written(std::string_view key) const;
  /// All keys, for mappings whose keys the operator chooses, such as names of servers.
  [[nodiscard]] std::vector<std::string> keys();
  [[nodiscard]] const std::string& path() const { return path_; }
  /// The mapping; null if it is not in the file.
  [[nodiscard]] const TreeNode* node() const { return node_; }

  /// What the getters have said about the keys that they were asked for.
  [[nodiscard]] const std::map<std::string, KeySpec, std::less<>>& specs() const { return specs_; }
  /// To say more about a key, which a getter has read.
  [[nodiscard]] KeySpec& spec(std::string_view key);
  /// The fallback of a key that a getter has read follows from other keys: it is this.
  void falls_back_to(std::string_view key, std::string_view text);
  /// The sections that have been read, by key, and the items of lists as "key[0]", "key[1]"...
  [[nodiscard]] const std::map<std::string, Parameters*, std::less<>>& sections() const {
    return sections_;
  }
  /// True if keys() was called.
  [[nodiscard]] bool has_any_keys() const { return has_any_keys_; }
  /// The key's value; null if it is absent.
  [[nodiscard]] const TreeNode* find(std::string_view key) const;
  /// Where the key is, or its mapping if it is absent.
  [[nodiscard]] Place place_of(std::string_view key) const;

  /// Records an error or a warning at the key's place, or at the mapping's if the key is absent.
  /// `file`: as FileFinding::other_file.
  void error(std::string_view key, std::string_view reason, const std::string& file = {},
             FileFinding::About about = FileFinding::About::text);
  void warning(std::string_view key, std::string_view reason,
               FileFinding::About about = FileFinding::About::text);
  void note(std::string_view key, std::string_view text) {
    findings_.note(place_of(key), message(key, text));
  }
  /// As Findings::note_file().
  void note_file(const std::string& path, std::string state) {
    findings_.note_file(path, std::move(state));
  }
  /// A key of an earlier release, with any value: warns that it has no effect.
  void gone(std::string_view key);
  /// Makes finish() accept every key of this mapping.
  void accept_all() { accepts_all_ = true; }
  /// Reports keys that no getter has asked for, here and in all sections.
  void finish();
  /// The number of errors in the whole file so far.
  [[nodiscard]] std::size_t errors() const { return findings_.errors(); }

 private:
  /// Notes what is said first. A key must not be read as values of several types.
  void know(std::string_view key, KeySpec spec);
  /// The value of a key that must be of this kind; null if the key is absent. Null, too, for any
  /// other value, which it reports with `expected`.
  const TreeNode* of_kind(TreeNode::Kind kind, std::string_view key, std::string_view expected);
  const TreeNode* scalar(std::string_view key, std::string_view expected) {
    return of_kind(TreeNode::Kind::scalar, key, expected);
  }
  [[nodiscard]] bool has_word(std::string_view key, std::string_view word) const {
    const TreeNode* node = find(key);
    return node != nullptr && node->kind == TreeNode::Kind::scalar && node->text == word;
  }
  /// The scalar that `read` makes of the text, if it lies within the bounds. Nothing if the key is
  /// absent, or after a fault. `expected`: for each result of `read`.
  template <class Read, class Value, class Expected>
  std::optional<Value> bounded(std::string_view key, Read read, Value min, Value max,
                               Expected expected);
  void mismatch(std::string_view key, std::string_view expected, const TreeNode& found);
  /// Shows ${NAME} instead of a value that came from a variable, since that may be secret.
  [[nodiscard]] std::string message(std::string_view key, std::string_view reason) const;
  [[nodiscard]] std::string name_of(std::string_view key) const;
  Parameters& add_child(const TreeNode* node, std::string path, Place place);
  void report_unknown(const TreeNode& child);
  void add_member(const TreeNode& member, const std::string& path, std::vector<Member>& members);

  const TreeNode* node_;
  std::string path_;
  Place place_;
  Findings& findings_;
  std::map<std::string, KeySpec, std::less<>> specs_;
  std::map<std::string, Parameters*, std::less<>> sections_;
  std::vector<std::unique_ptr<Parameters>> children_;
  bool accepts_all_ = false;
  bool has_any_keys_ = false;
};

}  // namespace idproxy
