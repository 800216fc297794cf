#include "rewrite/left_out.hpp"

#include "idproxy/rewrite/zero_value.hpp"

namespace idproxy::rewrite {

bool calls_missing(const Rule& rule, const bson::Element& value) {
  const bool is_null = value.type == bson::Type::null && rule.keep == Keep::always;
  return is_null || replaces(rule.assign, value);
}

bool is_left_out(const bson::Element& update_operator, const bson::Element& path,
                 const Rule& rule) {
  if (rule.keep != Keep::always || path.key != rule.field) return false;
  return update_operator.key == "$unset" ||
         (update_operator.key == "$set" && calls_missing(rule, path));
}

bool is_left_out_of_stage(const bson::Element& path, const Rule& rule) {
  if (rule.keep != Keep::always || path.key != rule.field) return false;
  if (path.type != bson::Type::document) return calls_missing(rule, path);
  const auto literal = bson::Elements(path.value).next();
  return literal && literal->key == "$literal" && calls_missing(rule, *literal);
}

std::optional<bson::Element> set_of(const bson::Element& stage) {
  if (stage.type != bson::Type::document) return std::nullopt;
  bson::Elements elements(stage.value);
  const auto what = elements.next();
  const bool sets = what && what->type == bson::Type::document &&
                    (what->key == "$set" || what->key == "$addFields");
  return sets && !elements.next() ? what : std::nullopt;
}

}  // namespace idproxy::rewrite
