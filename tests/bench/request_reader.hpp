#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace idproxy::bench {

/// What the stub server wants to know of an OP_MSG. Views into the message.
struct Request {
  std::int32_t request_id = 0;
  std::string_view command;     ///< first key of the body
  std::string_view collection;  ///< its value, if that is a text
  std::string_view documents;   ///< of the kind-1 sequence, one after the other; may be empty
  std::string_view array;       ///< value of the body's `documents`; may be empty
};

/// The message that `bytes` begins with, by its own length; none while it is incomplete.
/// A length that no message can have gives an empty view.
std::optional<std::string_view> first_message(std::string_view bytes);

/// None if the message is not a well-formed OP_MSG.
std::optional<Request> read_request(std::string_view message);

/// Takes the first document off `documents`; none if its length does not fit.
std::optional<std::string_view> take_document(std::string_view& documents);

}  // namespace idproxy::bench
