#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "idproxy/ids/rule_source.hpp"

namespace idproxy::test {

/// The sequence of a TurnSource, and what its turns were told.
struct Turns {
  std::int64_t next = 1;  ///< the first number of the next turn
  bool is_known = true;   ///< false: the store must be asked
  std::string name{"one"};
  std::vector<ids::Error> errors;  ///< results of the next calls of next(), instead of numbers
  std::string calls;               ///< "sent; 2 stored; 1 stored for now; taken; lost; end; …"
};

/// Gives consecutive int64 numbers. Not thread-safe.
class TurnSource final : public ids::Source {
 public:
  explicit TurnSource(std::shared_ptr<Turns> turns) : turns_(std::move(turns)) {}

  ids::Draw next(std::size_t /*n*/, ids::Values& /*out*/) override {
    return ids::Error{ids::Errc::exhausted, "for documents only"};
  }
  [[nodiscard]] std::string name() const override { return turns_->name; }
  std::unique_ptr<ids::Turn> turn(ids::TurnTaker taker) override {
    if (!taker.transaction.empty()) turns_->calls += "in a transaction; ";
    return std::make_unique<NotedTurn>(turns_);
  }

 private:
  class NotedTurn final : public ids::Turn {
   public:
    explicit NotedTurn(std::shared_ptr<Turns> turns) : turns_(std::move(turns)) {}
    ~NotedTurn() override { turns_->calls += "end; "; }

    ids::Draw next(std::size_t n, ids::Values& out) override {
      if (!turns_->errors.empty()) {
        const ids::Error error = turns_->errors.front();
        turns_->errors.erase(turns_->errors.begin());
        return error;
      }
      if (!turns_->is_known) return ids::Draw::need();
      add(turns_->next, n, out);
      return {};
    }
    void accept(ids::Grant grant, ids::Values& out) override {
      const ids::Range range = grant.take().front();
      turns_->next = range.first;
      add(range.first, range.count, out);
    }
    void sent() override { turns_->calls += "sent; "; }
    void stored(std::size_t n, ids::Durability durability) override {
      const bool stays = durability == ids::Durability::by_majority;
      turns_->calls += std::to_string(n) + (stays ? " stored; " : " stored for now; ");
      turns_->next += static_cast<std::int64_t>(n);
    }
    void taken() override {
      turns_->calls += "taken; ";
      turns_->is_known = false;
    }
    void lost() override {
      turns_->calls += "lost; ";
      turns_->is_known = false;
    }

   private:
    static void add(std::int64_t first, std::size_t n, ids::Values& out) {
      for (std::size_t i = 0; i < n; ++i) {
        store_i64(out.add(bson::Type::int64, 8), first + static_cast<std::int64_t>(i));
      }
    }
    std::shared_ptr<Turns> turns_;
  };

  std::shared_ptr<Turns> turns_;
};

/// A rule whose collections share the sequence.
class TurnRule final : public ids::RuleSource {
 public:
  explicit TurnRule(std::shared_ptr<Turns> turns)
      : RuleSource({.gapless = ids::GaplessSpec()}), turns_(std::move(turns)) {}
  Bound bind(std::string_view /*ns*/, ids::Store* /*store*/) override {
    return {.source = std::make_shared<TurnSource>(turns_)};
  }

 private:
  std::shared_ptr<Turns> turns_;
};

}  // namespace idproxy::test
