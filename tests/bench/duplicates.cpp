// Measures inserts of which one document in a hundred draws a number that is taken: through
// mongo-idproxy, which draws again by itself, and straight to the same mongod from a client that
// sends the same second insert itself. Both in turn, in one run. Timing never fails a run: only a
// document that is lost, stored twice or without its own number does, and a program that ends.

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <exception>
#include <iostream>
#include <memory>
#include <optional>
#include <stdexcept>

#include "database.hpp"
#include "element_reader.hpp"
#include "insert_load.hpp"
#include "report.hpp"

namespace idproxy::bench {
namespace {

using std::chrono_literals::operator""ms;
using Seconds = std::chrono::duration<double>;

constexpr std::string_view kUsage =
    "usage: bench_duplicates --mongod PROGRAM --idproxy PROGRAM [--quick]\n"
    "--quick takes ten seconds.\n";

constexpr int kExitBroken = 1;
constexpr int kExitUsage = 64;

constexpr std::string_view kDatabase = "bench";
constexpr std::string_view kTaken = "taken";
constexpr std::size_t kBatch = 100;
constexpr std::size_t kConnections = 4;
constexpr std::int64_t kNumbers = 10'000'000;
constexpr std::int64_t kTakenNumbers = kNumbers / 100;
constexpr Limit kLimit{0.95, 1.0, Better::higher};

/// Slices are short and take turns, so that what else happens on the machine and inside mongod
/// meets both routes. Collections are made anew before their numbers fill up by what is inserted.
struct Effort {
  std::size_t collections;  ///< of each route, one after the other
  std::size_t slices;       ///< of each route into one collection
  std::chrono::milliseconds slice;
};
constexpr Effort kFullEffort{20, 6, 80ms};
constexpr Effort kQuickEffort{3, 4, 50ms};

struct Options {
  std::string mongod;
  std::string idproxy;
  Effort effort = kFullEffort;
};

std::optional<Options> parse(const std::vector<std::string>& words) {
  Options options;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--quick") {
      options.effort = kQuickEffort;
      continue;
    }
    std::string* const value = words[i] == "--mongod"    ? &options.mongod
                               : words[i] == "--idproxy" ? &options.idproxy
                                                         : nullptr;
    if (value == nullptr || ++i == words.size()) return std::nullopt;
    *value = words[i];
  }
  if (options.mongod.empty() || options.idproxy.empty()) return std::nullopt;
  return options;
}

/// What mongod has counted since it started.
struct Counts {
  std::int64_t commands = 0;  ///< inserts
  std::int64_t tried = 0;     ///< documents
  std::int64_t inserted = 0;  ///< documents
};

Counts counts_of(Database& database) {
  const std::string status = database.run_on("admin", Document().int32("serverStatus", 1));
  return {integer_at(status, "metrics.commands.insert.total"),
          integer_at(status, "opcounters.insert"), integer_at(status, "metrics.document.inserted")};
}

/// CPU time that was used so far, in seconds.
struct Used {
  double client = 0;
  double proxy = 0;
  double mongod = 0;
};

double own_cpu_time() {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
}

/// The two ways into mongod, in the order of the table's columns.
enum class Route { direct, proxied };
constexpr std::array kRoutes{Route::direct, Route::proxied};
constexpr std::array<const char*, 2> kCollections{"direct", "proxied"};

constexpr std::size_t column_of(Route route) {
  return static_cast<std::size_t>(route);
}

/// What one route did in all its slices.
struct Result {
  std::vector<double> per_second;  ///< documents, by slice
  double seconds = 0;
  Counts counts;
  Used used;
};
using Results = std::array<Result, 2>;

std::string proxy_config(std::uint16_t mongod_port) {
  return "listen: {address: 127.0.0.1, port: PORT}\n"
         "upstream: {uri: \"mongodb://127.0.0.1:" +
         std::to_string(mongod_port) +
         "/?directConnection=true\"}\n"
         "admin: {listen: null}\n"
         "threads: 1\n"
         // Connections are silent until it is their turn.
         "limits: {first_byte: 5m}\n"
         "log: {level: warning, format: json}\n"
         "rules: [{ns: bench.proxied, field: number, strategy: random-digits, digits: 7}]\n";
}

/// The pipeline behind a list of its stages.
Document pipeline(const std::vector<Document>& stages) {
  Document array;
  for (std::size_t i = 0; i < stages.size(); ++i) array.object(std::to_string(i), stages[i]);
  return array;
}

class Duplicates {
 public:
  explicit Duplicates(Options options) : options_(std::move(options)) {}
  ~Duplicates() {
    if (std::uncaught_exceptions() > 0) std::cerr << end_of(directory_ / "idproxy.log");
  }
  Duplicates(const Duplicates&) = delete;
  Duplicates& operator=(const Duplicates&) = delete;

  void run() {
    pin_process(0, {cores_.load});
    describe();
    make_collections();
    for (const Order order : {Order::unordered, Order::ordered}) {
      const Results results = measure(order);
      print_row(name_of(order), results);
      std::cerr << notes_on(name_of(order), results);
    }
    print_note(std::cout,
               "With 1 % duplicates, " + std::to_string(stored_) +
                   " documents were inserted; each is stored once, with a number of its own.");
  }

 private:
  static const char* name_of(Order order) {
    return order == Order::ordered ? "ordered" : "unordered";
  }

  void describe() {
    const std::string info = mongo_.run_on("admin", Document().int32("buildInfo", 1));
    const auto version = find(info, "version");
    std::cerr << "1 % duplicates: batches of " << kBatch << " documents, " << kConnections
              << " connections, " << kTakenNumbers << " of " << kNumbers
              << " numbers taken\nstandalone mongod "
              << (version ? version->value.substr(sizeof(std::int32_t)).data() : "?") << " on core "
              << cores_.proxy << ", client and proxy on core " << cores_.load << "; "
              << options_.effort.collections * options_.effort.slices << " slices of each in turn, "
              << options_.effort.slice.count() << " ms\n";
  }

  void make_collections() {
    const Document index = Document()
                               .object("key", Document().int32("number", 1))
                               .text("name", "number")
                               .boolean("unique", true);
    for (const char* collection : kCollections) {
      mongo_.run(Document()
                     .text("createIndexes", collection)
                     .array("indexes", Document().object("0", index)));
    }
    constexpr std::int64_t kAtOnce = 1000;
    for (std::int64_t first = 0; first < kTakenNumbers; first += kAtOnce) {
      std::string documents;
      for (std::int64_t i = first; i < first + kAtOnce; ++i) {
        documents +=
            Document().int64("_id", -1 - i).int64("number", i * (kNumbers / kTakenNumbers)).bytes();
      }
      mongo_.run(Document().text("insert", kTaken), documents);
    }
  }

  using Loads = std::array<std::unique_ptr<InsertLoad>, 2>;

  Results measure(Order order) {
    Loads loads;
    for (const Route route : kRoutes) {
      const bool direct = route == Route::direct;
      loads[column_of(route)] = std::make_unique<InsertLoad>(
          direct ? mongod_.port : idproxy_.port,
          InsertWork{std::string(kDatabase), kCollections[column_of(route)], order,
                     direct ? NumberedBy::client : NumberedBy::proxy, kBatch, kNumbers,
                     kConnections});
    }
    Results results;
    for (std::size_t round = 0; round < options_.effort.collections; ++round) {
      measure_round(loads, round, results);
    }
    return results;
  }

  /// Neither route always comes first: what was made later is measured to be slower.
  void measure_round(const Loads& loads, std::size_t round, Results& results) {
    std::array<std::uint64_t, 2> stored{};
    const std::size_t first = round % loads.size();
    for (const std::size_t column : {first, 1 - first}) {
      reset(kCollections[column]);
      stored[column] = loads[column]->run(options_.effort.slice);  // warm-up
    }
    for (std::size_t slice = 0; slice < options_.effort.slices; ++slice) {
      const std::size_t next = (first + slice) % loads.size();
      for (const std::size_t column : {next, 1 - next}) {
        stored[column] += measure_slice(*loads[column], results[column]);
      }
    }
    for (std::size_t column = 0; column < loads.size(); ++column) {
      verify(kCollections[column], static_cast<std::int64_t>(stored[column]));
      stored_ += stored[column];
    }
  }

  std::uint64_t measure_slice(InsertLoad& load, Result& result) {
    const Counts before = counts_of(mongo_);
    const Used used_before = used();
    const auto start = std::chrono::steady_clock::now();
    const std::uint64_t documents = load.run(options_.effort.slice);
    const Seconds elapsed = std::chrono::steady_clock::now() - start;
    const Used used_after = used();
    const Counts after = counts_of(mongo_);
    result.per_second.push_back(static_cast<double>(documents) / elapsed.count());
    result.seconds += elapsed.count();
    result.counts.commands += after.commands - before.commands;
    result.counts.tried += after.tried - before.tried;
    result.counts.inserted += after.inserted - before.inserted;
    result.used.client += used_after.client - used_before.client;
    result.used.proxy += used_after.proxy - used_before.proxy;
    result.used.mongod += used_after.mongod - used_before.mongod;
    return documents;
  }

  Used used() const {
    return {own_cpu_time(), Seconds(idproxy_.process.cpu_time()).count(),
            Seconds(mongod_.process.cpu_time()).count()};
  }

  /// Nothing but the taken numbers; $out leaves the indexes as they are.
  void reset(const char* collection) {
    mongo_.run(Document()
                   .text("aggregate", kTaken)
                   .array("pipeline", pipeline({Document().text("$out", collection)}))
                   .object("cursor", {}));
  }

  /// Ours have keys from 0 on, which repeat in no round: as many of them as were answered for means
  /// that each is there once. All numbers being there, as int64, and different says the rest.
  void verify(const char* collection, std::int64_t stored) {
    const Document ours = Document().object("_id", Document().int32("$gte", 0));
    const Document with_number = Document().object("number", Document().text("$type", "long"));
    const Document by_number = Document().text("_id", "$number");
    const std::int64_t found = count(collection, {Document().object("$match", ours)});
    const std::int64_t numbers = count(collection, {Document().object("$match", with_number),
                                                    Document().object("$group", by_number)});
    if (found == stored && numbers == stored + kTakenNumbers) return;
    throw std::runtime_error(std::to_string(stored) + " documents were answered for, " +
                             std::to_string(found) + " are stored, with " +
                             std::to_string(numbers - kTakenNumbers) + " different numbers");
  }

  std::int64_t count(const char* collection, std::vector<Document> stages) {
    stages.push_back(Document().text("$count", "n"));
    const std::string reply = mongo_.run(Document()
                                             .text("aggregate", collection)
                                             .array("pipeline", pipeline(stages))
                                             .object("cursor", {}));
    return integer_at(reply, "cursor.firstBatch.0.n");
  }

  static void print_row(const char* name, const Results& results) {
    print(std::cout, {"1 % duplicates, documents a second",
                      std::string("inserts of 100, ") + name,
                      "1/s",
                      {{"direct", results[0].per_second}, {"idproxy", results[1].per_second}},
                      "idproxy",
                      "direct",
                      kLimit});
  }

  static std::string notes_on(const char* name, const Results& results) {
    std::string notes;
    for (const Route route : kRoutes) {
      const Result& result = results[column_of(route)];
      const Counts& counts = result.counts;
      const auto tried = static_cast<double>(counts.tried);
      const double refused = tried - static_cast<double>(counts.inserted);
      const double batches = static_cast<double>(counts.inserted) / kBatch;
      const auto percent = [&](double used) { return 100 * used / result.seconds; };
      std::array<char, 200> text{};
      std::snprintf(text.data(), text.size(),
                    "  %-10s %-10s %.2f inserts per batch, %.2f %% refused; client %2.0f %%, proxy "
                    "%2.0f %%, mongod %3.0f %%\n",
                    name, kCollections[column_of(route)],
                    static_cast<double>(counts.commands) / batches, 100 * refused / tried,
                    percent(result.used.client), percent(result.used.proxy),
                    percent(result.used.mongod));
      notes += text.data();
    }
    return notes;
  }

  Options options_;
  Cores cores_ = choose_cores();
  TemporaryDirectory directory_;
  Server mongod_ = start_mongod(options_.mongod, directory_, cores_.proxy);
  Server idproxy_ =
      start_idproxy(options_.idproxy, proxy_config(mongod_.port), directory_, cores_.load);
  Database mongo_{mongod_.port, std::string(kDatabase)};
  std::uint64_t stored_ = 0;
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
    Duplicates(*options).run();
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "bench_duplicates: " << error.what() << '\n';
    return kExitBroken;
  }
}
