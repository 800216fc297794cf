#pragma once

#include <chrono>
#include <string>

namespace idproxy::ids {

/// How often a rule's sequence begins again at `start` (docs/templates.md#templates).
enum class Reset { none, yearly, monthly, daily };

/// The period that a day belongs to: "2026", "2026-11" or "2026-11-22"; "" for Reset::none.
[[nodiscard]] std::string period_of(Reset reset, std::chrono::year_month_day day);

/// A number in decimal, with leading zeros up to `width` digits.
[[nodiscard]] std::string padded(unsigned number, std::size_t width);

}  // namespace idproxy::ids
