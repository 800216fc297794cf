// Measures mongo-idproxy beside haproxy and a bare relay, in one run, against a stub server; or,
// with TLS on both sides, beside haproxy that ends and begins TLS.
// `usage` below says how; scripts/bench builds and starts everything. Timing never fails a run:
// only a wrong id, a wrong or lost reply, or a program that ends does.

#include <openssl/crypto.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <new>
#include <optional>
#include <stdexcept>

#include "client.hpp"
#include "measurements.hpp"
#include "report.hpp"
#include "stub_server.hpp"

namespace idproxy::bench {
namespace {

using std::chrono_literals::operator""ms;

constexpr std::string_view kUsage =
    "usage: idproxy_bench [--haproxy PROGRAM] [--relay PROGRAM] [--idproxy PROGRAM]\n"
    "                     [--tls 1.2|1.3] [--quick | --rounds N] [--only WORK] [--json FILE]\n"
    "A program that is not named is not measured, and with --tls the relay, which has none, is "
    "not.\n"
    "--quick takes a minute. --only measures only the CPU of the work of this name, or of\n"
    "those whose names contain it.\n";

constexpr int kExitBroken = 1;
constexpr int kExitUsage = 64;

constexpr Effort kFullEffort{9, 250ms, 1000};
constexpr Effort kQuickEffort{5, 150ms, 500};
constexpr std::size_t kIdleConnections = 1000;
constexpr int kCheckedRepeats = 20;

std::optional<Limit> cpu_limit(const Work& work) {
  if (work.must == 0) return std::nullopt;
  return Limit{Measure::ratio, work.must, work.aim};
}

/// The aims are +14 and +30 us where haproxy adds 23 and 46.
constexpr Limit kP50Limit{Measure::ratio, 1.0, 14.0 / 23};
constexpr Limit kP99Limit{Measure::ratio, 1.0, 30.0 / 46};
constexpr Limit kIdleLimit{Measure::value, 2.6, 1.5};     // KiB
constexpr Limit kAfterLimit{Measure::value, 3.3, 2.5};    // KiB
constexpr Limit kStartLimit{Measure::value, 15.0, 12.0};  // MB

struct Options {
  Programs programs;
  std::optional<TlsVersion> tls;
  Effort effort = kFullEffort;
  bool quick = false;
  std::string only;
  std::string json;
};

std::optional<Options> parse(const std::vector<std::string>& words) {
  Options options;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--quick") {
      options.effort = kQuickEffort;
      options.quick = true;
      continue;
    }
    if (i + 1 == words.size()) return std::nullopt;
    const std::string& value = words[i + 1];
    if (words[i] == "--haproxy") {
      options.programs[column_of(TargetKind::haproxy)] = value;
    } else if (words[i] == "--relay") {
      options.programs[column_of(TargetKind::relay)] = value;
    } else if (words[i] == "--idproxy") {
      options.programs[column_of(TargetKind::idproxy)] = value;
    } else if (words[i] == "--tls" && (value == "1.2" || value == "1.3")) {
      options.tls = value == "1.2" ? TlsVersion::v1_2 : TlsVersion::v1_3;
    } else if (words[i] == "--rounds" && std::atoi(value.c_str()) > 0) {
      options.effort.rounds = static_cast<std::size_t>(std::atoi(value.c_str()));
    } else if (words[i] == "--only") {
      options.only = value;
    } else if (words[i] == "--json") {
      options.json = value;
    } else {
      return std::nullopt;
    }
    ++i;
  }
  if (options.tls) options.programs[column_of(TargetKind::relay)].clear();
  return options;
}

/// A thousand idle connections need two descriptors each in a proxy; children inherit the limit.
void raise_open_file_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

/// OpenSSL writes as files are written: a connection that the peer has closed is no reason to end.
/// Programs under test do not inherit this.
void ignore_broken_pipes() {
  struct sigaction ignore{};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, nullptr);
}

/// Memory that a forked child shares; kept until the program ends.
Findings& shared_findings() {
  void* memory =
      ::mmap(nullptr, sizeof(Findings), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw_errno("mmap");
  return *new (memory) Findings;
}

/// The whole run. The stub server is a process of its own where a client waits for each reply, and
/// part of the load generator's thread where CPU is measured.
class Bench {
 public:
  explicit Bench(Options options) : options_(std::move(options)) {
    if (!options_.tls) return;
    certificates_ = make_certificates(directory_);
    transport_ = Transport(*options_.tls, *certificates_);
    works_.push_back(make_connect_work());
  }

  void run() {
    pin_process(0, cores_.load);
    describe();
    run_with_stub_in_thread();
    run_with_stub_process();
    report();
    require_clean_findings();
  }

 private:
  void run_with_stub_in_thread() {
    StubServer stub(works_, transport_, findings_);
    const Launcher launcher = make_launcher(stub.ports());
    const std::vector<Target> targets = launcher.start_all();
    const bool exact = std::ranges::count(works_, options_.only, &Work::name) > 0;
    for (std::size_t i = 0; i < works_.size(); ++i) {
      if (exact && works_[i].name != options_.only) continue;
      if (works_[i].name.find(options_.only) == std::string::npos) continue;
      if (options_.quick && options_.only.empty() && !works_[i].quick) continue;
      const CpuCost cost = measure_cpu(targets, stub, works_[i], transport_, options_.effort);
      add_row("CPU of the proxy, us per operation", works_[i].name, cost.target_us,
              cpu_limit(works_[i]));
      note_load(works_[i], cost);
    }
  }

  void run_with_stub_process() {
    const auto [stub, ports] = start_stub();
    const Launcher launcher = make_launcher(ports);
    const std::vector<Target> targets = launcher.start_all();
    if (options_.tls) describe_sessions(targets);
    check_ids(targets);
    if (!options_.only.empty()) return;
    measure_all_latency(targets, ports.relayed);
    measure_all_memory(launcher);
  }

  std::pair<Child, StubPorts> start_stub() {
    StubServer server(works_, transport_, findings_);
    return {Child::fork_into([&] {
              while (true) server.serve(-1);
            }),
            server.ports()};
  }

  Launcher make_launcher(StubPorts ports) const {
    return {options_.programs, ports, cores_.proxy, certificates_};
  }

  /// The limits are for plain connections: the ciphers, which nobody can spare, blur the rest.
  void add_row(std::string section, const std::string& work, const Rounds& rounds,
               std::optional<Limit> limit) {
    if (options_.tls) {
      section += ", TLS on both sides";
      limit.reset();
    }
    rows_.push_back(make_row(section, work, rounds, limit));
  }

  void describe() const {
    std::cout << "load generator and stub server on core " << cores_.load << ", proxies on core "
              << cores_.proxy << "; " << options_.effort.rounds << " rounds in turn, "
              << options_.effort.slice.count() << " ms each\n";
    if (cores_.load == cores_.proxy) std::cout << "only one core: proxies share it with the load\n";
    if (options_.tls) {
      std::cout << "TLS on both sides of the proxies, which verify the server's certificate; "
                   "RSA keys of 2048 bits, "
                << OpenSSL_version(OPENSSL_VERSION) << '\n';
    }
    double load = 0;
    if (::getloadavg(&load, 1) == 1) std::cout << "load average before: " << load << '\n';
    std::cout << std::flush;
  }

  void measure_all_memory(const Launcher& launcher) {
    Rounds start, idle, after;
    for (const auto kind : {TargetKind::haproxy, TargetKind::relay, TargetKind::idproxy}) {
      if (!launcher.has(kind)) continue;
      const Target target = launcher.start(kind);
      const MemoryUse use = measure_memory(target, works_, transport_, kIdleConnections);
      start[column_of(kind)] = {use.at_start_mb};
      idle[column_of(kind)] = {use.per_idle_kib};
      after[column_of(kind)] = {use.after_work_kib};
    }
    add_row("memory", "idle connection, KiB", idle, kIdleLimit);
    add_row("memory", "same, after large messages", after, kAfterLimit);
    add_row("memory", "at start, MB resident", start, kStartLimit);
  }

  void describe_sessions(const std::vector<Target>& targets) {
    for (const Target& target : targets) {
      const Client client(target.port, transport_);
      notes_ += "  TLS between client and " + std::string(name_of(target.kind)) + ": " +
                client.stream().negotiated() + '\n';
    }
  }

  /// Each document of each insert, with its value compared to all others.
  void check_ids(const std::vector<Target>& targets) {
    std::uint64_t expected = 0;
    findings_.compare_ids = true;
    for (const Target& target : targets) {
      if (target.kind != TargetKind::idproxy) continue;
      Client client(target.port, transport_);
      for (const Work& work : works_) {
        for (int i = 0; i < kCheckedRepeats; ++i) client.exchange(work);
        for (std::size_t i = 0; i < work.documents; ++i) {
          expected += work.stored[i % work.stored.size()].uuids.size() * kCheckedRepeats;
        }
      }
    }
    findings_.compare_ids = false;
    if (findings_.compared_ids == expected) return;
    throw std::runtime_error("of " + std::to_string(expected) + " values only " +
                             std::to_string(findings_.compared_ids) + " were as they should be, " +
                             std::to_string(findings_.changed) + " documents were not");
  }

  void note_load(const Work& work, const CpuCost& cost) {
    std::array<char, 160> text{};
    for (const auto kind : {TargetKind::haproxy, TargetKind::relay, TargetKind::idproxy}) {
      const std::size_t column = column_of(kind);
      if (cost.target_us[column].empty()) continue;
      const double rate = median(cost.per_second[column]);
      const double busy_percent = rate * median(cost.target_us[column]) / 1e4;
      std::snprintf(text.data(), text.size(), "  %-20s %-8s %9.0f/s, proxy %3.0f %% busy\n",
                    work.name.c_str(), name_of(kind).data(), rate, busy_percent);
      notes_ += text.data();
    }
  }

  void measure_all_latency(const std::vector<Target>& targets, std::uint16_t stub_port) {
    for (const Target& target : targets) target.process.pin_to(cores_.load);
    for (const std::string_view name : {"ping", "insert of 1, 512 B, number"}) {
      const auto work = std::find_if(works_.begin(), works_.end(),
                                     [&](const Work& each) { return each.name == name; });
      const AddedLatency added =
          measure_latency(targets, stub_port, *work, transport_, options_.effort);
      const std::string section = "added latency, us, one connection, all on one core";
      add_row(section, work->name + ", p50", added.p50_us, kP50Limit);
      add_row(section, work->name + ", p99", added.p99_us, kP99Limit);
    }
  }

  void report() const {
    print_table(std::cout, rows_);
    std::cout << "load during the CPU measurement\n" << notes_;
    if (options_.json.empty()) return;
    std::ofstream file(options_.json);
    print_json(file, rows_);
    if (!file) throw std::runtime_error("cannot write " + options_.json);
  }

  void require_clean_findings() const {
    std::cout << "documents checked for their id: " << findings_.checked << ", of these "
              << findings_.compared_ids << " compared with each other; wrong "
              << findings_.wrong_ids << ", repeated " << findings_.repeated_ids
              << ", otherwise changed " << findings_.changed << "; malformed messages "
              << findings_.malformed << '\n';
    const bool clean = findings_.wrong_ids == 0 && findings_.repeated_ids == 0 &&
                       findings_.changed == 0 && findings_.malformed == 0;
    if (!clean) throw std::runtime_error("the stub server did not get what it should have");
  }

  Options options_;
  TemporaryDirectory directory_;
  std::optional<CertificateFiles> certificates_;  ///< none: all is plain
  Transport transport_;
  std::vector<Work> works_ = make_works();
  Findings& findings_ = shared_findings();
  Cores cores_ = choose_cores();
  std::vector<Row> rows_;
  std::string notes_;
};

}  // namespace
}  // namespace idproxy::bench

int main(int argc, char** argv) {
  using namespace idproxy::bench;
  const auto options = parse({argv + 1, argv + argc});
  if (!options) {
    std::cerr << kUsage;
    return kExitUsage;
  }
  try {
    raise_open_file_limit();
    ignore_broken_pipes();
    Bench(*options).run();
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "idproxy_bench: " << error.what() << '\n';
    return kExitBroken;
  }
}
