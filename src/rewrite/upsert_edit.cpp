#include "rewrite/upsert_edit.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "idproxy/bson/builder.hpp"
#include "rewrite/keep_edit.hpp"
#include "rewrite/upsert.hpp"

namespace idproxy::rewrite {
namespace {

using bson::append_inside;
using bson::Type;

/// Writes the changes of one upsert.
class UpsertWriter {
 public:
  UpsertWriter(const Plan& plan, std::span<const ids::Values> values, Buffer& out)
      : plan_(plan), values_(values), out_(out) {}

  /// Appends the elements of $setOnInsert, with the values in place of those that the rules
  /// replace, and behind them those that are new. `own`: the client's elements.
  void fields(std::optional<Bytes> own, std::span<const Given> given) {
    std::vector<const Given*> left;
    for (const Given& each : given) left.push_back(&each);
    if (own) replaced(*own, {}, left);
    for (const Given* each : left) value(assignment(*each).rule->field, *each);
  }

  /// Appends one stage for each value, as elements of the pipeline's array from `count` on. Returns
  /// the number of elements then. The stage for `_id` comes last, because the others see by `_id`
  /// whether the document is being inserted.
  std::size_t stages(std::span<const Given> given) {
    std::size_t count = 0;
    const auto append = [&](const Given& each) {
      append_inside(out_, Type::document, std::to_string(count++), [&] { stage(each); });
    };
    for (const Given& each : given) {
      if (!assignment(each).is_id()) append(each);
    }
    for (const Given& each : given) {
      if (assignment(each).is_id()) append(each);
    }
    return count;
  }

 private:
  [[nodiscard]] const Assignment& assignment(const Given& given) const {
    return plan_[given.assignment];
  }

  /// Copies the elements, and writes in place of some the values that belong there, which it takes
  /// from `left`. `around`: the path of the document that they are in, with a final dot. No deeper
  /// than the paths of fields.
  void replaced(Bytes own, const std::string& around, std::vector<const Given*>& left) {
    for (const bson::Element& element : bson::Elements(own)) {
      const bool is_dotted = !around.empty() && element.key.find('.') != std::string_view::npos;
      const auto there = std::ranges::find_if(left, [&](const Given* each) {
        const std::string_view field = assignment(*each).rule->field;
        return !is_dotted && field.starts_with(around) &&
               value_set_by(element, field.substr(around.size()));
      });
      if (there == left.end()) {
        bson::append_copy(out_, element);
        continue;
      }
      const std::string path = around + std::string(element.key);
      if (assignment(**there).rule->field == path) {
        value(element.key, **there);
        left.erase(there);
      } else {
        append_inside(out_, Type::document, element.key,
                      [&] { replaced(element.value, path + ".", left); });
      }
    }
  }

  void value(std::string_view key, const Given& given) {
    const ids::Values& values = values_[given.assignment];
    bson::append_head(out_, values.type(), key);
    out_.append(values[given.value]);
  }

  /// {$set: {<first name>: {$cond: [<is an insert>, <new>, "$<first name>"]}}}
  void stage(const Given& given) {
    const std::string& name = assignment(given).path.front();
    append_inside(out_, Type::document, "$set", [&] {
      append_inside(out_, Type::document, name, [&] {
        append_inside(out_, Type::array, "$cond", [&] {
          append_inside(out_, Type::document, "0", [&] { is_insert(); });
          append_inside(out_, Type::document, "1", [&] { inserted(given); });
          bson::append_string(out_, "2", "$" + name);
        });
      });
    });
  }

  /// $eq: [{$type: "$_id"}, "missing"]
  void is_insert() {
    append_inside(out_, Type::array, "$eq", [&] {
      append_inside(out_, Type::document, "0", [&] { bson::append_string(out_, "$type", "$_id"); });
      bson::append_string(out_, "1", "missing");
    });
  }

  /// The value, or for a dotted field the document around it with the value in it:
  ///
  ///   $literal: 7
  ///   $mergeObjects: ["$a", {b: {$literal: 7}}]
  void inserted(const Given& given) {
    const std::vector<std::string>& path = assignment(given).path;
    std::vector<bson::Scope> open;
    open.reserve(4 * path.size());
    const auto begin = [&](Type type, std::string_view key) {
      bson::append_head(out_, type, key);
      open.emplace_back(out_);
    };
    std::string around = "$" + path.front();
    for (std::size_t i = 1; i < path.size(); ++i) {
      begin(Type::array, "$mergeObjects");
      bson::append_string(out_, "0", around);
      begin(Type::document, "1");
      begin(Type::document, path[i]);
      around += "." + path[i];
    }
    value("$literal", given);
    for (; !open.empty(); open.pop_back()) open.back().close();
  }

  const Plan& plan_;
  std::span<const ids::Values> values_;
  Buffer& out_;
};

}  // namespace

namespace {

/// Those of a replacement that stay if it is sent as an upsert. A field that the filter names would
/// get the filter's value into a document that is inserted, and from some filters the server makes
/// no document for a pipeline: such a replacement has been sent without upsert before.
std::vector<Kept> kept_by_upsert(const UpsertStatement& statement, const Plan& plan,
                                 std::span<const Kept> kept, std::span<const Given> given) {
  std::vector<Kept> all;
  if (!statement.filter.empty() && form_of(statement.filter) != FilterForm::plain) return all;
  for (const Kept& each : kept) {
    const bool gets = std::ranges::find(given, each.assignment, &Given::assignment) != given.end();
    const std::string& field = plan[each.assignment].rule->field;
    if (gets || filter_names(statement.filter, field) == Names::no) all.push_back(each);
  }
  return all;
}

}  // namespace

/// Writes the whole update anew, and without upsert all fields of the statement, since the option
/// may stand anywhere.
void UpsertEdit::write_keeping(const WriteRequest& write, const GivenValues& given,
                               std::int32_t statement, As as) {
  std::span<const Kept> kept = given.kept_of(statement);
  std::span<const Given> its;
  std::vector<Kept> some;
  if (as == As::upsert && statement_.kind == UpsertStatement::Kind::upsert) {
    its = given.of(statement);
    some = kept_by_upsert(statement_, *write.plan, kept, its);
    kept = some;
  }
  if (kept.empty()) return;
  around_[depth_++] = statement_.whole.data();
  for (const bson::Element& field : bson::Elements(statement_.whole)) {
    const bool is_update = field.value.data() == statement_.update.data();
    if (as == As::upsert && !is_update) continue;
    if (is_update) {
      at_ = field.begin;
      removed_ = static_cast<std::size_t>(field.end() - field.begin);
      append_inside(added_, Type::array, field.key, [&] {
        append_keeping_stages(statement_, *write.plan, kept, its, given.values, added_);
      });
    } else if (field.key != "upsert") {
      bson::append_copy(added_, field);
    }
  }
  if (as == As::upsert) return;
  at_ = statement_.whole.data() + 4;
  removed_ = statement_.whole.size() - bson::kMinDocument;
}

/// Leaves out what would take values away, and adds those for a document that is inserted.
void UpsertEdit::write_without_losses(const WriteRequest& write, const GivenValues& given,
                                      std::int32_t statement) {
  const Bytes update = statement_.update;
  around_[depth_++] = statement_.whole.data();
  around_[depth_++] = update.data();
  at_ = update.data() + 4;
  removed_ = update.size() - bson::kMinDocument;
  UpsertWriter writer(*write.plan, given.values, added_);
  const std::span<const Given> its = given.of(statement);
  OnInsert on_insert;
  if (!its.empty()) on_insert = [&](std::optional<Bytes> own) { writer.fields(own, its); };
  append_without_losses(update, *write.plan, given.kept_of(statement), on_insert, added_);
}

UpsertEdit::UpsertEdit(const WriteRequest& write, const GivenValues& given, std::int32_t statement,
                       As as)
    : statement_(UpsertStatement::of(given.upserts[static_cast<std::size_t>(statement)],
                                     write.message.message())) {
  const std::span<const Given> its = given.of(statement);
  const std::span<const Kept> kept = given.kept_of(statement);
  if (!kept.empty() && !statement_.is_pipeline) {
    statement_.is_replacement ? write_keeping(write, given, statement, as)
                              : write_without_losses(write, given, statement);
    return;
  }
  if (its.empty() && kept.empty()) return;
  const Bytes update = statement_.update;
  UpsertWriter writer(*write.plan, given.values, added_);
  const auto enter = [&](Bytes document) { around_[depth_++] = document.data(); };
  enter(statement_.whole);
  enter(update);
  if (statement_.is_pipeline) {
    at_ = update.data() + 4;
    removed_ = update.size() - 5;
    append_stages_without_losses(update, *write.plan, kept, writer.stages(its), added_);
    return;
  }
  const std::string_view where = write.assigns == nullptr ? "$setOnInsert" : "$set";
  if (const auto on_insert = bson::find(update, where)) {
    enter(on_insert->value);
    at_ = on_insert->value.data() + 4;
    removed_ = on_insert->value.size() - bson::kMinDocument;
    writer.fields(on_insert->value, its);
    return;
  }
  append_inside(added_, Type::document, "$setOnInsert", [&] { writer.fields({}, its); });
  at_ = update.data() + update.size() - 1;
}

void UpsertEdit::write(Bytes message, Bytes part, wire::PatchedMessage& out) const {
  const auto offset = [&](const std::uint8_t* p) {
    return static_cast<std::size_t>(p - message.data());
  };
  const std::size_t end = offset(part.data()) + part.size();
  std::size_t at = offset(part.data());
  if (depth_ == 0) return out.keep(at, end);
  for (std::size_t i = 0; i < depth_; ++i) {
    if (around_[i] < part.data()) continue;
    out.keep(at, offset(around_[i]));
    out.set_i32(out.add_i32(), load_i32(around_[i]) + growth());
    at = offset(around_[i]) + 4;
  }
  out.keep(at, offset(at_));
  out.add(added_.view());
  out.keep(offset(at_) + removed_, end);
}

}  // namespace idproxy::rewrite
