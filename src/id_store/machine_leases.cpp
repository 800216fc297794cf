#include "id_store/machine_leases.hpp"

#include "idproxy/log/log.hpp"

namespace idproxy::id_store {

using ids::LeaseJob;
using ids::LeaseReply;
using ids::MachineLease;
namespace {

/// The last user's reference wakes the task, which releases the number and forgets the lease.
std::shared_ptr<MachineLease> lend_machine(auto& lease) {
  if (auto lent = lease.lent.lock()) return lent;
  std::shared_ptr<MachineLease> lent(
      lease.machine.get(), [machine = lease.machine](MachineLease*) { machine->let_go(); });
  lease.lent = lent;
  lent->announce();
  return lent;
}

/// Logs each change once.
void report_lease(auto& lease, const LeaseJob& job, const LeaseReply& reply) {
  using Kind = LeaseReply::Kind;
  if (reply.kind == Kind::held && job.kind == LeaseJob::Kind::claim) {
    log::event(log::Level::info, "machine_claimed", "this proxy has a machine number",
               {{"lease", job.spec.name}, {"machine", reply.number}});
  }
  if (reply.kind == Kind::released) {
    log::event(log::Level::info, "machine_released", "this proxy has given its machine number back",
               {{"lease", job.spec.name}, {"machine", job.number}});
  }
  const auto failure = lease.machine->failure();
  const std::string reason = failure ? failure->reason : reply.error.reason;
  const std::string before = std::exchange(lease.reported, reason);
  if (before == reason || reason.empty() || (failure && failure->is_transient)) return;
  if (failure) {
    log::event(log::Level::error, "machine_refused",
               "rules that need a machine number give no ids until there is one",
               {{"lease", job.spec.name}, {"reason", reason}});
  } else {
    log::event(log::Level::warning, "machine_not_renewed",
               "the lease on the machine number cannot be renewed now",
               {{"lease", job.spec.name}, {"machine", job.number}, {"reason", reason}});
  }
}

}  // namespace

MachineLeases::Lease::Lease(MachineLeases& owner, std::string lease_key)
    : key(std::move(lease_key)),
      documents(owner.claims_),
      task(Lane::counters, [this, &owner] { return owner.run(*this); }) {}

std::shared_ptr<MachineLease> MachineLeases::lease(const ids::LeaseSpec& spec,
                                                   const ids::CounterField& field,
                                                   const ids::Sources& sources,
                                                   std::uint64_t watch) {
  const auto make = [&] {
    auto made = std::make_shared<Lease>(*this, spec.key());
    made->machine = std::make_shared<MachineLease>(
        spec, sources,
        [this, weak = std::weak_ptr(made)] {
          if (const Shared woken = weak.lock()) scheduler_.wake({woken, &woken->task});
        },
        used_);
    return made;
  };
  const std::scoped_lock lock(leases_.mutex);
  using Got = decltype(leases_)::Got;
  const auto [lease, got] =
      leases_.get(spec.key(), watch, [](const Shared& /*known*/) { return true; }, make);
  lease->add_field(field, watch);
  const bool is_older = watch < lease->watch;
  if (got == Got::renewed) lease->machine->share(spec, MachineLease::Rules::anew);
  if (got == Got::known && !is_older) lease->machine->share(spec, MachineLease::Rules::more);
  return lend_machine(*lease);
}

std::vector<NotReadyReport> MachineLeases::not_ready() const {
  const bool starves = scheduler_.starves(Lane::counters);
  return leases_.not_ready([&](const Lease& lease) -> std::optional<ids::Error> {
    if (lease.machine->number()) return std::nullopt;
    if (starves) return no_thread();
    if (auto failure = lease.machine->failure()) return failure;
    return ids::Error{.code = ids::Errc::unavailable,
                      .reason = "no machine number is claimed yet",
                      .is_transient = true};
  });
}

std::vector<std::pair<ids::MachineNumber, std::vector<ids::CounterField>>> MachineLeases::numbers()
    const {
  const std::scoped_lock lock(leases_.mutex);
  std::vector<std::pair<ids::MachineNumber, std::vector<ids::CounterField>>> found;
  for (const auto& [key, lease] : leases_.in_force()) {
    found.push_back({{lease->machine->spec().name, lease->machine->number()}, lease->fields});
  }
  return found;
}

void MachineLeases::stop() {
  leases_.stop([this](const Shared& lease) { scheduler_.wake({lease, &lease->task}); });
}

// ---- the task ----------------------------------------------------------------------------------

std::optional<Scheduler::Time> MachineLeases::run(Lease& lease) {
  while (const auto job = lease.machine->begin()) {
    mongo::Client client = pool_.client(&metrics_.round_trips);
    const LeaseReply reply = lease.documents.run(client, *job);
    lease.machine->finish(reply);
    report_lease(lease, *job, reply);
  }
  const std::scoped_lock lock(leases_.mutex);
  if (lease.lent.expired() && !lease.machine->is_busy()) leases_.forget(lease.key, lease);
  return lease.machine->due();
}

}  // namespace idproxy::id_store
