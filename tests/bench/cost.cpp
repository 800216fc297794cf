// Inserts into a replica set by libmongoc, in ways that take turns: directly, directly with a
// number that the application takes from a counter of its own, and through mongo-idproxy, which
// puts in a number or a UUID; or, for numbers without gaps: directly, directly with the highest
// number stored + 1, and through mongo-idproxy. cost.py starts the servers, runs this and makes a
// table of what it prints: a line for each slice of time, with these fields between tabs:
//
//   round  way  clients  documents per insert  documents stored  seconds  median latency in us
//
// Round 0 opens the connections, makes the collections and has the proxy look at them.

#include <mongoc/mongoc.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <future>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace idproxy::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Microseconds = std::chrono::duration<double, std::micro>;
using Seconds = std::chrono::duration<double>;

constexpr std::string_view kUsage =
    "usage: bench_cost DIRECT_URI PROXY_URI ROUNDS SLICE_MS [gapless]\n"
    "The database `cost` must have {_id: \"orders\", last: <int64>} in `counters`.\n";

constexpr std::uint32_t kDuplicateKey = 11000;

constexpr int kExitBroken = 1;
constexpr int kExitUsage = 64;

constexpr const char* kDatabase = "cost";
constexpr std::array<std::size_t, 2> kClients{1, 8};
constexpr std::array<std::size_t, 2> kDocuments{1, 100};

template <typename T, void (*destroy)(T*)>
struct Destroy {
  void operator()(T* object) const { destroy(object); }
};
template <typename T, void (*destroy)(T*)>
using Owned = std::unique_ptr<T, Destroy<T, destroy>>;

using Bulk = Owned<mongoc_bulk_operation_t, mongoc_bulk_operation_destroy>;
using Collection = Owned<mongoc_collection_t, mongoc_collection_destroy>;
using Cursor = Owned<mongoc_cursor_t, mongoc_cursor_destroy>;
using FindAndModify = Owned<mongoc_find_and_modify_opts_t, mongoc_find_and_modify_opts_destroy>;
using Uri = Owned<mongoc_uri_t, mongoc_uri_destroy>;

/// Owns one; a unique_ptr would lose its alignment, of which GCC warns.
class Bson {
 public:
  explicit Bson(bson_t* bson) : bson_(bson) {}
  ~Bson() { bson_destroy(bson_); }
  Bson(const Bson&) = delete;
  Bson& operator=(const Bson&) = delete;

  [[nodiscard]] bson_t* get() const { return bson_; }

 private:
  bson_t* bson_;
};

/// Of libmongoc, as long as it lives.
struct Library {
  Library() { mongoc_init(); }
  ~Library() { mongoc_cleanup(); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
};

/// Clients of one pool, whose threads watch the servers as those of other drivers do.
class Pool {
 public:
  explicit Pool(const char* uri) : uri_(mongoc_uri_new(uri)) {
    if (!uri_) throw std::runtime_error("malformed URI: " + std::string(uri));
    pool_.reset(mongoc_client_pool_new(uri_.get()));
    for (auto& client : clients_) client = mongoc_client_pool_pop(pool_.get());
  }
  ~Pool() {
    for (auto* client : clients_) mongoc_client_pool_push(pool_.get(), client);
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  /// A client's own collection; only one thread at a time may use those of one client.
  [[nodiscard]] Collection collection(std::size_t client, const char* name) const {
    return Collection(mongoc_client_get_collection(clients_.at(client), kDatabase, name));
  }

 private:
  Uri uri_;
  Owned<mongoc_client_pool_t, mongoc_client_pool_destroy> pool_;
  std::array<mongoc_client_t*, kClients.back()> clients_{};
};

[[noreturn]] void fail(const std::string& what, const bson_error_t& error) {
  throw std::runtime_error(what + ": " + std::string(error.message));
}

/// The first of `count` numbers: what an application does that numbers its documents itself.
std::int64_t take_numbers(mongoc_collection_t* counters, std::size_t count) {
  const auto taken = static_cast<std::int64_t>(count);
  const Bson query(BCON_NEW("_id", "orders"));
  const Bson update(BCON_NEW("$inc", "{", "last", BCON_INT64(taken), "}"));
  const FindAndModify options(mongoc_find_and_modify_opts_new());
  mongoc_find_and_modify_opts_set_update(options.get(), update.get());
  mongoc_find_and_modify_opts_set_flags(options.get(), MONGOC_FIND_AND_MODIFY_RETURN_NEW);
  bson_t reply;
  bson_error_t error{};
  const bool ok = mongoc_collection_find_and_modify_with_opts(counters, query.get(), options.get(),
                                                              &reply, &error);
  bson_iter_t top;
  bson_iter_t last;
  const bool found =
      ok && bson_iter_init(&top, &reply) && bson_iter_find_descendant(&top, "value.last", &last);
  const std::int64_t value = found ? bson_iter_as_int64(&last) : 0;
  bson_destroy(&reply);
  if (!found) fail("findAndModify", error);
  return value - taken + 1;
}

/// The highest _id, which is a number; 0: there is none.
std::int64_t highest_number(mongoc_collection_t* collection) {
  const Bson all(bson_new());
  const Bson options(BCON_NEW("sort", "{", "_id", BCON_INT32(-1), "}", "limit", BCON_INT64(1)));
  const Cursor cursor(
      mongoc_collection_find_with_opts(collection, all.get(), options.get(), nullptr));
  const bson_t* found = nullptr;
  bson_iter_t id;
  const bool any =
      mongoc_cursor_next(cursor.get(), &found) && bson_iter_init_find(&id, found, "_id");
  bson_error_t error{};
  if (mongoc_cursor_error(cursor.get(), &error)) fail("find", error);
  return any ? bson_iter_as_int64(&id) : 0;
}

/// Ten fields, some 200 bytes.
void append_order(bson_t* document) {
  BSON_APPEND_UTF8(document, "customer", "4f9a3c51-0d7e-4f0b-9a55-5a1f0c6e7d21");
  BSON_APPEND_UTF8(document, "item", "tea pot, 1.2 l, white");
  BSON_APPEND_INT32(document, "quantity", 2);
  BSON_APPEND_DOUBLE(document, "price", 24.9);
  BSON_APPEND_UTF8(document, "currency", "EUR");
  BSON_APPEND_UTF8(document, "status", "paid");
  BSON_APPEND_BOOL(document, "gift", false);
  BSON_APPEND_INT64(document, "warehouse", 7);
  BSON_APPEND_DATE_TIME(document, "at", 1'767'225'600'000);
  BSON_APPEND_UTF8(document, "note", "leave it with the neighbour");
}

/// How documents get their _id.
struct Way {
  const char* name;  ///< of the collection, too
  enum class Route { direct, proxy } route;
  enum class Numbers { of_others, of_application, behind_the_highest } numbers;
};
constexpr std::array kWays{
    Way{"direct", Way::Route::direct, Way::Numbers::of_others},  // the driver's ObjectId
    Way{"application", Way::Route::direct, Way::Numbers::of_application},
    Way{"counter", Way::Route::proxy, Way::Numbers::of_others},
    Way{"counter_10000", Way::Route::proxy, Way::Numbers::of_others},
    Way{"uuid", Way::Route::proxy, Way::Numbers::of_others},
};
constexpr std::array kWaysWithoutGaps{
    Way{"direct", Way::Route::direct, Way::Numbers::of_others},
    Way{"highest_and_1", Way::Route::direct, Way::Numbers::behind_the_highest},
    Way{"gapless", Way::Route::proxy, Way::Numbers::of_others},
};

struct Work {
  Way way;
  std::size_t documents;  ///< of one insert
  std::size_t clients;
};

/// One client's part of a work.
class Inserter {
 public:
  Inserter(const Pool& pool, std::size_t client, const Work& work)
      : work_(work),
        collection_(pool.collection(client, work.way.name)),
        counters_(pool.collection(client, "counters")) {}

  /// All that the application does to have its documents stored; the driver adds what has no _id.
  void insert() const {
    std::optional<std::int64_t> first;
    if (work_.way.numbers == Way::Numbers::of_application) {
      first = take_numbers(counters_.get(), work_.documents);
    }
    std::size_t stored = 0;
    while (stored < work_.documents) {
      if (work_.way.numbers == Way::Numbers::behind_the_highest) {
        first = highest_number(collection_.get()) + 1;
      }
      stored += insert(work_.documents - stored, first);
    }
  }

  /// Latencies of the inserts that begin before `end`; at least one does.
  [[nodiscard]] std::vector<double> insert_until(Clock::time_point end) const {
    std::vector<double> latencies;
    auto begun = Clock::now();
    do {
      insert();
      const auto done = Clock::now();
      latencies.push_back(Microseconds(done - begun).count());
      begun = done;
    } while (begun < end);
    return latencies;
  }

 private:
  /// Returns how many are stored: the others are not since their numbers are taken.
  [[nodiscard]] std::size_t insert(std::size_t count, std::optional<std::int64_t> first) const {
    const Bulk bulk(mongoc_collection_create_bulk_operation_with_opts(collection_.get(), nullptr));
    bson_error_t error{};
    for (std::size_t i = 0; i < count; ++i) {
      const Bson document(bson_new());
      if (first) {
        BSON_APPEND_INT64(document.get(), "_id", *first + static_cast<std::int64_t>(i));
      }
      append_order(document.get());
      if (!mongoc_bulk_operation_insert_with_opts(bulk.get(), document.get(), nullptr, &error)) {
        fail(work_.way.name, error);
      }
    }
    bson_t reply;
    const bool done = mongoc_bulk_operation_execute(bulk.get(), &reply, &error) != 0;
    bson_iter_t inserted;
    const bool known = bson_iter_init_find(&inserted, &reply, "nInserted");
    const std::int64_t stored = known ? bson_iter_as_int64(&inserted) : 0;
    bson_destroy(&reply);
    const bool may_be_taken = work_.way.numbers == Way::Numbers::behind_the_highest;
    if (!done && !(may_be_taken && error.code == kDuplicateKey)) fail(work_.way.name, error);
    return static_cast<std::size_t>(stored);
  }

  Work work_;
  Collection collection_;
  Collection counters_;
};

/// Both routes to the set, and the slices of time in which they are used in turn.
class Bench {
 public:
  Bench(const char* direct, const char* proxy, std::chrono::milliseconds slice,
        std::span<const Way> ways)
      : direct_(direct), proxy_(proxy), slice_(slice), ways_(ways.begin(), ways.end()) {}

  void run(int rounds) const {
    for (const Way& way : ways_) print(0, {way, kDocuments.front(), kClients.back()});
    for (int number = 1; number <= rounds; ++number) round(number);
  }

 private:
  struct Slice {
    double seconds = 0;
    std::vector<double> latencies;  ///< in us, of inserts
  };

  void round(int number) const {
    for (const std::size_t clients : kClients) {
      for (const std::size_t documents : kDocuments) {
        // Back and forth, so that no way always comes right after the same one.
        auto ways = ways_;
        if (number % 2 != 0) std::reverse(ways.begin(), ways.end());
        for (const Way& way : ways) print(number, {way, documents, clients});
      }
    }
  }

  [[nodiscard]] Slice slice_of(const Work& work) const {
    const Pool& pool = work.way.route == Way::Route::proxy ? proxy_ : direct_;
    const auto begun = Clock::now();
    std::vector<std::future<std::vector<double>>> running;
    running.reserve(work.clients);
    for (std::size_t client = 0; client < work.clients; ++client) {
      running.push_back(
          std::async(std::launch::async, [&pool, &work, client, end = begun + slice_] {
            return Inserter(pool, client, work).insert_until(end);
          }));
    }
    Slice slice;
    for (auto& each : running) {
      const auto latencies = each.get();
      slice.latencies.insert(slice.latencies.end(), latencies.begin(), latencies.end());
    }
    slice.seconds = Seconds(Clock::now() - begun).count();
    return slice;
  }

  void print(int number, const Work& work) const {
    Slice slice = slice_of(work);
    const auto middle = slice.latencies.begin() + std::ssize(slice.latencies) / 2;
    std::nth_element(slice.latencies.begin(), middle, slice.latencies.end());
    std::cout << number << '\t' << work.way.name << '\t' << work.clients << '\t' << work.documents
              << '\t' << slice.latencies.size() * work.documents << '\t' << slice.seconds << '\t'
              << *middle << '\n';
  }

  Pool direct_;
  Pool proxy_;
  std::chrono::milliseconds slice_;
  std::vector<Way> ways_;
};

}  // namespace
}  // namespace idproxy::bench

int main(int argc, char** argv) {
  using namespace idproxy::bench;
  const bool gapless = argc == 6 && std::string_view(argv[5]) == "gapless";
  const bool complete = argc == 5 || gapless;
  const int rounds = complete ? std::atoi(argv[3]) : 0;
  const int slice_ms = complete ? std::atoi(argv[4]) : 0;
  if (rounds < 1 || slice_ms < 1) {
    std::cerr << kUsage;
    return kExitUsage;
  }
  try {
    const Library library;
    const std::span<const Way> ways =
        gapless ? std::span<const Way>(kWaysWithoutGaps) : std::span<const Way>(kWays);
    Bench(argv[1], argv[2], std::chrono::milliseconds(slice_ms), ways).run(rounds);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "bench_cost: " << error.what() << '\n';
    return kExitBroken;
  }
}
