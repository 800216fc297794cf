#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "core_documents.hpp"
#include "idproxy/ids/number_format.hpp"
#include "idproxy/rewrite/classify.hpp"
#include "idproxy/rewrite/exchange.hpp"
#include "idproxy/rewrite/insert.hpp"
#include "instant_counter.hpp"
#include "rewrite/operation.hpp"
#include "support/machine_leases.hpp"
#include "support/request.hpp"
#include "support/rule_set.hpp"
#include "support/strategies.hpp"

/// What the core does with an insert, step by step: documents with the driver's `_id`, in a section
/// of kind 1, and a rule that gives them a UUID as `number`. The last step is all of them together.
namespace {

using namespace idproxy;
using namespace idproxy::test;

bench::SteadyClock steady_clock;

std::shared_ptr<const rewrite::RuleSet> rules() {
  rewrite::Rule number = rule("shop.orders", "number");
  number.strategy = make_strategy("uuid", {{"version", "7"}}, {steady_clock, system_random()});
  return rule_set_of(std::move(number));
}

/// Each iteration is one insert of `count` documents of `size` bytes: the benchmark's arguments.
class Insert : public benchmark::Fixture {
 public:
  void SetUp(const benchmark::State& state) override {
    const auto size = static_cast<std::size_t>(state.range(0));
    const auto count = static_cast<std::size_t>(state.range(1));
    std::vector<std::string> documents;
    for (std::size_t i = 0; i < count; ++i) {
      documents.push_back(bench::document_of(size, bench::kDriversId + more(i)));
    }
    message_ = insert_sequence(documents);
    whole_ = as_bytes(message_);
    namespaces_ = std::make_unique<rewrite::Namespaces>(rules());
    auto request = request_in(whole_, *namespaces_, rewrite::X509::allowed);
    request_ = std::get<rewrite::WriteRequest>(std::move(request).value());
  }

 protected:
  /// For the steps that follow it.
  void scan(rewrite::GivenValues& given) {
    given = {};
    const auto result = rewriter_.scan(*request_, given);
    if (result.kind != rewrite::ScanResult::Kind::assigned) throw std::logic_error("no values");
  }
  void draw(rewrite::GivenValues& given) {
    given.values.resize(1);
    if (!request_->plan->front().source->next(given.wanted[0], given.values[0])) {
      throw std::logic_error("no values");
    }
  }

  static void count(benchmark::State& state) {
    const std::int64_t documents = state.iterations() * state.range(1);
    state.SetItemsProcessed(documents);
    state.SetBytesProcessed(documents * state.range(0));
  }

  /// Further fields of the document at this position.
  [[nodiscard]] virtual std::string more(std::size_t /*index*/) const { return {}; }

  std::string message_;
  Bytes whole_;
  std::unique_ptr<rewrite::Namespaces> namespaces_;
  std::optional<rewrite::WriteRequest> request_;
  rewrite::InsertRewriter rewriter_;
};

/// No document has the fields of the one before it.
class InsertOfOthers : public Insert {
  [[nodiscard]] std::string more(std::size_t index) const override {
    return int_field("field" + std::to_string(index % 10), 1);
  }
};

BENCHMARK_DEFINE_F(Insert, copy)(benchmark::State& state) {
  Buffer received;
  for (auto _ : state) {
    received.clear();
    received.append(whole_);
    benchmark::DoNotOptimize(received.view().data());
  }
  count(state);
}

BENCHMARK_DEFINE_F(Insert, classify)(benchmark::State& state) {
  for (auto _ : state) {
    auto request = request_in(whole_, *namespaces_, rewrite::X509::allowed);
    benchmark::DoNotOptimize(request);
  }
  count(state);
}

BENCHMARK_DEFINE_F(Insert, scan)(benchmark::State& state) {
  rewrite::GivenValues given;
  for (auto _ : state) scan(given);
  count(state);
}

BENCHMARK_DEFINE_F(InsertOfOthers, scan)(benchmark::State& state) {
  rewrite::GivenValues given;
  for (auto _ : state) scan(given);
  count(state);
}

BENCHMARK_DEFINE_F(Insert, draw)(benchmark::State& state) {
  rewrite::GivenValues given;
  scan(given);
  for (auto _ : state) {
    given.values.clear();
    draw(given);
  }
  count(state);
}

BENCHMARK_DEFINE_F(Insert, emit)(benchmark::State& state) {
  rewrite::GivenValues given;
  scan(given);
  draw(given);
  wire::PatchedMessage out;
  for (auto _ : state) {
    rewrite::emit(*request_, given, rewriter_, out);
    benchmark::DoNotOptimize(out.size());
  }
  count(state);
}

BENCHMARK_DEFINE_F(Insert, all)(benchmark::State& state) {
  const rewrite::Context context{steady_clock, system_random()};
  rewrite::Workspace workspace;
  Buffer received;
  for (auto _ : state) {
    received.clear();
    received.append(whole_);
    rewrite::Exchange exchange;
    const auto action =
        begin(exchange, received.view(), &received, *namespaces_, context, workspace);
    benchmark::DoNotOptimize(&action);
    Buffer back = exchange.release(workspace);
    if (back.capacity() > 0) received = std::move(back);
    workspace.trim();
  }
  count(state);
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  for (const std::int64_t count : {1, 100}) {
    for (const std::int64_t size : {200, 512, 2048}) benchmark->Args({size, count});
  }
}
BENCHMARK_REGISTER_F(Insert, copy)->Apply(sizes);
BENCHMARK_REGISTER_F(Insert, classify)->Apply(sizes);
BENCHMARK_REGISTER_F(Insert, scan)->Apply(sizes);
BENCHMARK_REGISTER_F(InsertOfOthers, scan)->Apply(sizes);
BENCHMARK_REGISTER_F(Insert, draw)->Apply(sizes);
BENCHMARK_REGISTER_F(Insert, emit)->Apply(sizes);
BENCHMARK_REGISTER_F(Insert, all)->Apply(sizes);

/// Values of a strategy, a hundred at a time. A counter may have to wait for its next block.
void draw_from(benchmark::State& state, ids::Source& source) {
  constexpr std::size_t kCount = 100;
  ids::Values values;
  std::int64_t drawn = 0;
  for (auto _ : state) {
    values.clear();
    if (source.next(kCount, values)) drawn += static_cast<std::int64_t>(kCount);
  }
  if (drawn == 0) state.SkipWithError("no values");
  state.SetItemsProcessed(drawn);
}

void draw_of(benchmark::State& state, const char* name, const FakeParameters::Table& table) {
  draw_from(state, *make_source(name, table, {steady_clock, system_random()}));
}
BENCHMARK_CAPTURE(draw_of, uuid_7, "uuid", {{"version", "7"}});
BENCHMARK_CAPTURE(draw_of, uuid_4, "uuid", {{"version", "4"}});
BENCHMARK_CAPTURE(draw_of, objectid, "objectid", {});
BENCHMARK_CAPTURE(draw_of, ulid, "ulid", {});
BENCHMARK_CAPTURE(draw_of, nanoid, "nanoid", {});
BENCHMARK_CAPTURE(draw_of, random_digits, "random-digits", {{"digits", "12"}});

/// With so long a sequence that no draw waits for the clock.
void draw_of_snowflake(benchmark::State& state) {
  const auto rule = make_strategy("snowflake",
                                  {{"epoch", "1970-01-01T00:00:00Z"},  // the clock's
                                   {"machine.lease", "none"},
                                   {"machine.id", "0"},
                                   {"machine_bits", "0"},
                                   {"sequence_bits", "22"}},
                                  {steady_clock, system_random()});
  LeasingStore store;
  rule->announce(store);
  draw_from(state, *rule->bind("", &store).source);
}
BENCHMARK(draw_of_snowflake);

/// Numbers as values of permuted, a hundred at a time.
void hide(benchmark::State& state) {
  constexpr std::int64_t kCount = 100;
  ids::NumberFormat format;
  format.permutation = ids::SharedPermutation(std::make_shared<ids::Permutation>(
      ids::Permutation::Space{.alphabet = "0123456789", .length = 12}, "shop.orders.number",
      std::string(32, 'k')));
  ids::Values values;
  std::int64_t number = 0;
  for (auto _ : state) {
    values.clear();
    for (std::int64_t i = 0; i < kCount; ++i) ids::append_number(number++, format, values);
  }
  state.SetItemsProcessed(number);
}
BENCHMARK(hide);

/// Numbers that are in memory; two threads share the counter.
void draw_of_counter(benchmark::State& state) {
  static bench::Counter counter("10000");
  draw_from(state, *counter.source);
}
BENCHMARK(draw_of_counter)->Threads(1)->Threads(2);

}  // namespace
