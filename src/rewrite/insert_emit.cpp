#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <limits>

#include "idproxy/bson/builder.hpp"
#include "idproxy/rewrite/insert.hpp"
#include "rewrite/part_frame.hpp"

namespace idproxy::rewrite {
namespace {

/// An upper bound of the bytes that an assignment adds to a document.
std::size_t most_added(const Assignment& assignment, std::size_t value) {
  constexpr std::size_t kAround = 1 + 1 + 5;  // type and NUL; length and final 00 of a new document
  std::size_t size = value;
  for (const std::string& name : assignment.path) size += name.size() + kAround;
  const std::string& kept = assignment.rule->keep_driver_id;
  return size + (kept.empty() ? 0 : kept.size() + 2 + 12);
}

/// The bytes of the original before `at` have been written: says how many more they have become.
std::int64_t more_than(std::size_t at, const wire::PatchedMessage& out) {
  return static_cast<std::int64_t>(out.size()) - static_cast<std::int64_t>(at);
}

}  // namespace

/// A new element.
struct InsertRewriter::Added {
  std::string_view name;
  bson::Type type;
  Bytes value;
  [[nodiscard]] static std::size_t size(std::string_view name, Bytes value) {
    return 1 + name.size() + 1 + value.size();
  }
  [[nodiscard]] std::size_t size() const { return size(name, value); }
  std::uint8_t* write(std::uint8_t* to) const {
    *to++ = static_cast<std::uint8_t>(type);
    std::memcpy(to, name.data(), name.size());
    to += name.size();
    *to++ = 0;
    std::memcpy(to, value.data(), value.size());
    return to + value.size();
  }
};

/// Takes the next value of the first of these assignments.
inline InsertRewriter::Added InsertRewriter::next_value(std::uint32_t assignments) {
  const auto i = static_cast<std::size_t>(std::countr_zero(assignments));
  const ids::Values& values = values_[i];
  return {(*assignments_)[i].path.back(), values.type(), values[used_[i]++]};
}

std::size_t InsertRewriter::emit(const WriteRequest& insert, const GivenValues& given,
                                 std::size_t at, wire::PatchedMessage& out) {
  message_ = insert.message.message();
  values_ = given.values;
  used_.assign(insert.plan->size(), 0);
  lengths_.clear();
  std::size_t next = 0;
  for (const Record& record : records_) emit_record(record, next, at, out);
  close_lengths(std::numeric_limits<std::size_t>::max(), at, out);
  return at;
}

std::size_t InsertRewriter::expected_copies(const GivenValues& given) const {
  constexpr std::size_t kAround = 512;  // header, body and the section's head rarely need more
  std::size_t size = kAround;
  for (std::size_t i = 0; i < given.values.size(); ++i) {
    const ids::Values& values = given.values[i];
    size += values.bytes() + values.size() * most_added((*assignments_)[i], 0);
  }
  for (const Record& record : records_) {
    if (wire::PatchedMessage::copies(record.size)) size += record.size;
  }
  return size;
}

std::optional<std::size_t> InsertRewriter::emit_part(const WriteRequest& insert,
                                                     const GivenValues& given,
                                                     const WritePart& part,
                                                     wire::PatchedMessage& out) {
  begin(insert, insert.plan, 0);
  values_ = given.values;
  used_.assign(insert.plan->size(), 0);
  PartFrame frame(insert, part, out);
  Statements walk(insert.command);
  auto value = given.given.begin();
  auto wanted = part.statements.begin();
  for (std::int32_t index = 0; wanted != part.statements.end(); ++index) {
    const auto document = walk.next();
    if (!document) return std::nullopt;
    for (; value != given.given.end() && value->statement == index; ++value) {
      used_[value->assignment] = value->value;
    }
    if (*wanted != index) continue;
    ++wanted;
    if (std::ranges::binary_search(part.refused, index, {}, &RefusedDocument::index)) {
      out.add(refused_document());
    } else if (!emit_document(*document, out)) {
      return std::nullopt;
    }
    if (!frame.has_room()) break;
  }
  return frame.close();
}

bool InsertRewriter::emit_one(const WriteRequest& write, const BulkNamespace& ns,
                              const GivenValues& given, std::int32_t statement, Bytes document,
                              wire::PatchedMessage& out) {
  begin(write, ns.plan, ns.first);
  values_ = std::span(given.values).subspan(ns.first, ns.plan->size());
  used_.assign(ns.plan->size(), 0);
  for (const Given& each : given.of(statement)) used_[each.assignment - ns.first] = each.value;
  return emit_document(document, out);
}

/// Writes a document with the values at used_. Returns false if it is malformed.
bool InsertRewriter::emit_document(Bytes document, wire::PatchedMessage& out) {
  edits_.clear();
  lengths_.clear();
  std::size_t at = offset(document.data());
  const std::size_t end = at + document.size();
  Record record{static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(document.size())};
  if (!look_at(document, record)) return false;
  refusal_.reset();
  record.edits = static_cast<std::uint32_t>(edits_.size());
  std::size_t next = 0;
  emit_record(record, next, at, out);
  out.keep(at, end);
  close_lengths(end, end, out);
  return true;
}

/// Writes all up to the end of the document, from `at` on, as the record says; with edits, only as
/// far as they reach. `next`: the record's first edit.
void InsertRewriter::emit_record(const Record& record, std::size_t& next, std::size_t& at,
                                 wire::PatchedMessage& out) {
  const std::size_t end = record.at + record.size;
  if (record.missing == 0) {
    if (changes_once(record, next, at)) return emit_change(record, next, at, out);
    return emit_edits(out, next, at, end);
  }
  close_lengths(record.at, at, out);
  emit_missing(record, at, out);
  at = end;
}

/// Writes the bytes from `at` to the end of a document that gets new elements, or has a
/// sub-document that does: `_id` as the first one, others behind its own, in file order.
void InsertRewriter::emit_missing(const Record& record, std::size_t at, wire::PatchedMessage& out) {
  std::size_t grown = 0;
  for (std::uint32_t left = record.missing; left != 0; left &= left - 1) {
    const auto i = static_cast<std::size_t>(std::countr_zero(left));
    grown += Added::size((*assignments_)[i].path.back(), values_[i][used_[i]]);
  }
  const std::size_t end = record.at + record.size;
  if (!wire::PatchedMessage::copies(end - at)) return emit_slices(record, grown, at, out);
  const std::uint8_t* const from = message_.data();
  const auto size = static_cast<std::size_t>(load_i32(from + record.parent));
  const std::size_t nul = record.parent + size - 1;
  const std::uint32_t id = record.missing & plan_->front;
  std::uint8_t* const start = out.add(end - at + grown);
  std::uint8_t* to = start;
  std::size_t copied = at;
  if (id != 0) {
    copied = record.at + 4;
    if (record.at != at) std::memcpy(to, from + at, record.at - at);
    to = next_value(id).write(to + (copied - at));
  }
  std::memcpy(to, from + copied, nul - copied);
  to += nul - copied;
  store_i32(start + (record.at - at), static_cast<std::int32_t>(record.size + grown));
  store_i32(start + (record.parent - at), static_cast<std::int32_t>(size + grown));
  for (std::uint32_t left = record.missing & ~id; left != 0; left &= left - 1) {
    to = next_value(left).write(to);
  }
  *to = 0;
  if (record.parent != record.at) std::memcpy(to, from + nul, end - nul);
}

/// The same if that is too much to be copied.
void InsertRewriter::emit_slices(const Record& record, std::size_t grown, std::size_t at,
                                 wire::PatchedMessage& out) {
  const auto size = static_cast<std::size_t>(load_i32(message_.data() + record.parent));
  const std::size_t nul = record.parent + size - 1;
  const std::uint32_t id = record.missing & plan_->front;
  const auto add = [&](std::uint32_t bits) {
    const Added element = next_value(bits);
    static_cast<void>(element.write(out.add(element.size())));
  };
  out.keep(at, record.at);
  store_i32(out.add(4), static_cast<std::int32_t>(record.size + grown));
  std::size_t kept = record.at + 4;
  if (record.parent != record.at) {
    out.keep(kept, record.parent);
    store_i32(out.add(4), static_cast<std::int32_t>(size + grown));
    kept = record.parent + 4;
  }
  if (id != 0) add(id);
  out.keep(kept, nul);
  for (std::uint32_t left = record.missing & ~id; left != 0; left &= left - 1) add(left);
  out.keep(nul, record.at + record.size);
}

/// True if what is to be written, from `at` on, is to be copied with one value in it, in a document
/// that exists already. The edits then are the lengths around the value, and the value.
bool InsertRewriter::changes_once(const Record& record, std::size_t next, std::size_t at) const {
  if (!wire::PatchedMessage::copies(record.at + record.size - at)) return false;
  if (record.edits == next) return false;
  const Edit& last = edits_[record.edits - 1];
  const std::size_t depth = last.depth;
  if (!last.has_value() || record.edits - next != depth + 2) return false;
  return depth + 1 == (*assignments_)[last.assignment].path.size();
}

/// Writes all up to the end of such a document, from `at` on.
void InsertRewriter::emit_change(const Record& record, std::size_t& next, std::size_t& at,
                                 wire::PatchedMessage& out) {
  close_lengths(record.at, at, out);
  const Edit& change = edits_[record.edits - 1];
  const ids::Values& values = values_[change.assignment];
  const Added element{(*assignments_)[change.assignment].path.back(), values.type(),
                      values[used_[change.assignment]++]};
  const std::size_t end = record.at + record.size;
  const std::uint8_t* const from = message_.data();
  const std::size_t kept = change.at + change.remove;
  const auto grown =
      static_cast<std::int32_t>(element.size()) - static_cast<std::int32_t>(change.remove);
  std::uint8_t* const start = out.add(end - at - change.remove + element.size());
  std::memcpy(start, from + at, change.at - at);
  std::uint8_t* const rest = element.write(start + (change.at - at));
  std::memcpy(rest, from + kept, end - kept);
  for (; next + 1 < record.edits; ++next) {
    const std::size_t length = edits_[next].at;
    store_i32(start + (length - at), load_i32(from + length) + grown);
  }
  ++next;
  at = end;
}

/// Carries out the edits before `end`, and keeps the bytes between them, from `at` on.
void InsertRewriter::emit_edits(wire::PatchedMessage& out, std::size_t& next, std::size_t& at,
                                std::size_t end) {
  while (next < edits_.size() && edits_[next].at < end) {
    const Edit& edit = edits_[next];
    close_lengths(edit.at, at, out);
    out.keep(at, edit.at);
    at = edit.at + edit.remove;
    if (edit.kind == EditKind::length) {
      const std::int64_t more = more_than(edit.at, out);
      lengths_.push_back({out.add_i32(), load_i32(message_.data() + edit.at) - more, edit.from});
      ++next;
      continue;
    }
    std::size_t run = 1;
    if (edit.kind == EditKind::refusal) {
      out.add(refused_document());
    } else if (edit.kind == EditKind::replacement) {
      element_.clear();
      emit_value(edit, element_);
      out.add(element_.view());
    } else {
      while (next + run < edits_.size() && edits_[next + run].at == edit.at &&
             edits_[next + run].remove == 0) {
        ++run;
      }
      emit_elements({&edit, run}, out);
    }
    next += run;
  }
}

/// Writes the new elements at one position, then the kept driver ids.
void InsertRewriter::emit_elements(std::span<const Edit> edits, wire::PatchedMessage& out) {
  element_.clear();
  std::vector<const Edit*> elements;
  for (const Edit& edit : edits) {
    const Assignment& target = (*assignments_)[edit.assignment];
    if (edit.kind == EditKind::driver_id) {
      bson::append_head(element_, bson::Type::object_id, target.rule->keep_driver_id);
      element_.append(message_.subspan(edit.from, 12));
    } else if (edits.size() == 1 && edit.depth + 1U == target.path.size()) {
      emit_value(edit, element_);
    } else {
      elements.push_back(&edit);
      const bool last = &edit == &edits.back() || (&edit + 1)->kind == EditKind::driver_id;
      if (last) emit_level(elements, edit.depth, element_);
    }
  }
  out.add(element_.view());
}

/// Writes the new elements of one document. Elements whose paths go through the same document that
/// does not exist yet go into one new document. Recurses as deep as the configured paths, not as
/// the client's documents.
void InsertRewriter::emit_level(std::span<const Edit* const> edits, std::size_t depth,
                                Buffer& out) {
  const auto path = [&](const Edit* edit) -> const auto& {
    return (*assignments_)[edit->assignment].path;
  };
  for (std::size_t i = 0; i < edits.size(); ++i) {
    const std::string& name = path(edits[i])[depth];
    const auto shares = [&](const Edit* other) { return path(other)[depth] == name; };
    if (std::ranges::any_of(edits.first(i), shares)) continue;  // written with the first of them
    if (depth + 1 == path(edits[i]).size()) {
      emit_value(*edits[i], out);
      continue;
    }
    std::vector<const Edit*> below;
    std::ranges::copy_if(edits.subspan(i), std::back_inserter(below), shares);
    bson::append_head(out, bson::Type::document, name);
    bson::Scope document(out);
    emit_level(below, depth + 1, out);
    document.close();
  }
}

void InsertRewriter::emit_value(const Edit& edit, Buffer& out) {
  const ids::Values& values = values_[edit.assignment];
  bson::append_head(out, values.type(), (*assignments_)[edit.assignment].path.back());
  out.append(values[used_[edit.assignment]++]);
}

/// Fills in the lengths of what ends at `end` or before. All up to `at` has been written.
void InsertRewriter::close_lengths(std::size_t end, std::size_t at, wire::PatchedMessage& out) {
  while (!lengths_.empty() && lengths_.back().end <= end) {
    out.set_i32(lengths_.back().place, lengths_.back().value + more_than(at, out));
    lengths_.pop_back();
  }
}

}  // namespace idproxy::rewrite
