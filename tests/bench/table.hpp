#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "certificates.hpp"
#include "options.hpp"
#include "process.hpp"
#include "report.hpp"
#include "stub_server.hpp"
#include "work.hpp"

namespace idproxy::bench {

/// Measures every row of the tables, or those that were asked for, and prints them. The stub server
/// is a process of its own where a client waits for each reply, and part of the load generator's
/// thread where CPU is measured.
class Table {
 public:
  explicit Table(Options options);

  /// Throws std::exception if anything but timing is wrong.
  void run();

 private:
  /// What mongo-idproxy costs in one way, beside what it costs in another.
  struct Pair {
    std::string name;
    Variant one;
    Variant other;
    std::vector<Work> works;
    Limit limit;
    std::size_t idle = 0;  ///< connections of the other one, which only are there
    std::vector<int> cores;
    bool beside_haproxy = false;  ///< with one and with two threads: of these is the figure
  };

  bool wanted(const std::string& row, bool quick) const;
  std::vector<Work> chosen_works() const;
  std::string row_of(const Work& work) const;
  Launcher launcher(StubPorts ports) const;
  const Work& work(std::string_view name) const;

  void measure_works();
  void measure_unix_sockets();
  void measure_pairs();
  void measure_pair(const Pair& pair);
  void measure_latency_rows(Launcher& launcher, std::uint16_t stub_port);
  void measure_memory_rows(Launcher& launcher);
  void check_values(Launcher& launcher);

  Options options_;
  TemporaryDirectory directory_;
  std::optional<CertificateFiles> certificates_;  ///< none: all is plain
  Transport transport_;
  std::vector<Work> works_;
  Findings& findings_;
  Cores cores_ = choose_cores();
};

}  // namespace idproxy::bench
