#include "rewrite/keep_edit.hpp"

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "idproxy/bson/builder.hpp"
#include "rewrite/left_out.hpp"

namespace idproxy::rewrite {
namespace {

using bson::append_inside;
using bson::append_string;
using bson::Type;

// In the stages for dotted fields, the replacement is at `r`, and the document as it was at `o`.
constexpr std::string_view kNew = "r";
constexpr std::string_view kOld = "o";

class StageWriter {
 public:
  StageWriter(const Plan& plan, std::span<const Given> given, std::span<const ids::Values> values,
              Buffer& out)
      : plan_(plan), given_(given), values_(values), out_(out) {}

  void replace(Bytes replacement, std::span<const Kept> kept) {
    const bool is_dotted = std::ranges::any_of(
        kept, [&](const Kept& each) { return plan_[each.assignment].path.size() > 1; });
    if (!is_dotted) {
      return stage([&] { merged([&] { literal(replacement); }, kept, ""); });
    }
    stage([&] {
      append_inside(out_, Type::document, kNew, [&] { literal(replacement); });
      append_string(out_, kOld, "$$ROOT");
    });
    for (const Kept& each : kept) {
      if (plan_[each.assignment].path.size() > 1) stage([&] { nested(each); });
    }
    stage([&] { merged({}, kept, std::string(kOld) + "."); });
  }

 private:
  template <class Write>
  void stage(const Write& write) {
    append_inside(out_, Type::document, std::to_string(stages_++),
                  [&] { append_inside(out_, Type::document, "$replaceWith", write); });
  }

  void literal(Bytes document) {
    bson::append_head(out_, Type::document, "$literal");
    out_.append(document);
  }

  /// $mergeObjects: [{_id: "$_id"}, <the replacement>, {number: …}, …]. `around`: the path of the
  /// document as it was, with a final dot, or "". Without `replacement`, it is at `r`.
  void merged(const std::function<void()>& replacement, std::span<const Kept> kept,
              const std::string& around) {
    append_inside(out_, Type::array, "$mergeObjects", [&] {
      append_inside(out_, Type::document, "0",
                    [&] { append_string(out_, "_id", "$" + around + "_id"); });
      if (replacement) {
        append_inside(out_, Type::document, "1", [&] { replacement(); });
      } else {
        append_string(out_, "1", "$" + std::string(kNew));
      }
      std::size_t count = 2;
      for (const Kept& each : kept) {
        const std::vector<std::string>& path = plan_[each.assignment].path;
        if (path.size() > 1) continue;
        append_inside(out_, Type::document, std::to_string(count++),
                      [&] { top_level(each, path.front(), "$" + around + path.front()); });
      }
    });
  }

  /// number: "$number", or with a value what takes that where the field is missing.
  void top_level(const Kept& kept, const std::string& name, const std::string& stored) {
    const Given* given = given_to(kept);
    if (given == nullptr) return append_string(out_, name, stored);
    append_inside(out_, Type::document, name, [&] {
      append_inside(out_, Type::array, "$cond", [&] {
        append_inside(out_, Type::document, "0", [&] { is_missing(stored); });
        append_inside(out_, Type::document, "1", [&] { value(*given); });
        append_string(out_, "2", stored);
      });
    });
  }

  /// $eq: [{$type: "$number"}, "missing"]
  void is_missing(const std::string& stored) {
    append_inside(out_, Type::array, "$eq", [&] {
      append_inside(out_, Type::document, "0", [&] { append_string(out_, "$type", stored); });
      append_string(out_, "1", "missing");
    });
  }

  /// $in: [{$type: "$o.b.n"}, ["array", "missing"]]; with a value only "array".
  void is_left(const std::string& stored, bool gives) {
    append_inside(out_, Type::array, "$in", [&] {
      append_inside(out_, Type::document, "0", [&] { append_string(out_, "$type", stored); });
      append_inside(out_, Type::array, "1", [&] {
        append_string(out_, "0", "array");
        if (!gives) append_string(out_, "1", "missing");
      });
    });
  }

  void value(const Given& given) {
    const ids::Values& values = values_[given.assignment];
    bson::append_head(out_, values.type(), "$literal");
    out_.append(values[given.value]);
  }

  /// r: {$mergeObjects: ["$r", {b: {$cond: [<is left>, "$r.b", <b with the value in it>]}}]},
  /// o: "$o"
  void nested(const Kept& kept) {
    const std::vector<std::string>& path = plan_[kept.assignment].path;
    const Given* given = given_to(kept);
    const std::string root = "$" + std::string(kNew);
    const std::string stored = "$" + std::string(kOld) + "." + plan_[kept.assignment].rule->field;
    append_inside(out_, Type::document, kNew, [&] {
      append_inside(out_, Type::array, "$mergeObjects", [&] {
        append_string(out_, "0", root);
        append_inside(out_, Type::document, "1", [&] {
          append_inside(out_, Type::document, path.front(), [&] {
            append_inside(out_, Type::array, "$cond", [&] {
              append_inside(out_, Type::document, "0", [&] { is_left(stored, given != nullptr); });
              append_string(out_, "1", root + "." + path.front());
              append_inside(out_, Type::document, "2",
                            [&] { inside(kept, path, root + "." + path.front(), stored); });
            });
          });
        });
      });
    });
    append_string(out_, kOld, "$" + std::string(kOld));
  }

  /// $mergeObjects: ["$r.b", {n: <the value>}], for each document around the field.
  void inside(const Kept& kept, const std::vector<std::string>& path, std::string around,
              const std::string& stored) {
    std::vector<bson::Scope> open;
    open.reserve(3 * path.size());
    const auto begin = [&](Type type, std::string_view key) {
      bson::append_head(out_, type, key);
      open.emplace_back(out_);
    };
    for (std::size_t i = 1; i < path.size(); ++i) {
      begin(Type::array, "$mergeObjects");
      append_string(out_, "0", around);
      begin(Type::document, "1");
      around += "." + path[i];
      if (i + 1 < path.size()) begin(Type::document, path[i]);
    }
    top_level(kept, path.back(), stored);
    for (; !open.empty(); open.pop_back()) open.back().close();
  }

  [[nodiscard]] const Given* given_to(const Kept& kept) const {
    const auto its = std::ranges::find(given_, kept.assignment, &Given::assignment);
    return its == given_.end() ? nullptr : &*its;
  }

  const Plan& plan_;
  std::span<const Given> given_;
  std::span<const ids::Values> values_;
  Buffer& out_;
  std::size_t stages_ = 0;
};

}  // namespace

void append_keeping_stages(const UpsertStatement& statement, const Plan& plan,
                           std::span<const Kept> kept, std::span<const Given> given,
                           std::span<const ids::Values> values, Buffer& out) {
  StageWriter(plan, given, values, out).replace(statement.update, kept);
}

void append_without_losses(Bytes update, const Plan& plan, std::span<const Kept> kept,
                           const OnInsert& on_insert, Buffer& out) {
  const auto leaves_out = [&](const bson::Element& each, const bson::Element& path) {
    return std::ranges::any_of(
        kept, [&](const Kept& its) { return is_left_out(each, path, *plan[its.assignment].rule); });
  };
  const std::size_t start = out.size();
  bool is_added = !on_insert;
  for (const bson::Element& each : bson::Elements(update)) {
    if (!is_added && each.key == "$setOnInsert") {
      is_added = true;
      append_inside(out, Type::document, each.key, [&] { on_insert(each.value); });
      continue;
    }
    Buffer rest;
    for (const bson::Element& path : bson::Elements(each.value)) {
      if (!leaves_out(each, path)) bson::append_copy(rest, path);
    }
    const bool had_some = each.value.size() > bson::kMinDocument;
    if (rest.empty() && had_some) continue;  // MongoDB 4.4 refuses an operator without a path
    append_inside(out, Type::document, each.key, [&] { out.append(rest.view()); });
  }
  if (!is_added) append_inside(out, Type::document, "$setOnInsert", [&] { on_insert({}); });
  if (out.size() > start) return;
  // Where nothing is inserted, it does nothing, in every version.
  append_inside(out, Type::document, "$setOnInsert", [&] {
    bson::append_head(out, Type::null, plan[kept.front().assignment].rule->field);
  });
}

void append_stages_without_losses(Bytes update, const Plan& plan, std::span<const Kept> kept,
                                  std::size_t count, Buffer& out) {
  const auto leaves_out = [&](const bson::Element& path) {
    return std::ranges::any_of(kept, [&](const Kept& its) {
      return is_left_out_of_stage(path, *plan[its.assignment].rule);
    });
  };
  for (const bson::Element& stage : bson::Elements(update)) {
    const std::string key = std::to_string(count++);
    const auto set = set_of(stage);
    if (!set) {
      bson::append_head(out, stage.type, key);
      out.append(stage.value);
      continue;
    }
    Buffer rest;
    for (const bson::Element& path : bson::Elements(set->value)) {
      if (!leaves_out(path)) bson::append_copy(rest, path);
    }
    if (rest.empty() && set->value.size() > bson::kMinDocument) {
      // MongoDB 4.4 refuses a stage without a field. This one sets something to what it is.
      const std::string& name = plan[kept.front().assignment].path.front();
      append_string(rest, name, "$" + name);
    }
    append_inside(out, Type::document, key, [&] {
      append_inside(out, Type::document, set->key, [&] { out.append(rest.view()); });
    });
  }
}

}  // namespace idproxy::rewrite
