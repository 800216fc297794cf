#pragma once

#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "idproxy/bson/builder.hpp"
#include "idproxy/ids/parameters.hpp"

namespace idproxy::test {

/// The keys of a rule, from a table with values as YAML would spell them:
///
///   FakeParameters parameters(FakeParameters::Table{{"digits", "9"}, {"block.size", "100"}});
///
/// A dot separates a section from its key. Durations are milliseconds without a unit.
class FakeParameters final : public ids::Parameters {
 public:
  using Table = std::map<std::string, std::string>;

  explicit FakeParameters(Table table = {}) : table_(std::move(table)) {}
  FakeParameters(const FakeParameters&) = delete;  // sections point to it
  FakeParameters& operator=(const FakeParameters&) = delete;

  std::int64_t integer(std::string_view key, std::int64_t min, std::int64_t max,
                       std::int64_t fallback) override {
    return bounded(key, min, max, fallback);
  }
  std::optional<std::int64_t> integer_unless(std::string_view key, std::string_view word,
                                             std::int64_t min, std::int64_t max) override {
    const auto text = ask(key);
    if (!text || *text == word) return std::nullopt;
    return bounded(key, min, max, min);
  }
  double number(std::string_view key, double min, double max, double fallback) override {
    return bounded(key, min, max, fallback);
  }
  bool boolean(std::string_view key, bool fallback) override {
    const auto value = ask(key);
    if (!value) return fallback;
    if (*value == "true" || *value == "false") return *value == "true";
    error(key, "must be true or false");
    return fallback;
  }
  std::string text(std::string_view key, std::string_view fallback) override {
    return ask(key).value_or(std::string(fallback));
  }
  std::string required_text(std::string_view key) override {
    auto value = ask(key).value_or("");
    if (value.empty()) error(key, "is missing");
    return value;
  }
  std::optional<std::string> optional_text(std::string_view key) override {
    auto value = ask(key);
    if (value == "null") return std::nullopt;
    return value;
  }
  /// The texts are separated by blanks.
  std::vector<std::string> texts(std::string_view key) override {
    std::istringstream words(ask(key).value_or(""));
    return {std::istream_iterator<std::string>(words), {}};
  }
  /// Members are texts: "filter.model" is the member "model" of "filter".
  std::string document(std::string_view key) override {
    const std::string start = prefix_ + std::string(key) + ".";
    Buffer out;
    bson::Scope members(out);
    for (const auto& [path, value] : root_->table_) {
      if (!path.starts_with(start)) continue;
      root_->asked_.insert(path);
      bson::append_string(out, path.substr(start.size()), value);
    }
    members.close();
    return out.size() == bson::kMinDocument ? "" : std::string(as_text(out.view()));
  }
  std::size_t choice(std::string_view key,
                     std::initializer_list<std::string_view> allowed) override {
    const auto value = ask(key);
    if (!value) return 0;
    const auto* found = std::find(allowed.begin(), allowed.end(), *value);
    if (found != allowed.end()) return static_cast<std::size_t>(found - allowed.begin());
    error(key, "must be one of the choices");
    return 0;
  }
  std::chrono::milliseconds duration(std::string_view key, std::chrono::milliseconds min,
                                     std::chrono::milliseconds max,
                                     std::chrono::milliseconds fallback) override {
    return std::chrono::milliseconds(
        bounded<std::int64_t>(key, min.count(), max.count(), fallback.count()));
  }
  std::chrono::milliseconds duration_or_off(std::string_view key, std::chrono::milliseconds min,
                                            std::chrono::milliseconds max,
                                            std::chrono::milliseconds fallback) override {
    return ask(key) == "off" ? std::chrono::milliseconds(0) : duration(key, min, max, fallback);
  }
  Parameters& section(std::string_view key) override {
    auto& section = sections_[std::string(key)];
    if (!section) section.reset(new FakeParameters(*root_, prefix_ + std::string(key) + "."));
    return *section;
  }
  [[nodiscard]] bool given(std::string_view key) const override {
    return root_->table_.contains(prefix_ + std::string(key));
  }
  [[nodiscard]] bool is_section(std::string_view key) const override {
    const std::string start = prefix_ + std::string(key) + ".";
    const auto next = root_->table_.lower_bound(start);
    return next != root_->table_.end() && next->first.starts_with(start);
  }
  void gone(std::string_view key) override {
    if (ask(key)) warning(key, "has no effect any more");
  }
  void error(std::string_view key, std::string_view reason) override {
    root_->errors_.push_back(prefix_ + std::string(key) + ": " + std::string(reason));
  }
  void warning(std::string_view key, std::string_view reason) override {
    root_->warnings_.push_back(prefix_ + std::string(key) + ": " + std::string(reason));
  }

  /// "KEY: REASON", in the order in which they were reported.
  [[nodiscard]] const std::vector<std::string>& errors() const { return root_->errors_; }
  [[nodiscard]] const std::vector<std::string>& warnings() const { return root_->warnings_; }
  /// Keys that the strategy did not ask for.
  [[nodiscard]] std::vector<std::string> unknown() const {
    std::vector<std::string> keys;
    for (const auto& [key, value] : root_->table_) {
      if (!root_->asked_.contains(key)) keys.push_back(key);
    }
    return keys;
  }

 private:
  FakeParameters(FakeParameters& root, std::string prefix)
      : root_(&root), prefix_(std::move(prefix)) {}

  std::optional<std::string> ask(std::string_view key) {
    const std::string path = prefix_ + std::string(key);
    root_->asked_.insert(path);
    const auto found = root_->table_.find(path);
    if (found == root_->table_.end()) return std::nullopt;
    return found->second;
  }

  template <class T>
  T bounded(std::string_view key, T min, T max, T fallback) {
    const auto text = ask(key);
    if (!text) return fallback;
    T value{};
    const auto [end, fault] = std::from_chars(text->data(), text->data() + text->size(), value);
    if (fault != std::errc{} || end != text->data() + text->size()) {
      error(key, "must be a number");
      return fallback;
    }
    if (value >= min && value <= max) return value;
    error(key, "out of range");
    return fallback;
  }

  FakeParameters* root_ = this;
  std::string prefix_;
  Table table_;
  std::set<std::string> asked_;
  std::map<std::string, std::unique_ptr<FakeParameters>> sections_;
  std::vector<std::string> errors_;
  std::vector<std::string> warnings_;
};

}  // namespace idproxy::test
