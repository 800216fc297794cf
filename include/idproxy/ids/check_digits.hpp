#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace idproxy {
class Parameters;
}

namespace idproxy::ids {

/// How to compute check digits, by which programs detect typing errors
/// (docs/templates.md#check-digits). Each finds every single wrong digit. Damm, Verhoeff and
/// MOD 97-10 also find every swap of two neighbours; Luhn does not find 09 for 90.
enum class Check {
  none,
  luhn,      ///< ISO/IEC 7812-1, annex B: 7992739871 -> 3
  damm,      ///< H. M. Damm, 2004, order 10: 572 -> 4
  verhoeff,  ///< J. Verhoeff, 1969: 236 -> 3
  mod97_10,  ///< ISO/IEC 7064, MOD 97-10: 794 -> 44
  mod11_10,  ///< ISO/IEC 7064, MOD 11,10: 0794 -> 5
};

/// Reads a rule's `check`.
[[nodiscard]] Check read_check(Parameters& rule);

/// The number of check digits: 0 to 2.
[[nodiscard]] std::size_t width_of(Check check);

/// The check digits of the digits in `text`; all other characters are ignored.
[[nodiscard]] std::string check_digits_of(Check check, std::string_view text);

}  // namespace idproxy::ids
