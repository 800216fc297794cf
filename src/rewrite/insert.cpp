#include "idproxy/rewrite/insert.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <limits>
#include <utility>

#include "idproxy/bson/builder.hpp"

namespace idproxy::rewrite {
namespace {

constexpr std::size_t kMaxBatch = 100'000;  // maxWriteBatchSize
constexpr std::string_view kDocuments = "documents";
// Larger ones are worth a slice of their own instead of a copy.
constexpr std::size_t kPlainDocument = 1024;
// Of an `_id` element: its type byte, to be filled in, and its name.
constexpr std::string_view kIdHead("\0_id\0", 5);

bool is_index(std::string_view key, std::size_t number) {
  std::array<char, 20> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number).ptr;
  return key == std::string_view(text.data(), end);
}

/// False if no document of the list has an element `_id`, at any depth. It would stand behind its
/// type byte, and no type is a printable character: "customer_id" is not mistaken for it. True says
/// only that the bytes of one may be there, perhaps in a string.
bool may_hold_id(Bytes documents) {
  const auto is_id = [](const std::uint8_t* p) {
    return std::memcmp(p, "_id", 4) == 0 && (p[-1] < 0x20 || p[-1] >= 0x7f);
  };
  // Blocks, whose inner loop the compiler turns into vector instructions.
  constexpr std::ptrdiff_t kBlock = 256;
  const std::uint8_t* p = documents.data() + 1;
  const std::uint8_t* const end = documents.data() + documents.size();
  for (; end - p >= kBlock + 4; p += kBlock) {
    std::uint8_t hit = 0;
    for (std::ptrdiff_t i = 0; i < kBlock; ++i) {
      hit |= static_cast<std::uint8_t>((p[i] == '_') & (p[i + 1] == 'i'));
    }
    for (std::ptrdiff_t i = 0; hit != 0 && i < kBlock; ++i) {
      if (is_id(p + i)) return true;
    }
  }
  for (; end - p >= 4; ++p) {
    if (is_id(p)) return true;
  }
  return false;
}

std::uint32_t narrow(std::size_t offset) {
  return static_cast<std::uint32_t>(offset);
}

std::string_view type_name(bson::Type type) {
  switch (type) {
    case bson::Type::array:
      return "array";
    case bson::Type::string:
      return "string";
    case bson::Type::null:
      return "null";
    case bson::Type::object_id:
      return "objectId";
    case bson::Type::boolean:
      return "bool";
    case bson::Type::date:
      return "date";
    case bson::Type::binary:
      return "binData";
    case bson::Type::number_double:
    case bson::Type::int32:
    case bson::Type::int64:
    case bson::Type::decimal128:
      return "number";
    default:
      return "scalar";
  }
}

}  // namespace

std::optional<InsertCommand> InsertCommand::read(const wire::OpMsgView& insert) {
  InsertCommand command;
  std::size_t inserts = 0;
  std::size_t dbs = 0;
  std::size_t arrays = 0;
  bson::Elements fields(insert.body());
  while (const auto field = fields.next()) {
    if (field->key == "insert") {
      // mongod takes the deprecated symbol type too.
      if (field->type != bson::Type::string && field->type != bson::Type::symbol) return {};
      command.collection = field->text();
      ++inserts;
    } else if (field->key == "$db") {
      if (field->type != bson::Type::string) return {};
      command.db = field->text();
      ++dbs;
    } else if (field->key == kDocuments) {
      if (field->type != bson::Type::array) return {};
      command.documents = field->value;
      command.array_element = {field->begin, field->end()};
      ++arrays;
    } else if (field->key == "stmtIds" && field->type == bson::Type::array) {
      command.stmt_ids = field->value;
    }
  }
  if (fields.malformed() || inserts != 1 || dbs != 1 || arrays > 1) return {};
  if (arrays + insert.sequence_count() != 1) return {};
  if (arrays == 1) return command;
  command.sequence = insert.sequence(kDocuments);
  if (command.sequence == nullptr) return {};
  command.documents = command.sequence->documents;
  return command;
}

bool InsertCommand::repeats_stmt_id() const {
  if (stmt_ids.empty()) return false;
  std::vector<std::int64_t> numbers;
  bson::Elements elements(stmt_ids);
  while (const auto element = elements.next()) {
    // mongod refuses all but int32.
    if (element->type == bson::Type::int32) numbers.push_back(load_i32(element->value.data()));
  }
  std::ranges::sort(numbers);
  return std::ranges::adjacent_find(numbers) != numbers.end();
}

InsertResult InsertRewriter::rewrite(const wire::OpMsgView& insert, const InsertCommand& command,
                                     const Plan& plan, std::chrono::seconds now,
                                     wire::PatchedMessage& out) {
  insert_ = &insert;
  command_ = &command;
  plan_ = &plan;
  now_ = now;
  if (values_.size() < plan.size()) values_.resize(plan.size());
  InsertResult result;
  if (!rewrite_plain(result, out)) {
    edits_.clear();
    driver_made_.assign(plan.size(), 0);
    if (!scan_documents(result)) return {};
    if (edits_.empty() || !draw_values(result)) return result;
    emit(out);
    result.kind = InsertResult::Kind::patched;
  }
  if (result.kind == InsertResult::Kind::patched) check_size(out.size(), result);
  return result;
}

/// False, with the error in `result`, if a message of that size cannot be sent.
bool InsertRewriter::check_size(std::size_t size, InsertResult& result) {
  const auto limit = static_cast<std::size_t>(wire::kMaxMessageSize);
  if (size <= limit) return true;
  result.kind = InsertResult::Kind::failed;
  result.error = {ErrorCode::bson_object_too_large,
                  "mongo-idproxy: with its ids the message would have more than " +
                      std::to_string(limit) + " bytes; send fewer documents at once"};
  return false;
}

// ---- the plain case --------------------------------------------------------------------------

/// Most inserts: one rule, for `_id`, and a sequence of small documents none of which has one. Then
/// no document need be walked. False, and nothing done, if the insert is another one.
bool InsertRewriter::rewrite_plain(InsertResult& result, wire::PatchedMessage& out) {
  if (plan_->size() != 1 || !plan_->front().is_id() || command_->in_body()) return false;
  if (insert_->has(wire::flag::kChecksumPresent)) return false;
  std::size_t count = 0;
  for (Bytes rest = command_->documents; !rest.empty(); ++count) {
    const auto document = bson::document_at(rest);
    if (!document || document->size() > kPlainDocument) return false;
    rest = rest.subspan(document->size());
  }
  if (count == 0 || count > kMaxBatch || may_hold_id(command_->documents)) return false;
  if (!draw(0, count, result)) return true;
  emit_plain(count, out);
  result.kind = InsertResult::Kind::patched;
  result.assigned = count;
  return true;
}

void InsertRewriter::emit_plain(std::size_t count, wire::PatchedMessage& out) {
  const Bytes list = command_->documents;
  const ids::Values& values = values_[0];
  const std::size_t growth = count * kIdHead.size() + values.bytes();
  const Bytes sized = command_->sequence->whole.subspan(1);  // from its size on
  const std::size_t message_size = insert_->message().size();
  out.start(insert_->message());
  out.set_i32(out.add_i32(), static_cast<std::int64_t>(message_size + growth));
  out.keep(4, offset(sized.data()));
  out.set_i32(out.add_i32(), static_cast<std::int64_t>(sized.size() + growth));
  out.keep(offset(sized.data()) + 4, offset(list.data()));
  std::uint8_t* to = out.add(list.size() + growth);
  const std::uint8_t* from = list.data();
  for (std::size_t i = 0; i < count; ++i) {
    const Bytes value = values[i];
    const auto size = static_cast<std::size_t>(load_i32(from));
    store_i32(to, static_cast<std::int32_t>(size + kIdHead.size() + value.size()));
    std::memcpy(to + 4, kIdHead.data(), kIdHead.size());
    to[4] = static_cast<std::uint8_t>(values.type());
    to += 4 + kIdHead.size();
    std::memcpy(to, value.data(), value.size());
    to += value.size();
    std::memcpy(to, from + 4, size - 4);
    to += size - 4;
    from += size;
  }
  out.keep(offset(list.data()) + list.size(), message_size);
}

// ---- reading ---------------------------------------------------------------------------------

/// False if the documents are malformed.
bool InsertRewriter::scan_documents(InsertResult& result) {
  std::size_t count = 0;
  plain_keys_ = true;
  const auto scan = [&](Bytes document) {
    if (count == kMaxBatch) return false;
    ++count;
    return scan_document(document, static_cast<std::int32_t>(count - 1), result);
  };
  if (command_->in_body()) {
    bson::Elements elements(command_->documents);
    while (const auto element = elements.next()) {
      plain_keys_ = plain_keys_ && is_index(element->key, count);
      if (element->type != bson::Type::document || !scan(element->value)) return false;
    }
    if (elements.malformed()) return false;
  } else {
    for (Bytes rest = command_->documents; !rest.empty();) {
      const auto document = bson::document_at(rest);
      if (!document || !scan(*document)) return false;
      rest = rest.subspan(document->size());
    }
  }
  for (std::size_t i = 0; i < plan_->size(); ++i) {
    if (count > 0 && driver_made_[i] == count) result.driver_made = &(*plan_)[i];
  }
  return true;
}

/// False if the document is malformed.
bool InsertRewriter::scan_document(Bytes document, std::int32_t index, InsertResult& result) {
  // Too large already: mongod's own error for it is the answer.
  if (static_cast<std::int64_t>(document.size()) > bson::kMaxUserDocument) return true;
  const std::size_t first_edit = edits_.size();
  Site& site = site_;
  for (std::size_t i = 0; i < plan_->size(); ++i) {
    if (!locate(document, i, site)) return false;
    const bool changes = site.found != Site::Found::present || replaces(site, i);
    if (!changes) continue;
    if (site.found == Site::Found::blocked || site.ambiguous) {
      edits_.resize(first_edit);
      refuse(document, index, site, i, result);
      return true;
    }
    plan_edit(site, i);
    add_lengths(site, first_edit);
    if (site.found == Site::Found::present) keep_driver_id(document, site, i);
  }
  sort_edits(first_edit);
  return true;
}

/// By position; at one position `_id` in front, then new elements in file order, then kept ids,
/// then what is replaced there. Stable insertion: a document has a handful of edits.
void InsertRewriter::sort_edits(std::size_t first_edit) {
  const auto rank = [&](const Edit& edit) {
    const bool front = edit.kind == EditKind::element && (*plan_)[edit.assignment].is_id();
    const int kind = front ? 0 : edit.kind == EditKind::element ? 1 : edit.remove == 0 ? 2 : 3;
    return std::pair(edit.at, kind);
  };
  const auto first = edits_.begin() + static_cast<std::ptrdiff_t>(first_edit);
  for (auto edit = first; edit != edits_.end(); ++edit) {
    const auto place = std::upper_bound(
        first, edit, *edit, [&](const Edit& a, const Edit& b) { return rank(a) < rank(b); });
    std::rotate(place, edit, edit + 1);
  }
}

/// False if a document on the path is malformed.
bool InsertRewriter::locate(Bytes document, std::size_t assignment, Site& site) const {
  const auto& path = (*plan_)[assignment].path;
  const bool only_missing = (*plan_)[assignment].rule->assign == Assign::missing;
  site.parents.assign(1, document);
  site.ambiguous = false;
  for (std::size_t depth = 0;; ++depth) {
    bool found = false;
    bson::Elements elements(site.parents.back());
    while (const auto element = elements.next()) {
      if (element->key != path[depth]) continue;
      site.ambiguous = site.ambiguous || found;
      if (found) continue;
      found = true;
      site.element = *element;
      // Whatever follows, this value stays.
      if (only_missing && depth + 1 == path.size()) {
        site.found = Site::Found::present;
        return true;
      }
    }
    if (elements.malformed()) return false;
    site.found = found ? Site::Found::present : Site::Found::absent;
    if (!found || depth + 1 == path.size()) return true;
    if (site.element.type != bson::Type::document) {
      site.found = Site::Found::blocked;
      return true;
    }
    site.parents.push_back(site.element.value);
  }
}

bool InsertRewriter::driver_made(const bson::Element& element, const Rule& rule) const {
  if (element.type != bson::Type::object_id) return false;
  const auto made = std::chrono::seconds(boost::endian::load_big_u32(element.value.data()));
  return std::chrono::abs(now_ - made) <= rule.driver_window;
}

bool InsertRewriter::replaces(const Site& site, std::size_t assignment) {
  const Assignment& target = (*plan_)[assignment];
  const bool null = site.element.type == bson::Type::null;
  const bool made = driver_made(site.element, *target.rule);
  switch (target.rule->assign) {
    case Assign::missing:
      if (made && target.is_id()) ++driver_made_[assignment];
      return false;
    case Assign::missing_or_null:
      return null;
    case Assign::driver:
      return null || made;
    case Assign::always:
      return true;
  }
  return false;
}

void InsertRewriter::plan_edit(const Site& site, std::size_t assignment) {
  const Bytes parent = site.parents.back();
  Edit edit{};
  edit.assignment = static_cast<std::uint16_t>(assignment);
  edit.depth = static_cast<std::uint8_t>(site.depth());
  if (site.found == Site::Found::present) {
    edit.kind = EditKind::replacement;
    edit.at = narrow(offset(site.element.begin));
    edit.remove = narrow(offset(site.element.end())) - edit.at;
  } else {
    edit.kind = EditKind::element;
    const bool front = (*plan_)[assignment].is_id();
    edit.at = narrow(offset(parent.data()) + (front ? 4 : parent.size() - 1));
  }
  edits_.push_back(edit);
}

void InsertRewriter::keep_driver_id(Bytes document, const Site& site, std::size_t assignment) {
  const std::string& name = (*plan_)[assignment].rule->keep_driver_id;
  if (name.empty() || site.element.type != bson::Type::object_id) return;
  if (bson::find(document, name)) return;
  edits_.push_back({narrow(offset(document.data()) + document.size() - 1), 0,
                    narrow(offset(site.element.value.data())),
                    static_cast<std::uint16_t>(assignment), 0, EditKind::driver_id});
}

/// The lengths of all documents around a change are changes too, each once.
void InsertRewriter::add_lengths(const Site& site, std::size_t first_edit) {
  for (const Bytes parent : site.parents) {
    const auto at = narrow(offset(parent.data()));
    const bool there = std::any_of(
        edits_.begin() + static_cast<std::ptrdiff_t>(first_edit), edits_.end(),
        [&](const Edit& edit) { return edit.kind == EditKind::length && edit.at == at; });
    if (!there) {
      edits_.push_back({at, 4, at + narrow(parent.size()), 0, 0, EditKind::length});
    }
  }
}

void InsertRewriter::refuse(Bytes document, std::int32_t index, const Site& site,
                            std::size_t assignment, InsertResult& result) {
  const std::string& field = (*plan_)[assignment].rule->field;
  RefusedDocument refusal{index, ErrorCode::bad_value,
                          "mongo-idproxy: a name on the path '" + field +
                              "' occurs twice in the document: no value can be assigned"};
  if (site.found == Site::Found::blocked) {
    refusal.code = ErrorCode::path_not_viable;
    refusal.message = "mongo-idproxy: cannot create field '" + field + "': '" +
                      std::string(site.element.key) + "' is of type " +
                      std::string(type_name(site.element.type)) + ", not object";
  }
  result.refused.push_back(std::move(refusal));
  edits_.push_back(
      {narrow(offset(document.data())), narrow(document.size()), 0, 0, 0, EditKind::refusal});
}

/// False, with the error in `result`, if the strategy has not that many.
bool InsertRewriter::draw(std::size_t assignment, std::size_t count, InsertResult& result) {
  const Rule& rule = *(*plan_)[assignment].rule;
  values_[assignment].clear();
  const auto drawn = rule.strategy->next(count, values_[assignment]);
  if (drawn) return true;
  result.kind = InsertResult::Kind::failed;
  result.error = {ErrorCode::operation_failed,
                  "mongo-idproxy: no value for field '" + rule.field + "' of " +
                      std::string(command_->db) + "." + std::string(command_->collection) +
                      " (strategy " + rule.strategy_name + "): " + drawn.error().reason};
  return false;
}

bool InsertRewriter::draw_values(InsertResult& result) {
  needed_.assign(plan_->size(), 0);
  used_.assign(plan_->size(), 0);
  for (const Edit& edit : edits_) {
    if (edit.kind != EditKind::element && edit.kind != EditKind::replacement) continue;
    ++needed_[edit.assignment];
    ++result.assigned;
  }
  std::size_t size = insert_->message().size();
  for (const Edit& edit : edits_) size -= edit.kind == EditKind::length ? 0 : edit.remove;
  for (std::size_t i = 0; i < plan_->size(); ++i) {
    if (needed_[i] > 0 && !draw(i, needed_[i], result)) return false;
    size += needed_[i] > 0 ? values_[i].bytes() : 0;
    // Many rules on many documents: known before any of it is written.
    if (!check_size(size, result)) return false;
  }
  return true;
}

// ---- writing ---------------------------------------------------------------------------------

void InsertRewriter::emit(wire::PatchedMessage& out) {
  const std::size_t end = insert_->message().size();
  out.start(insert_->message());
  lengths_.clear();
  open_length(0, end, out);
  std::size_t at = 4;
  const auto open_at = [&](Bytes enclosing) {
    const std::size_t length = offset(enclosing.data());
    out.keep(at, length);
    open_length(length, length + enclosing.size(), out);
    at = length + 4;
  };
  if (command_->in_body()) {
    open_at(insert_->body());
    open_at(command_->documents);
  } else {
    open_at(command_->sequence->whole.subspan(1));
  }
  std::size_t next = 0;
  emit_edits(out, next, at, end);
  const std::int64_t body = command_->in_body() ? lengths_[1].value : 0;
  // Whether mongod takes other keys than "0", "1" … is for mongod to say (it takes "00"): they are
  // never hidden from it in a sequence.
  if (plain_keys_ && body > bson::kMaxInternalDocument &&
      static_cast<std::int64_t>(insert_->body().size()) <= bson::kMaxInternalDocument) {
    return emit_as_sequence(out);
  }
  finish(at, out);
}

/// A body may have 16 MiB + 16 KiB, a sequence fills the message: documents that outgrow the one
/// move to the other.
void InsertRewriter::emit_as_sequence(wire::PatchedMessage& out) {
  const Bytes body = insert_->body();
  const std::size_t body_at = offset(body.data());
  const std::size_t array_at = offset(command_->array_element.data());
  const std::size_t array_end = array_at + command_->array_element.size();
  used_.assign(plan_->size(), 0);
  lengths_.clear();
  out.start(insert_->message());
  const std::size_t message_size = out.add_i32();
  out.keep(4, body_at);
  out.set_i32(out.add_i32(),
              static_cast<std::int64_t>(body.size() - command_->array_element.size()));
  out.keep(body_at + 4, array_at);
  out.keep(array_end, body_at + body.size());
  *out.add(1) = 1;
  const std::size_t section_start = out.size();
  const std::size_t section_size = out.add_i32();
  out.add(as_bytes(std::string_view("documents\0", 10)));
  std::size_t next = 0;
  bson::Elements elements(command_->documents);
  while (const auto element = elements.next()) {
    std::size_t at = offset(element->value.data());
    const std::size_t end = at + element->value.size();
    emit_edits(out, next, at, end);
    out.keep(at, end);
    close_lengths(end, out);
  }
  out.set_i32(section_size, static_cast<std::int64_t>(out.size() - section_start));
  const bool checksum = insert_->has(wire::flag::kChecksumPresent);
  out.set_i32(message_size, static_cast<std::int64_t>(out.size() + (checksum ? 4 : 0)));
  if (checksum) out.add_checksum();
}

/// The edits before `end`, from `at` on, with what stays between them.
void InsertRewriter::emit_edits(wire::PatchedMessage& out, std::size_t& next, std::size_t& at,
                                std::size_t end) {
  while (next < edits_.size() && edits_[next].at < end) {
    const Edit& edit = edits_[next];
    close_lengths(edit.at, out);
    out.keep(at, edit.at);
    at = edit.at + edit.remove;
    if (edit.kind == EditKind::length) {
      open_length(edit.at, edit.from, out);
      ++next;
      continue;
    }
    const std::size_t before = out.size();
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
    const auto grown = static_cast<std::int64_t>(out.size() - before) - edit.remove;
    for (OpenLength& length : lengths_) length.value += grown;
    next += run;
  }
}

/// New elements at one position, then the ids that are kept.
void InsertRewriter::emit_elements(std::span<const Edit> edits, wire::PatchedMessage& out) {
  element_.clear();
  std::vector<const Edit*> elements;
  for (const Edit& edit : edits) {
    const Assignment& target = (*plan_)[edit.assignment];
    if (edit.kind == EditKind::driver_id) {
      bson::append_head(element_, bson::Type::object_id, target.rule->keep_driver_id);
      element_.append(insert_->message().subspan(edit.from, 12));
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

/// Elements of one document. Those whose paths share a document that does not exist yet share the
/// new one too. Recurses as deep as the configured paths, not the documents.
void InsertRewriter::emit_level(std::span<const Edit* const> edits, std::size_t depth,
                                Buffer& out) {
  const auto path = [&](const Edit* edit) -> const auto& {
    return (*plan_)[edit->assignment].path;
  };
  for (std::size_t i = 0; i < edits.size(); ++i) {
    const std::string& name = path(edits[i])[depth];
    const auto shares = [&](const Edit* other) { return path(other)[depth] == name; };
    if (std::ranges::any_of(edits.first(i), shares)) continue;  // went with the first of them
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
  bson::append_head(out, values.type(), (*plan_)[edit.assignment].path.back());
  out.append(values[used_[edit.assignment]++]);
}

void InsertRewriter::open_length(std::size_t at, std::size_t end, wire::PatchedMessage& out) {
  lengths_.push_back({out.add_i32(), load_i32(insert_->message().data() + at), end});
}

void InsertRewriter::close_lengths(std::size_t at, wire::PatchedMessage& out) {
  while (!lengths_.empty() && lengths_.back().end <= at) {
    out.set_i32(lengths_.back().place, lengths_.back().value);
    lengths_.pop_back();
  }
}

void InsertRewriter::finish(std::size_t at, wire::PatchedMessage& out) {
  const bool checksum = insert_->has(wire::flag::kChecksumPresent);
  out.keep(at, insert_->message().size() - (checksum ? 4 : 0));
  close_lengths(std::numeric_limits<std::size_t>::max(), out);
  if (checksum) out.add_checksum();
}

}  // namespace idproxy::rewrite
