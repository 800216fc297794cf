#pragma once

#include <boost/system/result.hpp>
#include <chrono>
#include <string>
#include <string_view>

#include "ids/encoding.hpp"

/// Values as people read them.
namespace idproxy::ids {

/// 00112233-4455-6677-8899-aabbccddeeff
[[nodiscard]] std::string uuid_text(Uint128 uuid);
/// The bits of such a text, or what is wrong with it.
[[nodiscard]] boost::system::result<Uint128, std::string> uuid_bits(std::string_view text);
/// 2026-11-29T12:00:00.123Z. `time`: since 1970.
[[nodiscard]] std::string time_text(std::chrono::milliseconds time);

}  // namespace idproxy::ids
