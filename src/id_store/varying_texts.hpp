#pragma once

#include <chrono>
#include <cstddef>

#include "id_store/field_places.hpp"
#include "id_store/numbers.hpp"
#include "idproxy/id_store/mongo.hpp"

namespace idproxy::id_store {

/// The command that reads the `count` numbers furthest ahead, up to the counter's max, from texts
/// that vary around them (NumberFormat::pattern), as documents {n: number}. Their order is not that
/// of the texts, so the server looks at each text.
[[nodiscard]] mongo::Document numbers_in_varying_texts(const FieldPlace& place,
                                                       const Numbers& numbers, std::size_t count,
                                                       std::chrono::milliseconds limit);

}  // namespace idproxy::id_store
