#include "rewrite/repeated_insert.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace idproxy::rewrite {

bool RepeatedInsert::is_invalid(const WriteError& error) {
  constexpr std::int64_t kDocumentValidationFailure = 121;
  return error.code != kDuplicateKey && error.code != kDocumentValidationFailure;
}

bool RepeatedInsert::accounts_for_all(const WriteReply& reply, std::size_t sent) {
  const auto accounted = reply.n.value_or(0) + static_cast<std::int64_t>(reply.errors.size());
  return accounted == static_cast<std::int64_t>(sent);
}

std::vector<std::int32_t> RepeatedInsert::shifted(const WriteReply& reply,
                                                  const WriteOptions& options,
                                                  std::size_t statements) {
  std::vector<std::int32_t> numbers;
  std::int32_t valid = 0;
  auto error = reply.errors.begin();
  for (std::int32_t each = 0; each < static_cast<std::int32_t>(statements); ++each) {
    while (error != reply.errors.end() && error->index < each) ++error;
    numbers.push_back(options.number_of(valid));
    const bool failed = error != reply.errors.end() && error->index == each;
    if (!failed || !is_invalid(*error)) ++valid;
  }
  return numbers;
}

bool RepeatedInsert::may_be_mixed_up(const WriteReply& reply, std::size_t sent,
                                     bool loses_writes) const {
  if (sorted_out_ || sent < 2) return false;
  const bool has_errors = loses_writes && !std::ranges::all_of(reply.errors, is_invalid);
  return has_errors || !accounts_for_all(reply, sent);
}

std::vector<std::int32_t> RepeatedInsert::doubt(const wire::OpMsgView& message,
                                                const WriteReply& reply,
                                                std::span<const std::int32_t> out) {
  lost_ = lost_ || !accounts_for_all(reply, out.size());
  sorted_out_ = true;
  reply_.clear();
  reply_.append(message.message());
  invalid_.clear();
  for (const WriteError& error : reply.errors) {
    if (is_invalid(error)) invalid_.push_back(out[static_cast<std::size_t>(error.index)]);
  }
  std::vector<std::int32_t> valid;
  std::ranges::set_difference(out, invalid_, std::back_inserter(valid));
  return valid;
}

RepeatedInsert::Verdict RepeatedInsert::judge(
    const std::optional<std::vector<std::int32_t>>& executed, const WriteReply& reply,
    std::span<const std::int32_t> out) {
  Verdict verdict{Verdict::Kind::send_again, {out.begin(), out.end()}};
  std::vector<std::int32_t>& missing = verdict.statements;
  if (executed) {
    std::erase_if(missing,
                  [&](std::int32_t each) { return std::ranges::binary_search(*executed, each); });
    const bool is_right = std::ranges::equal(missing, reply.errors, {}, {}, [&](const auto& each) {
      return out[static_cast<std::size_t>(each.index)];
    });
    if (is_right) return {Verdict::Kind::believe};
    verdict.stored = static_cast<std::int64_t>(executed->size());
  }
  if (!invalid_.empty()) return {Verdict::Kind::give_up};
  // A reply has to come from the server: to one that it has executed it says so again.
  if (missing.empty()) {
    missing.push_back(out.back());
    --verdict.stored;
  }
  singly_ = !executed;
  return verdict;
}

}  // namespace idproxy::rewrite
