#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "idproxy/ids/source.hpp"

namespace idproxy::test {

/// The numbers that a LendingSource holds, and the calls that it got.
struct Lending {
  std::int64_t next = 1;           ///< the first number held
  std::size_t at_hand = 0;         ///< how many numbers are held
  std::vector<ids::Error> errors;  ///< results of the next calls of next(), instead of numbers
  std::string calls;               ///< "back 3 4; taken 5 of 1; well; …"
  std::vector<std::int64_t> back;  ///< all numbers given back
};

/// Gives int64 numbers, of which some are held and others must be asked for. Not thread-safe.
class LendingSource final : public ids::Source {
 public:
  explicit LendingSource(std::shared_ptr<Lending> lending) : lending_(std::move(lending)) {}

  [[nodiscard]] bool lends() const override { return true; }
  ids::Draw next(std::size_t n, ids::Values& out) override {
    if (!lending_->errors.empty()) {
      const ids::Error error = lending_->errors.front();
      lending_->errors.erase(lending_->errors.begin());
      return error;
    }
    if (n > lending_->at_hand) return ids::Draw::need();
    lending_->at_hand -= n;
    for (; n > 0; --n) add(lending_->next++, out);
    return {};
  }
  [[nodiscard]] bool holds(std::size_t n) const override { return n <= lending_->at_hand; }
  void accept(ids::Grant grant, ids::Values& out) override {
    for (const ids::Range& range : grant.take()) {
      for (std::uint64_t i = 0; i < range.count; ++i) {
        add(range.first + static_cast<std::int64_t>(i), out);
      }
    }
  }
  void take_back(const ids::Values& values, std::span<const std::uint32_t> which) override {
    note("back", values, which);
    for (const std::uint32_t i : which) lending_->back.push_back(load_i64(values[i].data()));
  }
  void collided(const ids::Values& values, std::span<const std::uint32_t> which,
                std::size_t in_request, ids::Taken where) override {
    in_a_row_ = true;
    note(where == ids::Taken::in_transaction ? "aborted by" : "taken", values, which);
    lending_->calls.insert(lending_->calls.size() - 2, " of " + std::to_string(in_request));
  }
  void went_well() override {
    in_a_row_ = false;
    lending_->calls += "well; ";
  }

 private:
  static void add(std::int64_t number, ids::Values& out) {
    store_i64(out.add(bson::Type::int64, 8), number);
  }
  void note(const char* what, const ids::Values& values, std::span<const std::uint32_t> which) {
    lending_->calls += what;
    for (const std::uint32_t i : which) {
      lending_->calls += ' ' + std::to_string(load_i64(values[i].data()));
    }
    lending_->calls += "; ";
  }

  std::shared_ptr<Lending> lending_;
};

}  // namespace idproxy::test
