// Inserts of which one document in a hundred draws a number that is taken: through mongo-idproxy,
// which draws again by itself, and straight to the same mongod, where this program sends the same
// second insert itself. duplicates.py starts the servers and looks at what is stored. Each line on
// standard input, "direct" or "proxied", is the collection of the next slice of time; when that is
// over, its documents stored and its seconds are printed, with a tab between them.

#include <array>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <string_view>

#include "insert_load.hpp"

namespace idproxy::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kUsage =
    "usage: bench_duplicates DIRECT_PORT PROXY_PORT ordered|unordered NUMBERS SLICE_MS\n";

constexpr int kExitBroken = 1;
constexpr int kExitUsage = 64;

constexpr std::size_t kBatch = 100;
constexpr std::size_t kConnections = 4;

void serve(InsertLoad& direct, InsertLoad& proxied, std::chrono::milliseconds slice) {
  for (std::string collection; std::getline(std::cin, collection);) {
    const auto begun = Clock::now();
    const std::uint64_t documents = (collection == "direct" ? direct : proxied).run(slice);
    const std::chrono::duration<double> seconds = Clock::now() - begun;
    std::cout << documents << '\t' << seconds.count() << std::endl;
  }
}

}  // namespace
}  // namespace idproxy::bench

int main(int argc, char** argv) {
  using namespace idproxy::bench;
  if (argc != 6) {
    std::cerr << kUsage;
    return kExitUsage;
  }
  const auto port = [&](int at) { return static_cast<std::uint16_t>(std::atoi(argv[at])); };
  const Order order = std::string_view(argv[3]) == "ordered" ? Order::ordered : Order::unordered;
  const auto work = [&](const char* collection, NumberedBy by) {
    return InsertWork{"bench", collection, order, by, kBatch, std::atoll(argv[4]), kConnections};
  };
  try {
    InsertLoad direct(port(1), work("direct", NumberedBy::client));
    InsertLoad proxied(port(2), work("proxied", NumberedBy::proxy));
    serve(direct, proxied, std::chrono::milliseconds(std::atoi(argv[5])));
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "bench_duplicates: " << error.what() << '\n';
    return kExitBroken;
  }
}
