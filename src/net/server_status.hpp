#pragma once

#include <memory>
#include <mutex>
#include <span>

#include "idproxy/rewrite/status.hpp"
#include "net/io_thread.hpp"

namespace idproxy::net {

/// Makes this process's answer to {idproxy: "status"}. Thread-safe.
class ServerStatus final : public rewrite::StatusSource {
 public:
  /// `threads` outlives it.
  ServerStatus(std::span<const std::unique_ptr<IoThread>> threads,
               std::shared_ptr<const rewrite::RuleSet> rules);

  void set_rules(std::shared_ptr<const rewrite::RuleSet> rules);
  [[nodiscard]] rewrite::Status status(rewrite::ServerId asked) const override;

 private:
  [[nodiscard]] std::uint64_t sum(Counted kind) const;

  std::span<const std::unique_ptr<IoThread>> threads_;
  mutable std::mutex mutex_;  // guards:
  std::shared_ptr<const rewrite::RuleSet> rules_;
};

}  // namespace idproxy::net
