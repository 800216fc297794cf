#include <benchmark/benchmark.h>

#include <cstddef>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "core_documents.hpp"
#include "idproxy/wire/compression.hpp"

/// What compression costs the proxy for an insert of `count` documents of `size` bytes, half of
/// which are random hex digits. Relayed: the beginning is inflated. Rewritten: all is inflated and
/// deflated.
namespace {

using namespace idproxy;
using namespace idproxy::test;

std::string hex_digits(std::size_t count) {
  static std::mt19937 random(1);
  std::string digits(count, '0');
  for (char& digit : digits) digit = "0123456789abcdef"[random() % 16];
  return digits;
}

class Compressed : public benchmark::Fixture {
 public:
  void SetUp(const benchmark::State& state) override {
    compressor_ = static_cast<wire::Compressor>(state.range(0));
    const auto size = static_cast<std::size_t>(state.range(1));
    std::vector<std::string> documents;
    for (std::int64_t i = 0; i < state.range(2); ++i) {
      documents.push_back(bench::document_of(
          size, bench::kDriversId + string_field("token", hex_digits(size / 2))));
    }
    message_ = insert_sequence(documents);
    codec_.deflate(compressor_, as_bytes(message_), deflated_);
  }

 protected:
  [[nodiscard]] wire::CompressedView view() const {
    return *wire::CompressedView::read(wire::read_header(deflated_.view()), deflated_.view());
  }
  void note(benchmark::State& state) const {
    state.SetLabel(std::string(name_of(compressor_)));
    state.counters["bytes"] = static_cast<double>(message_.size());
    state.counters["compressed"] = static_cast<double>(deflated_.size());
  }

  wire::Compressor compressor_{};
  std::string message_;
  wire::Codec codec_;
  Buffer deflated_;
  Buffer out_;
};

BENCHMARK_DEFINE_F(Compressed, relayed)(benchmark::State& state) {
  const bool is_small = message_.size() <= wire::kHeaderSize + wire::Codec::kPrefix;
  for (auto _ : state) {
    const bool ok = is_small ? codec_.inflate(view(), out_)
                             : codec_.inflate_prefix(view(), out_) == wire::Codec::Prefix::there;
    if (!ok) throw std::logic_error("not inflated");
  }
  note(state);
}

BENCHMARK_DEFINE_F(Compressed, rewritten)(benchmark::State& state) {
  Buffer again;
  for (auto _ : state) {
    if (!codec_.inflate(view(), out_)) throw std::logic_error("not inflated");
    codec_.deflate(compressor_, out_.view(), again);
  }
  note(state);
}

void works(benchmark::internal::Benchmark* all) {
  all->ArgsProduct({{1, 2, 3}, {512}, {1, 100}})->ArgsProduct({{1, 2, 3}, {2048}, {1, 100, 1000}});
}
BENCHMARK_REGISTER_F(Compressed, relayed)->Apply(works)->Unit(benchmark::kMicrosecond);
BENCHMARK_REGISTER_F(Compressed, rewritten)->Apply(works)->Unit(benchmark::kMicrosecond);

}  // namespace
