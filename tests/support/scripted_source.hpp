#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "idproxy/ids/source.hpp"

namespace idproxy::test {

/// Hands out the int64 numbers of a script, in order; on an error, none. Records the values that
/// each call found in `out`. Not thread-safe.
class ScriptedSource final : public ids::Source {
 public:
  explicit ScriptedSource(std::vector<std::int64_t> numbers) : numbers_(std::move(numbers)) {}

  ids::Draw next(std::size_t n, ids::Values& out) override {
    asked.push_back(n);
    auto& seen = shown.emplace_back();
    for (std::size_t i = 0; i < out.size(); ++i) seen.push_back(load_i64(out[i].data()));
    if (n > numbers_.size() - used_) return ids::Error{ids::Errc::exhausted, "the script ends"};
    for (; n > 0; --n) store_i64(out.add(bson::Type::int64, 8), numbers_[used_++]);
    return {};
  }

  std::vector<std::size_t> asked;                ///< number of values, by call
  std::vector<std::vector<std::int64_t>> shown;  ///< what `out` held, by call

 private:
  std::vector<std::int64_t> numbers_;
  std::size_t used_ = 0;
};

}  // namespace idproxy::test
