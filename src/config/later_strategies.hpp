#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/reader.hpp"

namespace idproxy::config {

/// The strategies that have their keys, but not yet their code: a rule that names one is an error,
/// and so is what is wrong with its keys.
class LaterStrategies {
 public:
  explicit LaterStrategies(std::string store_db) : store_db_(std::move(store_db)) {}

  [[nodiscard]] static std::span<const std::string_view> names();

  /// Reads the keys of the strategy `name`, one of names(). `ns` and `field` are the rule's.
  void read(std::string_view name, const std::string& ns, const std::string& field, Reader& rule);

 private:
  enum class Output { int64, int32, string };
  /// A counter's document and what all rules that use it must agree on.
  struct Counter {
    std::string rule;
    std::string db, collection, key;
    std::size_t layout;
    std::int64_t step;
    Output output;
  };

  void read_counter(const std::string& default_name, Reader& rule);
  void read_ranges(Reader& rule);
  static void read_gapless(Reader& rule);
  void read_store(Counter& counter, const std::string& name, Reader& store) const;
  void check_shared(const Counter& counter, Reader& rule);

  std::string store_db_;
  std::vector<Counter> counters_;
};

}  // namespace idproxy::config
