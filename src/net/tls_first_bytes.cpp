#include "net/tls_first_bytes.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "idproxy/net/tls.hpp"
#include "idproxy/wire/msg_header.hpp"

namespace idproxy::net::tls {
namespace {

constexpr std::uint8_t kAlert = 21;
constexpr std::uint8_t kHandshake = 22;
constexpr std::uint8_t kMajor = 3;  // of SSL 3.0 and of all TLS
constexpr std::uint8_t kClientHello = 1;
constexpr std::size_t kRecordHeader = 5;
constexpr std::size_t kHelloVersion = 9;
// The range of MongoDB's op codes, which four random bytes hardly ever fall into.
constexpr std::int32_t kFirstRequest = 2001;
constexpr std::int32_t kLastRequest = 2013;

bool has_op_code(Bytes front) {
  const auto op_code = static_cast<std::int32_t>(wire::read_header(front).op_code);
  return op_code == static_cast<std::int32_t>(wire::OpCode::reply) ||
         (op_code >= kFirstRequest && op_code <= kLastRequest);
}

bool is_message(Bytes front) {
  return front.size() >= wire::kHeaderSize && has_op_code(front) &&
         wire::read_header(front).message_length >= static_cast<std::int32_t>(wire::kHeaderSize) &&
         wire::read_header(front).message_length <= wire::kMaxMessageSize;
}

bool is_http(Bytes front) {
  constexpr std::array<std::string_view, 8> kBegins = {"GET ",    "HEAD ",   "POST ", "PUT ",
                                                       "DELETE ", "OPTIONS", "PRI ",  "HTTP/"};
  const std::string_view text = as_text(front);
  return std::any_of(kBegins.begin(), kBegins.end(),
                     [text](std::string_view begin) { return text.starts_with(begin); });
}

}  // namespace

bool begins_tls(Bytes front) {
  if (front.size() < wire::kHeaderSize) return false;
  return front[0] == kHandshake && front[1] == kMajor && front[kRecordHeader] == kClientHello &&
         !has_op_code(front);
}

std::string what_instead(Bytes front) {
  if (is_message(front)) return "a MongoDB message";
  if (front.size() < 2) return {};
  if ((front[0] == kHandshake || front[0] == kAlert) && front[1] == kMajor) return {};
  return is_http(front) ? "HTTP" : "bytes of another protocol";
}

std::string hello_version(Bytes front) {
  if (front.size() < kHelloVersion + 2 || front[kHelloVersion] != kMajor) return {};
  const int minor = front[kHelloVersion + 1];
  return minor == 0 ? "SSL 3.0" : "TLS 1." + std::to_string(minor - 1);
}

}  // namespace idproxy::net::tls
