#include "rewrite/fates.hpp"

#include <algorithm>

namespace idproxy::rewrite {

/// Not with `multi: true`: it may have changed documents before it failed.
void Fates::failed(std::int32_t statement) {
  if (!given_.is_multi(statement)) set({&statement, 1}, Fate::undone);
}

/// A server that stops at an error undoes the transaction that its statement is in. If the error
/// leaves open whether it is stored, it is not known what became of the statements behind it,
/// either: several may be one command of a mongos to its shard.
void Fates::answered(const WriteReply& reply, std::span<const std::int32_t> statements,
                     const WriteOptions& options, const Operation& command) {
  auto error = reply.errors.begin();
  for (std::size_t i = 0; i < statements.size(); ++i) {
    const std::int32_t each = statements[i];
    const bool has_failed =
        error != reply.errors.end() && static_cast<std::size_t>(error->index) == i;
    const bool is_undone = has_failed ? denies((error++)->document)
                                      : !command.inserted(each) && !may_be_held(each, reply);
    if (!is_undone && has_failed && options.stops()) return;
    if (!is_undone) continue;
    if (!has_failed || !options.stops()) {
      failed(each);
      continue;
    }
    for (const std::int32_t behind : statements.subspan(i)) failed(behind);
    for (std::int32_t any = 0; options.in_transaction && any < std::ssize(all_); ++any) {
      if (of(any) == Fate::sent) failed(any);
    }
    return;
  }
}

}  // namespace idproxy::rewrite
