#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "idproxy/id_store/mongo.hpp"
#include "idproxy/ids/counter_spec.hpp"

namespace idproxy::id_store {

/// The texts of numbers (NumberFormat::Output::string) in four classes, by sign and by whether
/// `pad` covers their digits; in ascending order of the numbers. Example with prefix "A-" and pad
/// 3:
///
///   wide_negative  A--1000 …    their order as texts is not that of the numbers
///   negative       A--999 … A--001
///   positive       A-000 … A-999
///   wide           A-1000 …     their order as texts is not that of the numbers
///
/// Only within a class do texts of one width sort by the magnitude of their numbers.
enum class TextClass { wide_negative, negative, positive, wide };

[[nodiscard]] inline bool is_wide(TextClass of) {
  return of == TextClass::wide_negative || of == TextClass::wide;
}
[[nodiscard]] inline bool is_negative(TextClass of) {
  return of == TextClass::wide_negative || of == TextClass::negative;
}

[[nodiscard]] TextClass class_of(std::int64_t number, const ids::NumberFormat& format);

/// A range in the order of the index; both ends inclusive.
struct TextRange {
  std::optional<std::string> from;
  std::optional<std::string> to;
};
/// A query condition for the texts of a class within a range, which hardly any other text meets:
/// {$gte, $lt or $lte, $regex}.
[[nodiscard]] mongo::Document texts_of(TextClass which, const ids::NumberFormat& format,
                                       const TextRange& within = {});

/// A regular expression for the texts of all numbers from 0 on, with one group: the number. Only of
/// formats whose check digits follow the number.
[[nodiscard]] std::string pattern_of_all(const ids::NumberFormat& format);

}  // namespace idproxy::id_store
