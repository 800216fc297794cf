#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "clock_ahead.hpp"
#include "database.hpp"
#include "id_store/counter_document.hpp"

namespace idproxy::id_store::test {

using ids::CounterField;
using ids::CounterJob;
using ids::CounterPlace;
using ids::CounterReply;
using ids::CounterSpec;
using ids::NumberFormat;
using ids::Range;
using Kind = CounterReply::Kind;

/// One counter, {_id: "c", V} in collection "counters", that fills `number` of collection "orders".
class CounterTest : public testing::Test {
 protected:
  CounterTest() {
    spec.place = {
        database.name(), "counters", "_id", "c", "V", CounterPlace::ValueIs::next, "", ""};
    spec.block.size = 100;
    fields = {{database.name() + ".orders", "number", {}}};
  }

  CounterReply run(const CounterJob& job) {
    if (!document) document.emplace(spec, metrics, scans);
    mongo::Client client = pool().client(&metrics.round_trips);
    return document->run(client, job, fields);
  }
  /// As inserts that wait: until the collection has been read.
  CounterReply allocate_patiently(std::uint64_t count) {
    CounterReply reply = allocate(count);
    (void)comes_true([&] {
      if (reply.kind != Kind::pending) return true;
      reply = allocate(count);
      return false;
    });
    return reply;
  }
  CounterReply allocate(std::uint64_t count, std::optional<std::int64_t> beyond = {}) {
    return run({CounterJob::Kind::allocate, count, beyond, false, {}});
  }
  CounterReply heal(std::uint64_t count, std::optional<std::int64_t> beyond = {},
                    bool lost = false) {
    return run({CounterJob::Kind::heal, count, beyond, lost, {}});
  }
  /// The process holds these numbers; the last that it got is `beyond`.
  CounterReply heal(std::vector<Range> held, std::int64_t beyond) {
    return run({CounterJob::Kind::heal, 10, beyond, false, {}, std::move(held)});
  }
  static CounterReply kept(std::vector<Range> taken) {
    return {Kind::kept, {}, {}, std::move(taken)};
  }
  CounterReply give_back(Range unused) {
    return run({CounterJob::Kind::give_back, unused.count, {}, false, unused});
  }
  CounterReply confirm() { return run({CounterJob::Kind::confirm, 0, {}, false, {}}); }
  static CounterReply allocated(std::int64_t first, std::uint64_t count) {
    return {Kind::allocated, {first, count}};
  }

  void counter(const std::string& value) {
    database.insert("counters", R"({"_id": "c", "V": )" + value + "}");
  }
  void orders(std::initializer_list<std::int64_t> numbers) {
    for (const std::int64_t number : numbers) {
      database.insert("orders", Document().add("number", number));
    }
  }
  void unique_index() { database.create_index("orders", "number", Database::Unique::yes); }
  void plain_index() { database.create_index("orders", "number", Database::Unique::no); }
  std::int64_t value() { return database.value("counters", "V").number; }

  /// The mark that numbers of the counter have been given out, and nothing else.
  void mark() {
    database.insert("idproxyCounterMarks",
                    R"({"_id": {"collection": "counters", "query": {"_id": "c"}}, "used": true})");
  }

  ClockAhead clock;
  Database database;
  // Of which none is so small that it is read at once.
  CollectionScans scans{
      uri(), database.name(), pool(), clock, scheduler, CollectionScans::Enabled::yes, 0};
  std::optional<CollectionScans> others;
  CounterSpec spec;
  std::vector<CounterField> fields;
  StoreMetrics metrics;
  std::optional<CounterDocument> document;
  Scheduler scheduler{clock};  // whose threads use the scans
};

}  // namespace idproxy::id_store::test

namespace idproxy::ids {
inline bool operator==(const CounterReply& a, const CounterReply& b) {
  return a.kind == b.kind && a.range == b.range && a.why.reason == b.why.reason &&
         a.taken == b.taken;
}
inline void PrintTo(const CounterReply& reply, std::ostream* out) {
  *out << "kind " << static_cast<int>(reply.kind) << ", " << reply.range.count << " from "
       << reply.range.first << ", '" << reply.why.reason << "'";
  for (const Range& taken : reply.taken) *out << ", " << taken.count << " from " << taken.first;
}
}  // namespace idproxy::ids
