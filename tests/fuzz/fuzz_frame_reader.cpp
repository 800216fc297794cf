// Input: a client's byte stream, after a byte that says how to cut it. Framing and the decision
// about each message must be the same as for the uncut stream.

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "idproxy/rewrite/classify.hpp"
#include "idproxy/wire/messages.hpp"
#include "support/rule_set.hpp"

namespace {

using namespace idproxy;

/// The decisions about a stream, each with its position; '!' where the stream is malformed.
std::string decisions(Bytes stream, std::size_t piece, rewrite::X509 x509) {
  wire::FrameReader frames;
  rewrite::Namespaces namespaces(test::rule_set());
  std::string log;
  std::size_t at = 0;
  for (std::size_t there = std::min(piece, stream.size());;) {
    const Bytes front = stream.subspan(at, there - at);
    const auto next = frames.front(front);
    bool more = next.kind == wire::FrameReader::Kind::need_more;
    if (next.kind == wire::FrameReader::Kind::malformed) return log + "!" + std::to_string(at);
    if (next.kind == wire::FrameReader::Kind::inside) {
      if (next.bytes > front.size()) std::abort();
      frames.took(next.bytes);
      at += next.bytes;
      more = next.bytes == 0;
    }
    if (next.kind == wire::FrameReader::Kind::begin) {
      const auto length = static_cast<std::size_t>(next.header.message_length);
      const Bytes message = front.first(std::min(length, front.size()));
      const auto decision = rewrite::classify(next.header, message, namespaces, x509);
      if (const auto* wanted = std::get_if<rewrite::decision::NeedMore>(&decision)) {
        if (wanted->bytes <= message.size() || wanted->bytes > length) std::abort();
        more = true;
      } else {
        const auto* request = std::get_if<rewrite::Request>(&decision);
        log += std::to_string(decision.index()) +
               (request == nullptr ? "" : "." + std::to_string(request->index())) + "@" +
               std::to_string(at) + " ";
        frames.enter(static_cast<std::size_t>(next.header.message_length));
      }
    }
    if (!more) continue;
    if (there == stream.size()) return log;
    there = std::min(there + piece, stream.size());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1 || size > 1 << 16) return 0;
  const Bytes stream(data + 1, size - 1);
  for (const auto x509 : {rewrite::X509::allowed, rewrite::X509::refused}) {
    const std::string whole = decisions(stream, std::max<std::size_t>(stream.size(), 1), x509);
    if (decisions(stream, 1 + data[0] % 64U, x509) != whole) std::abort();
  }
  return 0;
}
