#include "id_store/range_documents.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "id_store/advice.hpp"
#include "id_store/counter_commands.hpp"
#include "id_store/field_numbers.hpp"
#include "id_store/reply_reasons.hpp"
#include "idproxy/bson/elements.hpp"
#include "idproxy/id_store/stored_value.hpp"
#include "idproxy/observability/log.hpp"

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
  return Document().add("$gte", ids::kRangePrefix).add("$lt", end);
}

std::optional<std::int64_t> integer_at(Bytes document, std::string_view field) {
  const StoredValue value = stored_value(document, field);
  return value.is_number() ? std::optional(value.number) : std::nullopt;
}

std::optional<std::int64_t> number_at(Bytes document, std::string_view path) {
  const auto key = find_path(document, path);
  const bool is_text = key && key->type == bson::Type::string;
  return is_text ? ids::range_number(key->text()) : std::nullopt;
}

}  // namespace

Outcome<std::vector<RangeState>> RangeDocuments::look(const std::function<bool()>& stops) {
  if (const Reply written = write_nothing(); !written.ok()) return answer_to(written);
  for (int round = 0; round < kMostRounds; ++round) {
    const auto documents = read();
    if (!documents) return documents.error();
    ids::RangeFindings found = ids::check_ranges(spec_, *documents);
    if (!found.fault.empty()) {
      return exhausted("the collection of ranges, " + spec_.counter.place.ns() + ", " +
                       found.fault);
    }
    if (found.missing.empty()) return std::move(found.ranges);
    if (const auto done = find_first_numbers(found.missing); !done) return done.error();
    if (missing_ == Missing::assume) {
      found.ranges.insert(found.ranges.end(), found.missing.begin(), found.missing.end());
      std::ranges::sort(found.ranges, {}, &RangeState::last);
      return std::move(found.ranges);
    }
    if (const auto done = create(found.missing, stops); !done) return done.error();
  }
  return failed("the ranges in " + spec_.counter.place.ns() + " are being removed all the time");
}

/// An allocation that matches no document: changes nothing, but needs the privilege to write, a
/// primary with a majority, and a server that understands it.
Reply RangeDocuments::write_nothing() {
  const ids::CounterPlace& place = spec_.counter.place;
  const Document nobody = Document().add("_id", Document().add("$in", Array()));
  return client_.write(place.db, allocate_from_range(place, nobody, 0, std::nullopt));
}

Outcome<std::vector<RangeDocument>> RangeDocuments::read() {
  const ids::CounterPlace& place = spec_.counter.place;
  std::vector<RangeDocument> documents;
  const Reply reply = client_.read_all(
      place.db,
      Document().add("find", place.collection).add("filter", Document().add("_id", range_keys())),
      [&](Bytes document) {
        if (const auto number = number_at(document, "_id")) {
          documents.push_back({*number, integer_at(document, place.value_field),
                               integer_at(document, place.max_field)});
        }
        return true;
      });
  if (!reply.ok()) return answer_to(reply);
  unreached_.clear();
  return documents;
}

/// The ranges of which proxies may hold numbers.
Outcome<std::set<std::int64_t>> RangeDocuments::read_marks() {
  const ids::CounterPlace& place = spec_.counter.place;
  std::set<std::int64_t> marked;
  const Document filter =
      Document().add("_id.collection", place.collection).add("_id.query._id", range_keys());
  const Reply reply = client_.read_all(
      place.db, Document().add("find", kMarks).add("filter", filter), [&](Bytes document) {
        const auto number = number_at(document, "_id.query._id");
        if (number) marked.insert(*number);
        return true;
      });
  if (!reply.ok()) return answer_to(reply);
  return marked;
}

/// Ranges of which numbers are stored begin behind them. One that was lost gives no more numbers if
/// no unique index would detect that another proxy holds the same ones. `missing`: descending.
Outcome<void> RangeDocuments::find_first_numbers(std::vector<RangeState>& missing) {
  ids::CounterSpec all = spec_.counter;
  all.max = missing.front().last;
  const auto look = FieldNumbers(client_, all, fields_).look(1);
  if (!look) return look.error();
  if (!look->is_known && !look->is_guarded) return advice::not_sorted(client_, all, fields_);
  const auto marked = read_marks();
  if (!marked) return marked.error();
  for (RangeState& range : missing) {
    if (marked->contains(range.number) && !look->is_guarded) {
      range.next = range.last + 1;
      continue;
    }
    if (!look->most() || *look->most() < range.first) continue;
    const ids::CounterSpec one = ids::counter_of(spec_, range);
    const auto stored = FieldNumbers(client_, one, fields_).look(1);
    if (!stored) return stored.error();
    if (stored->most()) range.next = std::max(range.next, *stored->most() + 1);
  }
  return {};
}

Outcome<void> RangeDocuments::create(std::span<const RangeState> missing,
                                     const std::function<bool()>& stops) {
  const ids::CounterPlace& place = spec_.counter.place;
  for (std::size_t done = 0; done < missing.size();) {
    if (stops()) return failed("the proxy ends");
    Array documents;
    const std::size_t end = std::min(done + kMostDocuments, missing.size());
    for (; done < end; ++done) documents.push(new_range(place, missing[done]));
    const Reply reply = client_.write(place.db, Document()
                                                    .add("insert", place.collection)
                                                    .add("documents", documents)
                                                    .add("ordered", false));
    if (!reply.ok() && !reply.refused(mongo::kDuplicateKey)) return answer_to(reply);
  }
  log::event(log::Level::info, "ranges_created",
             "documents of ranges did not exist and have been created",
             {{"collection", place.ns()},
              {"count", missing.size()},
              {"first", missing.back().first},
              {"last", missing.front().last}});
  return {};
}

ids::CounterReply RangeDocuments::answer_to(const Reply& reply) {
  unreached_ = why_unreached(reply, client_.login());
  return after_error(client_, reply, spec_.counter.place.db);
}

}  // namespace idproxy::id_store
