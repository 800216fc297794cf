// Measures mongo-idproxy beside haproxy, nginx, envoy and a bare relay, in one run, against a stub
// server; with TLS on both sides, beside haproxy that ends and begins TLS; or beside another
// mongo-idproxy. kUsage says how; scripts/bench builds and starts everything. Prints a line of JSON
// for each row of the tables, and on standard error what it is about. Timing never fails a run:
// only a wrong id, a wrong or lost reply, or a program that ends does.

#include <sys/resource.h>

#include <csignal>
#include <exception>
#include <iostream>

#include "comparison.hpp"
#include "options.hpp"
#include "table.hpp"

namespace idproxy::bench {
namespace {

constexpr int kExitLoss = 1;
constexpr int kExitBroken = 2;
constexpr int kExitUsage = 64;

/// Thousands of idle connections need two descriptors each in a proxy; children inherit the limit.
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
    if (options->against.empty()) {
      Table(*options).run();
    } else if (!compare(*options)) {
      return kExitLoss;
    }
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "idproxy_bench: " << error.what() << '\n';
    return kExitBroken;
  }
}
