#include "idproxy/rewrite/write_values.hpp"

#include <string>

namespace idproxy::rewrite {
namespace {

/// The error label that makes the driver try again, in the way that suits the command.
std::string_view retry_label(const wire::OpMsgView& write) {
  const auto options = WriteOptions::read(write.body());
  if (!options) return {};
  if (options->in_transaction) return kTransientTransactionError;
  return options->has_txn_number ? kRetryableWriteError : std::string_view{};
}

}  // namespace

ids::Draw draw(const Assignment& assignment, std::size_t count, ids::Values& out) {
  if (assignment.not_ready) return *assignment.not_ready;
  return assignment.source->next(count, out);
}

CommandError no_values(const wire::OpMsgView& write, std::string_view ns,
                       const Assignment& assignment, const ids::Error& error) {
  const bool passes = error.code == ids::Errc::unavailable;
  return {code_of(error.code), no_value_text(ns, assignment, error),
          passes ? retry_label(write) : std::string_view{}};
}

std::string no_value_text(std::string_view ns, const Assignment& assignment,
                          const ids::Error& error) {
  return std::string("mongo-idproxy: no value for field '")
      .append(assignment.rule->field)
      .append("' of ")
      .append(ns)
      .append(" (strategy ")
      .append(assignment.rule->strategy_name)
      .append("): ")
      .append(error.reason);
}

CommandError too_large() {
  return {ErrorCode::bson_object_too_large,
          "mongo-idproxy: with its ids the message would have more than " +
              std::to_string(wire::kMaxMessageSize) + " bytes; send fewer documents at once"};
}

void number_values(const Plan& plan, GivenValues& given) {
  given.values.resize(plan.size());
  given.wanted.assign(plan.size(), 0);
  for (Given& each : given.given) {
    each.value = static_cast<std::uint32_t>(given.wanted[each.assignment]++);
  }
}

}  // namespace idproxy::rewrite
