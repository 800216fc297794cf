#include "id_store/range_documents.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "id_store/advice.hpp"
#include "id_store/counter_commands.hpp"
#include "id_store/number_texts.hpp"
#include "id_store/reply_reasons.hpp"
#include "idproxy/bson/elements.hpp"
#include "idproxy/id_store/stored_value.hpp"
#include "idproxy/log/log.hpp"

// Ranges: counters whose document also has their last number. Any program may use the document
// beside the proxies, and may count beyond the last number, so the server compares the two in the
// command that allocates.
namespace idproxy::id_store {
namespace {

using ids::RangeDocument;
using ids::RangeState;
using mongo::Array;
using mongo::Document;
using mongo::Reply;

// Other proxies may create the same documents at the same time.
constexpr int kMostRounds = 4;
constexpr std::size_t kMostDocuments = 1000;  // in one insert

/// Matches texts that begin like the _id of a range.
Document range_keys() {
  std::string end(ids::kRangePrefix);
  ++end.back();
  return {{"$gte", ids::kRangePrefix}, {"$lt", end}};
}

std::optional<std::int64_t> range_at(Bytes document, std::string_view path) {
  const auto key = find_path(document, path);
  const bool is_text = key && key->type == bson::Type::string;
  return is_text ? ids::range_number(key->text()) : std::nullopt;
}

/// {operator: [a, b]}
template <class A, class B>
Document expression(std::string_view what, const A& a, const B& b) {
  return {what, Array{a, b}};
}

/// True if the range stands at an integer, up to its last number. A double from 2^53 on is none.
Document has_numbers(const ids::CounterPlace& place) {
  const std::string count = "$" + place.value_field;
  const Document is_no_double = expression("$ne", Document{"$type", count}, "double");
  const Document is_integral = expression("$and", expression("$lt", count, kMostInDouble),
                                          expression("$eq", count, Document{"$trunc", count}));
  return expression("$and", expression("$lte", count, "$" + place.max_field),
                    expression("$or", is_no_double, is_integral));
}

ids::Error answer_to(RangeJob& job, const Reply& reply) {
  job.unreached = why_unreached(reply, job.client.login());
  return after_error(job.client, reply, job.spec.counter.place.db);
}

/// An allocation that matches no document: changes nothing, but needs the privilege to write, a
/// primary with a majority, and a server that understands it.
Reply write_nothing(RangeJob& job) {
  const ids::CounterPlace& place = job.spec.counter.place;
  return job.client.write(place.db,
                          allocate_from_range(place, {"_id", {"$in", Array()}}, 0, std::nullopt));
}

ids::Result<std::vector<RangeDocument>> read_documents(RangeJob& job) {
  const ids::CounterPlace& place = job.spec.counter.place;
  std::vector<RangeDocument> documents;
  const Reply reply =
      job.client.read_all(place.db,
                          {{"find", place.collection},
                           {"filter", {"_id", range_keys()}},
                           {"collation", mongo::simple_collation()}},
                          [&](Bytes document) {
                            if (const auto number = range_at(document, "_id")) {
                              documents.push_back({*number, integer_at(document, place.value_field),
                                                   integer_at(document, place.max_field)});
                            }
                            return true;
                          });
  if (!reply.ok()) return answer_to(job, reply);
  job.unreached.clear();
  return documents;
}

/// The ranges of which proxies may hold numbers.
ids::Result<std::set<std::int64_t>> read_marks(RangeJob& job) {
  const ids::CounterPlace& place = job.spec.counter.place;
  std::set<std::int64_t> marked;
  const Document filter{{"_id.collection", place.collection}, {"_id.query._id", range_keys()}};
  const Reply reply = job.client.read_all(
      place.db, {{"find", kMarks}, {"filter", filter}, {"collation", mongo::simple_collation()}},
      [&](Bytes document) {
        const auto number = range_at(document, "_id.query._id");
        if (number) marked.insert(*number);
        return true;
      });
  if (!reply.ok()) return answer_to(job, reply);
  return marked;
}

/// Ranges of which numbers are stored begin behind them. One that was lost gives no more numbers if
/// no unique index would detect that another proxy holds the same ones. `missing`: descending.
ids::Result<void> find_first_numbers(RangeJob& job, std::vector<RangeState>& missing) {
  ids::CounterSpec all = job.spec.counter;
  all.max = missing.front().last;
  const auto reading = FieldNumbers(job.client, all, job.fields).read_furthest(1);
  if (!reading) return reading.error();
  if (!reading->is_known && !reading->is_guarded)
    return advice::not_sorted(job.client, all, job.fields);
  const auto marked = read_marks(job);
  if (!marked) return marked.error();
  for (RangeState& range : missing) {
    if (marked->contains(range.number) && !reading->is_guarded) {
      range.next = range.last + 1;
      continue;
    }
    if (!reading->most() || *reading->most() < range.first) continue;
    const ids::CounterSpec one = ids::counter_of(job.spec, range);
    const auto stored = FieldNumbers(job.client, one, job.fields).read_furthest(1);
    if (!stored) return stored.error();
    if (stored->most()) range.next = std::max(range.next, *stored->most() + 1);
  }
  return {};
}

ids::Result<void> create_ranges(RangeJob& job, std::span<const RangeState> missing,
                                const std::function<bool()>& stops) {
  const ids::CounterPlace& place = job.spec.counter.place;
  for (std::size_t done = 0; done < missing.size();) {
    if (stops()) return failed("the proxy ends");
    Array documents;
    const std::size_t end = std::min(done + kMostDocuments, missing.size());
    for (; done < end; ++done) documents.push(new_range(place, missing[done]));
    const Reply reply = job.client.write(
        place.db, {{"insert", place.collection}, {"documents", documents}, {"ordered", false}});
    if (!reply.ok() && !reply.refused(ErrorCode::duplicate_key)) return answer_to(job, reply);
  }
  log::event(log::Level::info, "ranges_created",
             "documents of ranges did not exist and have been created",
             {{"collection", place.ns()},
              {"count", missing.size()},
              {"first", missing.back().first},
              {"last", missing.front().last}});
  return {};
}

}  // namespace

ids::Result<std::vector<RangeState>> RangeDocuments::read(const std::function<bool()>& stops) {
  if (const Reply written = write_nothing(job_); !written.ok()) return answer_to(job_, written);
  for (int round = 0; round < kMostRounds; ++round) {
    const auto documents = read_documents(job_);
    if (!documents) return documents.error();
    ids::RangeFindings found = ids::check_ranges(job_.spec, *documents);
    if (!found.fault.empty()) {
      return exhausted("the collection of ranges, " + job_.spec.counter.place.ns() + ", " +
                       found.fault);
    }
    if (found.missing.empty()) return std::move(found.ranges);
    if (const auto done = find_first_numbers(job_, found.missing); !done) return done.error();
    if (missing_ == Missing::assume) {
      found.ranges.insert(found.ranges.end(), found.missing.begin(), found.missing.end());
      std::ranges::sort(found.ranges, {}, &RangeState::last);
      return std::move(found.ranges);
    }
    if (const auto done = create_ranges(job_, found.missing, stops); !done) return done.error();
  }
  return failed("the ranges in " + job_.spec.counter.place.ns() +
                " are being removed all the time");
}

Document allocate_from_range(const ids::CounterPlace& place, const Document& query,
                             std::int64_t increment, std::optional<std::int64_t> from) {
  const Document stored = to_long(place.value_field);
  const Document first = from ? expression("$max", stored, *from) : stored;
  const Document behind_last = expression("$add", to_long(place.max_field), std::int64_t{1});
  const Document next = expression("$min", expression("$add", first, increment), behind_last);
  return {{"findAndModify", place.collection},
          {"query", {query, {"$expr", has_numbers(place)}}},
          {"update", Array{Document{"$set", {place.value_field, next}}}}};
}

}  // namespace idproxy::id_store
