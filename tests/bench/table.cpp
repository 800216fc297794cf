#include "table.hpp"

#include <openssl/crypto.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <new>
#include <stdexcept>

#include "client.hpp"
#include "load_generator.hpp"
#include "measurements.hpp"
#include "sockets.hpp"

namespace idproxy::bench {
namespace {

constexpr Limit kP50Limit{1.0, 0.5};
constexpr Limit kP99Limit{1.0, 0.5};
constexpr Limit kIdleLimit{1.2, 1.0};     // KiB
constexpr Limit kAfterLimit{1.6, 1.4};    // KiB
constexpr Limit kStartLimit{15.0, 12.0};  // MB

constexpr std::size_t kIdleConnections = 1000;  // in the measurement of memory
constexpr std::size_t kManyConnections = 10'000;
constexpr std::size_t kWorkingConnections = 100;
constexpr int kCheckedRepeats = 20;
/// With those that the works need the most that a configuration may have.
constexpr int kFurtherRules = 992;

constexpr std::string_view kInsertOfOne = "insert of 1, 512 B, number";
constexpr std::string_view kInsertOfHundred = "insert of 100, 512 B, number";

/// Memory that a forked child shares; kept until the program ends.
Findings& shared_findings() {
  void* memory =
      ::mmap(nullptr, sizeof(Findings), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw_errno("mmap");
  return *new (memory) Findings;
}

Targets all_of(const std::vector<Target>& targets) {
  Targets all;
  for (const Target& target : targets) all.push_back(&target);
  return all;
}

/// All but those that are there for comparison only.
Targets main_ones(const std::vector<Target>& targets) {
  Targets chosen;
  for (const Target& target : targets) {
    if (target.name != "nginx" && target.name != "envoy") chosen.push_back(&target);
  }
  return chosen;
}

/// That many connections or, if files are limited, as many as they allow: a proxy needs two
/// descriptors for each, and so does this program, which has both of their other ends.
std::size_t allowed_connections() {
  constexpr std::size_t kOthers = 1000;
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const std::size_t files = std::max<std::size_t>(limit.rlim_cur, 2 * kOthers);
  return std::min(kManyConnections, (files - kOthers) / 2);
}

Work with_connections(Work work, std::size_t connections) {
  work.connections = connections;
  return work;
}

std::string name_of_machine_part(const Cores& cores) {
  const auto text = [](int core) { return std::to_string(core); };
  if (cores.load == cores.proxy) return "there is only one core, which proxies and load share";
  return "load generator and stub server on core " + text(cores.load) + ", proxies on core " +
         text(cores.proxy);
}

}  // namespace

Table::Table(Options options)
    : options_(std::move(options)),
      works_(options_.tls ? make_tls_works(options_.sides) : make_works()),
      findings_(shared_findings()) {
  if (!options_.tls) return;
  certificates_ = make_certificates(directory_);
  transport_ = Transport(*options_.tls, options_.sides, *certificates_);
}

void Table::run() {
  if (options_.tls && chosen_works().empty()) return;
  pin_process(0, {cores_.load});
  std::cerr << name_of_machine_part(cores_) << "; " << options_.effort.rounds << " rounds in turn, "
            << options_.effort.slice.count() << " ms each\n";
  measure_works();
  if (!options_.tls) {
    measure_unix_sockets();
    measure_pairs();
  }

  StubServer server(works_, transport_, findings_);
  const StubPorts ports = server.ports();
  const Child stub = Child::fork_into([&] {
    while (true) server.serve(-1);
  });
  Launcher programs = launcher(ports);
  check_values(programs);
  if (!options_.tls) {
    measure_latency_rows(programs, ports.relayed);
    measure_memory_rows(programs);
  }
  const std::string checked = require_clean(findings_);
  if (findings_.checked > 0) print_note(std::cout, checked);
}

/// Of rows with just the name that was asked for, there is only one. Those with TLS say so.
bool Table::wanted(const std::string& row, bool quick) const {
  const std::string& only = options_.only;
  if (only.empty()) return quick || !options_.quick;
  if (std::ranges::count(works_, only, &Work::name) > 0) return row == only;
  return row.find(only) != std::string::npos;
}

std::vector<Work> Table::chosen_works() const {
  std::vector<Work> chosen;
  for (const Work& each : works_) {
    if (wanted(row_of(each), each.quick)) chosen.push_back(each);
  }
  return chosen;
}

std::string Table::row_of(const Work& work) const {
  if (!options_.tls) return work.name;
  return (options_.sides == TlsSides::both ? "TLS, " : "TLS to the client, ") + work.name;
}

Launcher Table::launcher(StubPorts ports) const {
  return {options_.programs, ports, cores_.proxy, certificates_, options_.sides};
}

const Work& Table::work(std::string_view name) const {
  return *std::ranges::find(works_, name, &Work::name);
}

// ---- CPU ---------------------------------------------------------------------------------------

void Table::measure_works() {
  const std::vector<Work> chosen = chosen_works();
  if (chosen.empty()) return;
  StubServer stub(works_, transport_, findings_);
  Launcher programs = launcher(stub.ports());
  const std::vector<Target> targets = programs.start_all();
  const std::string section = !options_.tls ? "CPU per operation"
                              : options_.sides == TlsSides::both
                                  ? "CPU per operation, TLS on both sides"
                                  : "CPU per operation, TLS to the client";
  for (const Work& each : chosen) {
    const Targets measured = each.usual || options_.tls ? all_of(targets) : main_ones(targets);
    print(std::cout, {section, row_of(each), "us",
                      measure_cpu(measured, stub, each, transport_, options_.effort), "idproxy",
                      "haproxy", each.limit});
  }
}

/// From the clients to the proxies; on to the stub server by TCP.
void Table::measure_unix_sockets() {
  const auto row_name = [](const Work& work) { return "Unix socket, " + work.name; };
  std::vector<Work> chosen;
  for (const std::string_view name : {std::string_view("ping"), kInsertOfOne}) {
    if (wanted(row_name(work(name)), false)) chosen.push_back(work(name));
  }
  if (chosen.empty()) return;
  StubServer stub(works_, transport_, findings_);
  Launcher programs(options_.programs, stub.ports(), cores_.proxy, {}, TlsSides::both,
                    ListensOn::unix_socket);
  std::vector<Target> targets;
  for (const TargetKind kind : {TargetKind::haproxy, TargetKind::idproxy}) {
    if (programs.has(kind)) targets.push_back(programs.start(kind));
  }
  const Transport transport = Transport::over_unix_sockets();
  for (const Work& each : chosen) {
    print(std::cout, {"CPU per operation, Unix socket", row_name(each), "us",
                      measure_cpu(all_of(targets), stub, each, transport, options_.effort),
                      "idproxy", "haproxy", std::nullopt});
  }
  for (const Target& target : targets) std::filesystem::remove(unix_socket_of(target.port));
}

void Table::measure_pairs() {
  const Work& ping = work("ping");
  const Work& insert = work(kInsertOfOne);
  // Threads that share a core share its caches, too: what they cost each other would not be seen.
  const std::vector<int> both{cores_.proxy, cores_.load};
  measure_pair({"two io threads",
                {"one thread"},
                {.name = "two threads", .threads = 2},
                {ping, insert, work(kInsertOfHundred)},
                {0.97, 0.9},
                0,
                both,
                true});
  measure_pair({"1,000 rules",
                {"eight rules"},
                {.name = "1,000 rules", .rules = kFurtherRules},
                {insert},
                {1.05, 1.0},
                0,
                {cores_.proxy}});
  const std::size_t connections = allowed_connections();
  const std::string many = std::to_string(connections) + " connections";
  measure_pair(
      {many + " of which 100 work",
       {"100 connections"},
       {.name = many, .max_connections = connections + kMaxConnections},
       {with_connections(ping, kWorkingConnections), with_connections(insert, kWorkingConnections)},
       {1.15, 1.05},
       connections - kWorkingConnections,
       {cores_.proxy}});
}

void Table::measure_pair(const Pair& pair) {
  std::vector<Work> chosen;
  for (const Work& each : pair.works) {
    if (wanted(pair.name + ", " + each.name, false)) chosen.push_back(each);
  }
  if (chosen.empty()) return;
  StubServer stub(works_, transport_, findings_);
  Launcher programs = launcher(stub.ports());
  std::vector<Target> targets;
  targets.push_back(programs.start(pair.one));
  targets.push_back(programs.start(pair.other));
  if (pair.beside_haproxy && programs.has(TargetKind::haproxy)) {
    for (const int threads : {1, 2}) targets.push_back(programs.start_haproxy(threads));
  }
  for (const Target& target : targets) target.process.pin_to(pair.cores);
  const std::string beside = pair.beside_haproxy ? "haproxy, 2 threads" : targets[0].name;
  const Target& other = targets[1];
  // All of them have done something before they idle.
  const Work ping = with_connections(work("ping"), pair.idle);
  LoadGenerator idle(other.port, ping, transport_, stub);
  idle.run(std::chrono::nanoseconds(0));
  for (const Work& each : chosen) {
    print(std::cout, {"CPU per operation, " + pair.name, pair.name + ", " + each.name, "us",
                      measure_cpu(all_of(targets), stub, each, transport_, options_.effort),
                      other.name, beside, pair.limit});
  }
}

// ---- latency, memory, values -------------------------------------------------------------------

void Table::measure_latency_rows(Launcher& launcher, std::uint16_t stub_port) {
  std::vector<Target> targets;
  for (const std::string_view name : {std::string_view("ping"), kInsertOfOne}) {
    const std::string row = "added latency, " + std::string(name);
    if (!wanted(row, true)) continue;
    if (targets.empty()) targets = launcher.start_all();
    for (const Target& target : targets) target.process.pin_to({cores_.load});
    AddedLatency added =
        measure_latency(all_of(targets), stub_port, work(name), transport_, options_.effort);
    const std::string section = "Added latency, one connection, all on one core";
    print(std::cout,
          {section, row + ", p50", "us", std::move(added.p50_us), "idproxy", "haproxy", kP50Limit});
    print(std::cout,
          {section, row + ", p99", "us", std::move(added.p99_us), "idproxy", "haproxy", kP99Limit});
  }
}

void Table::measure_memory_rows(Launcher& launcher) {
  if (!wanted("memory", true)) return;
  std::vector<Column> start, idle, after;
  for (const TargetKind kind : kTargetKinds) {
    if (!launcher.has(kind)) continue;
    const Target target = launcher.start(kind);
    const MemoryUse use = measure_memory(target, works_, transport_, kIdleConnections);
    start.push_back({target.name, {use.at_start_mb}});
    idle.push_back({target.name, {use.per_idle_kib}});
    after.push_back({target.name, {use.after_work_kib}});
  }
  const auto row = [](const char* name, const char* unit, std::vector<Column> columns,
                      Limit limit) {
    print(std::cout, {"Memory", std::string("memory, ") + name, unit, std::move(columns), "idproxy",
                      "", limit});
  };
  row("idle connection", "KiB", std::move(idle), kIdleLimit);
  row("idle connection after large messages", "KiB", std::move(after), kAfterLimit);
  row("resident at the start", "MB", std::move(start), kStartLimit);
}

/// Each document of each insert, with its value compared to all others.
void Table::check_values(Launcher& launcher) {
  const Target target = launcher.start(TargetKind::idproxy);
  std::uint64_t expected = 0;
  findings_.compare_ids = true;
  Client client(target.port, transport_);
  if (options_.tls) std::cerr << "TLS: " << client.stream().negotiated() << '\n';
  for (const Work& each : chosen_works()) {
    for (int i = 0; i < kCheckedRepeats; ++i) client.exchange(each);
    for (std::size_t i = 0; i < each.documents; ++i) {
      expected += each.stored[i % each.stored.size()].uuids.size() * kCheckedRepeats;
    }
  }
  findings_.compare_ids = false;
  if (findings_.compared_ids == expected) return;
  throw std::runtime_error("of " + std::to_string(expected) + " values only " +
                           std::to_string(findings_.compared_ids) + " were as they should be, " +
                           std::to_string(findings_.changed) + " documents were not");
}

}  // namespace idproxy::bench
