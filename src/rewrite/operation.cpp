#include "rewrite/operation.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <utility>

#include "idproxy/rewrite/document_fields.hpp"
#include "rewrite/bulk_write.hpp"
#include "rewrite/part_frame.hpp"

namespace idproxy::rewrite {

// ---- writing ---------------------------------------------------------------------------------

namespace {

/// Writes a statement of an update, or an operation of a bulkWrite. Returns false if it is
/// malformed.
bool emit_statement(const WriteRequest& write, const GivenValues& given, const WritePart& part,
                    std::int32_t index, InsertRewriter& documents, UpsertEdit::As as,
                    wire::PatchedMessage& out) {
  const Bytes message = write.message.message();
  const UpsertParts& parts = given.upserts[static_cast<std::size_t>(index)];
  const Bytes whole = *bson::document_at(message.subspan(parts.whole));
  if (parts.kind != UpsertParts::Kind::insert) {
    UpsertEdit(write, given, index, as).write(message, whole, out);
    return true;
  }
  const auto op = BulkOp::read(whole, write.namespaces.size());
  if (!op) return false;
  const BulkNamespace& ns = write.namespaces[op->ns];
  const bool is_refused =
      std::ranges::binary_search(part.refused, index, {}, &RefusedDocument::index);
  if (!ns.plan && !is_refused) {
    out.keep(parts.whole, parts.whole + whole.size());
    return true;
  }
  const std::size_t at = parts.whole;
  const std::size_t start = out.size();
  const std::size_t length = out.add_i32();
  const auto document = static_cast<std::size_t>(op->document.data() - message.data());
  out.keep(at + 4, document);
  if (is_refused) {
    out.add(refused_document());
  } else if (!documents.emit_one(write, ns, given, index, op->document, out)) {
    return false;
  }
  out.keep(document + op->document.size(), at + whole.size());
  out.set_i32(length, static_cast<std::int64_t>(out.size() - start));
  return true;
}

/// As InsertRewriter::emit_part(), of a command with statements.
std::optional<std::size_t> emit_part(const WriteRequest& write, const GivenValues& given,
                                     const WritePart& part, InsertRewriter& documents,
                                     wire::PatchedMessage& out,
                                     UpsertEdit::As as = UpsertEdit::As::upsert) {
  if (write.command.kind == WriteKind::insert) return documents.emit_part(write, given, part, out);
  PartFrame frame(write, part, out);
  for (const std::int32_t index : part.statements) {
    if (!emit_statement(write, given, part, index, documents, as, out)) return std::nullopt;
    if (!frame.has_room()) break;
  }
  return frame.close();
}

/// The statements that get or keep values, ascending.
std::vector<std::int32_t> changed_statements(const GivenValues& given) {
  std::vector<std::int32_t> all;
  all.reserve(given.given.size() + given.kept.size());
  for (const Given& each : given.given) all.push_back(each.statement);
  for (const Kept& each : given.kept) all.push_back(each.statement);
  if (!given.kept.empty()) std::ranges::sort(all);
  const auto rest = std::ranges::unique(all);
  all.erase(rest.begin(), rest.end());
  return all;
}

/// As InsertRewriter::emit(), of an update or findAndModify.
std::size_t emit_changed(const WriteRequest& write, const GivenValues& given, UpsertEdit::As as,
                         std::size_t at, wire::PatchedMessage& out) {
  const Bytes message = write.message.message();
  for (const std::int32_t index : changed_statements(given)) {
    const UpsertEdit edit(write, given, index, as);
    const Bytes statement = edit.statement().whole;
    const auto begin = static_cast<std::size_t>(statement.data() - message.data());
    out.keep(at, begin);
    edit.write(message, statement, out);
    at = begin + statement.size();
  }
  return at;
}

}  // namespace

void emit(const WriteRequest& write, const GivenValues& given, InsertRewriter& documents,
          wire::PatchedMessage& out, UpsertEdit::As as) {
  const bool is_insert = write.command.kind == WriteKind::insert;
  WholeFrame frame(write, out, is_insert ? documents.expected_copies(given) : 0);
  const std::size_t at = is_insert ? documents.emit(write, given, frame.at(), out)
                                   : emit_changed(write, given, as, frame.at(), out);
  // A body may have 16 MiB + 16 KiB, but a sequence may fill the whole message.
  if (frame.outgrows_body(at) && emit_as_sequence(write, given, {}, documents, out, as)) return;
  frame.close(at);
}

bool emit_as_sequence(const WriteRequest& write, const GivenValues& given,
                      std::span<const NamedCollection> named, InsertRewriter& documents,
                      wire::PatchedMessage& out, UpsertEdit::As as) {
  const auto all = write.command.movable();
  if (!all) return false;
  const std::int32_t request_id = write.message.header().request_id;
  const WritePart whole{*all, nullptr, true, std::nullopt, request_id, {}, named};
  return emit_part(write, given, whole, documents, out, as).has_value();
}

// ---- in several commands ---------------------------------------------------------------------

namespace {

/// True if the field has a type that mongod accepts. Only for fields that a statement may have.
bool has_known_type(const bson::Element& field) {
  using bson::Type;
  const auto is = [&](std::initializer_list<Type> types) {
    return std::ranges::find(types, field.type) != types.end();
  };
  if (field.key == "u" || field.key == "updateMods") return is({Type::document, Type::array});
  if (field.key == "multi" || field.key == "upsert") return is({Type::boolean});
  if (field.key == "hint") return is({Type::document, Type::string});
  if (field.key == "insert" || field.key == "update" || field.key == "delete") {
    return is({Type::int32});
  }
  if (field.key != "arrayFilters") return is({Type::document});
  if (field.type != Type::array) return false;
  for (const bson::Element& filter : bson::Elements(field.value)) {
    if (filter.type != Type::document) return false;
  }
  return true;
}

/// The fields that a statement may have, of which it must have the first `needed`.
struct AllowedFields {
  std::span<const std::string_view> known;
  std::size_t needed;
};

/// Nothing for an operation that mongod refuses together with its command.
std::optional<AllowedFields> allowed_in(Bytes statement, const WriteRequest& write) {
  static constexpr auto kStatement = std::to_array<std::string_view>(
      {"q", "u", "multi", "upsert", "hint", "collation", "arrayFilters", "c", "sort"});
  static constexpr auto kInsert = std::to_array<std::string_view>({"insert", "document"});
  static constexpr auto kUpdate =
      std::to_array<std::string_view>({"update", "filter", "updateMods", "multi", "upsert", "hint",
                                       "collation", "arrayFilters", "constants", "sort"});
  static constexpr auto kDelete =
      std::to_array<std::string_view>({"delete", "filter", "multi", "hint", "collation"});
  if (write.command.kind == WriteKind::update) return AllowedFields{kStatement, 2};
  const auto op = BulkOp::read(statement, write.namespaces.size());
  if (!op) return std::nullopt;
  if (op->kind == BulkOp::Kind::update) return AllowedFields{kUpdate, 3};
  return op->kind == BulkOp::Kind::insert ? AllowedFields{kInsert, 2} : AllowedFields{kDelete, 2};
}

bool has_only(Bytes statement, const AllowedFields& allowed) {
  std::vector<std::string_view> names;
  for (const bson::Element& field : bson::Elements(statement)) {
    if (std::ranges::find(allowed.known, field.key) == allowed.known.end()) return false;
    if (!has_known_type(field)) return false;
    if (std::ranges::find(names, field.key) != names.end()) return false;
    names.push_back(field.key);
  }
  return std::ranges::all_of(allowed.known.first(allowed.needed), [&](std::string_view name) {
    return std::ranges::find(names, name) != names.end();
  });
}

}  // namespace

bool separable(const WriteRequest& write) {
  constexpr std::size_t kLevels = 100;  // mongod accepts somewhat more
  if (!write.command.in_batch()) return false;
  Statements statements(write.command);
  while (const auto each = statements.next()) {
    if (static_cast<std::int64_t>(each->size()) > bson::kMaxInternalDocument) return false;
    if (!bson::well_formed(*each, kLevels)) return false;
    if (write.command.kind == WriteKind::insert) continue;
    const auto allowed = allowed_in(*each, write);
    if (!allowed || !has_only(*each, *allowed)) return false;
  }
  return !statements.malformed() && statements.plain_keys();
}

std::vector<ids::TypedValue> Operation::ids() const {
  std::vector<ids::TypedValue> ids;
  if (write_.command.kind != WriteKind::insert) return ids;
  Statements documents(write_.command);
  while (const auto document = documents.next()) {
    const auto id = field_at(*document, "_id");
    const bool has_one = id && id->is == ids::FieldValue::Is::there;
    ids.push_back(has_one ? typed(id->element.type, id->element.value) : ids::TypedValue{});
  }
  for (const Given& each : given_.given) {
    if (!(*write_.plan)[each.assignment].is_id()) continue;
    const ids::Values& values = given_.values[each.assignment];
    ids[static_cast<std::size_t>(each.statement)] = typed(values.type(), values[each.value]);
  }
  return ids;
}

void Operation::refuse(RefusedDocument&& document) {
  const auto at = std::ranges::lower_bound(refused_, document.index, {}, &RefusedDocument::index);
  refused_.insert(at, std::move(document));
}

std::optional<std::size_t> Operation::emit(WritePart part, Workspace& workspace,
                                           wire::PatchedMessage& out) const {
  part.refused = refused_;
  return emit_part(write_, given_, part, workspace.insert, out);
}

// ---- replies ---------------------------------------------------------------------------------

namespace {

ReplyForm reply_form_of(const WriteRequest& write) {
  if (!write.command.in_batch()) return ReplyForm::only;
  if (write.command.kind != WriteKind::bulk_write) return ReplyForm::of_statements;
  return write.all_results ? ReplyForm::errors_only : ReplyForm::all_results;
}

}  // namespace

Operation::Operation(const WriteRequest& write, const GivenValues& given,
                     std::vector<RefusedDocument> refused)
    : write_(write),
      given_(given),
      ns_(write.ns()),
      refused_(std::move(refused)),
      replies_(reply_form_of(write)) {}

std::optional<WriteReply> Operation::read(Bytes body, std::size_t sent) const {
  return kind() == WriteKind::bulk_write ? read_bulk_reply(body, sent)
                                         : WriteReply::read(body, sent);
}

void Operation::append_reply(std::span<const Assigned> assigned, Buffer& out) const {
  replies_.append(message().header().request_id, refused_, assigned, out);
}

/// `n` has the statements of an insert, and the inserts of a bulkWrite, of which only a reply with
/// all results names the upserts. One of an update counts once if it found a document or, as an
/// upsert, inserted one; with multi: true, once for each document that it found.
bool Operation::adds_up(const WriteReply& reply, const WriteOptions& options,
                        std::span<const std::int32_t> sent) const {
  using Kind = UpsertParts::Kind;
  const WriteKind kind = write_.command.kind;
  if (!reply.n) return false;
  // A write with {w: 0} that nevertheless asks for a reply gets {n: 0, ok: 1} (observed, 6.0.5).
  if (!options.acknowledged) {
    return reply.errors.empty() && reply.upserted.empty() && *reply.n == 0;
  }
  // A transaction stops at the first error, even if the insert is unordered (observed, 6.0.5).
  if (options.stops() && reply.errors.size() > 1) return false;
  const bool stopped = options.stops() && !reply.errors.empty();
  const auto end = stopped ? static_cast<std::size_t>(reply.errors.front().index) : sent.size();
  std::array<std::int64_t, 4> done{};  // by kind
  const auto of = [&](Kind its) -> std::int64_t& { return done[static_cast<std::size_t>(its)]; };
  bool multi = false;
  auto error = reply.errors.begin();
  auto upserted = reply.upserted.begin();
  for (std::size_t i = 0; i < end; ++i) {
    const bool failed = error != reply.errors.end() && static_cast<std::size_t>(error->index) == i;
    const bool inserted =
        upserted != reply.upserted.end() && static_cast<std::size_t>(*upserted) == i;
    const Kind its = kind_of(sent[i]);
    if (failed) ++error;
    if (inserted) ++upserted;
    const bool may_insert =
        its == Kind::upsert || (its == Kind::unknown && kind == WriteKind::bulk_write);
    if (inserted && (failed || !may_insert)) return false;
    if (failed) continue;
    ++of(its);
    multi = multi || given_.is_multi(sent[i]);
  }
  if (upserted != reply.upserted.end()) return false;
  const std::int64_t upserts = of(Kind::upsert) + of(Kind::unknown);
  if (kind == WriteKind::update) {
    return *reply.n >= of(Kind::upsert) && (multi || *reply.n <= upserts + of(Kind::plain));
  }
  if (*reply.n != of(Kind::insert)) return false;
  if (kind == WriteKind::insert) return true;
  const bool has_all = reply.results == end + (stopped ? 1 : 0);
  return has_all ? reply.n_upserted == static_cast<std::int64_t>(reply.upserted.size())
                 : reply.results == reply.errors.size() && reply.n_upserted <= upserts;
}

bool Operation::replaces_errors(const WriteReply& reply, std::span<const std::int32_t> sent) const {
  return write_.all_results || std::ranges::any_of(reply.errors, [&](const WriteError& error) {
           const std::int32_t statement = sent[static_cast<std::size_t>(error.index)];
           return refuses_id(error.code) &&
                  std::ranges::binary_search(refused_, statement, {}, &RefusedDocument::index);
         });
}

}  // namespace idproxy::rewrite
