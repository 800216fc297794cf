#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core_documents.hpp"
#include "idproxy/rewrite/exchange.hpp"
#include "support/fake_clock.hpp"
#include "support/messages.hpp"
#include "support/request.hpp"
#include "support/rule_set.hpp"
#include "support/scripted_random.hpp"

/// What the core does with an insert, from the whole message to the patched one: time per document,
/// and bytes of documents per second. Without sockets.
///
///   bench_insert --benchmark_filter='number/512'
namespace {

using namespace idproxy;
using namespace idproxy::test;
using bench::document_of;
using bench::kDriversId;
using rewrite::Assign;
using rewrite::Rule;

struct Work {
  const char* name;
  std::vector<Rule> (*rules)();
  bool has_id = false;  // the driver's
  std::string more{};   // further fields that documents have already
};

std::vector<Rule> only_id() {
  std::vector<Rule> rules;
  rules.push_back(rule("shop.orders", "_id"));
  return rules;
}
std::vector<Rule> only_number() {
  std::vector<Rule> rules;
  rules.push_back(rule("shop.orders", "number"));
  return rules;
}
std::vector<Rule> both() {
  std::vector<Rule> rules = only_id();
  rules.push_back(rule("shop.orders", "number"));
  return rules;
}
std::vector<Rule> dotted() {
  std::vector<Rule> rules;
  rules.push_back(rule("shop.orders", "address.number"));
  return rules;
}
std::vector<Rule> driver() {
  std::vector<Rule> rules;
  rules.push_back(rule("shop.orders", "_id", Assign::always));
  return rules;
}

void insert(benchmark::State& state, const Work& work, bool in_array) {
  const auto size = static_cast<std::size_t>(state.range(0));
  const auto count = static_cast<std::size_t>(state.range(1));
  const auto rules = std::make_shared<const rewrite::RuleSet>(work.rules(), "idproxy");
  rewrite::Namespaces namespaces(rules);
  FakeClock clock;
  ScriptedRandom random;
  const rewrite::Context context{clock, random};
  rewrite::Workspace workspace;
  const std::vector<std::string> documents(
      count, document_of(size, (work.has_id ? kDriversId : std::string()) + work.more));
  const std::string message = in_array ? insert_array(documents) : insert_sequence(documents);
  Buffer received;
  for (auto _ : state) {
    // As in the proxy, the exchange may take the buffer that the message was received into, and
    // gives it back. The copy stands for the kernel's.
    received.clear();
    received.append(as_bytes(message));
    rewrite::Exchange exchange;
    const Bytes view = received.view();
    const auto action = begin(exchange, view, &received, namespaces, context, workspace);
    benchmark::DoNotOptimize(&action);
    Buffer back = exchange.release(workspace);
    if (back.capacity() > 0) received = std::move(back);
    workspace.trim();
  }
  const auto done = state.iterations() * static_cast<std::int64_t>(count);
  state.SetItemsProcessed(done);
  state.SetBytesProcessed(done * static_cast<std::int64_t>(documents.front().size()));
}

}  // namespace

int main(int argc, char** argv) {
  static const std::string kNumber = long_field("number", 7);
  static const Work works[] = {
      {"id", only_id},          {"number", only_number, true},
      {"both", both},           {"nothing to do", both, true, kNumber},
      {"dotted", dotted, true}, {"replaced", driver, true},
  };
  for (const Work& work : works) {
    for (const bool in_array : {false, true}) {
      const std::string name = std::string(work.name) + (in_array ? "/array" : "/sequence");
      auto* made = benchmark::RegisterBenchmark(
          name.c_str(),
          [&work, in_array](benchmark::State& state) { insert(state, work, in_array); });
      for (const std::int64_t size : {200, 512, 2048}) {
        for (const std::int64_t count : {1, 100, 1000}) made->Args({size, count});
      }
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
