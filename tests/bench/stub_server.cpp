#include "stub_server.hpp"

#include <sys/epoll.h>

#include <array>
#include <optional>

#include "document.hpp"
#include "request_reader.hpp"

namespace idproxy::bench {
namespace {

constexpr std::uint64_t kRelayedTag = ~std::uint64_t{0};
constexpr std::uint64_t kCheckedTag = kRelayedTag - 1;
constexpr std::size_t kLengthBytes = 4;
constexpr std::size_t kUuidBytes = 16;

/// Type, name, size and subtype of an `_id` that is a UUID; its 16 bytes follow.
constexpr std::string_view kIdElement("\x05_id\0\x10\0\0\0\x04", 10);

/// The UUID that `document` begins with; empty unless it is the first element and of version 7.
std::string_view leading_uuid(std::string_view document) {
  const std::string_view elements = document.substr(kLengthBytes);
  if (!elements.starts_with(kIdElement)) return {};
  const std::string_view uuid = elements.substr(kIdElement.size(), kUuidBytes);
  if (uuid.size() != kUuidBytes) return {};
  const bool version_7 = (uuid[6] & 0xf0) == 0x70;
  const bool rfc_variant = (uuid[8] & 0xc0) == 0x80;
  return version_7 && rfc_variant ? uuid : std::string_view();
}

}  // namespace

StubServer::StubServer(const std::vector<Work>& works, const Transport& transport,
                       Findings& findings)
    : works_(works),
      transport_(transport),
      findings_(findings),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  for (const Work& work : works) {
    while (originals_.size() < work.documents) {
      originals_.push_back(order_document(originals_.size()));
    }
  }
  watch(epoll_, relayed_.fd, EPOLLIN, kRelayedTag);
  watch(epoll_, checked_.fd, EPOLLIN, kCheckedTag);
}

void StubServer::serve(int timeout_ms) {
  std::array<epoll_event, 64> events{};
  const int count = ::epoll_wait(epoll_.get(), events.data(), events.size(), timeout_ms);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    on_event(event.data.u64, event.events);
  }
}

void StubServer::on_event(std::uint64_t tag, std::uint32_t events) {
  if (tag == kRelayedTag) return accept_on(relayed_);
  if (tag == kCheckedTag) return accept_on(checked_);
  Connection& connection = connections_[tag];
  if ((events & EPOLLOUT) != 0) {
    send(connection);
  } else {
    read(connection);
  }
  if (connection.stream.fd().get() < 0) free_.push_back(tag);
}

void StubServer::accept_on(const Listener& listener) {
  Fd fd = accept_from(listener.fd);
  if (fd.get() < 0) return;
  if (free_.empty()) {
    free_.push_back(connections_.size());
    connections_.emplace_back();
  }
  const std::size_t tag = free_.back();
  free_.pop_back();
  watch(epoll_, fd, EPOLLIN, tag);
  connections_[tag].stream = transport_.accept(std::move(fd));
  connections_[tag].tag = tag;
  connections_[tag].checked = &listener == &checked_;
}

void StubServer::read(Connection& connection) {
  do {
    const std::ptrdiff_t received = connection.stream.receive(buffer_.data(), buffer_.size());
    if (received < 0) {
      connection = Connection{};
      return;
    }
    if (received == 0) return;
    const std::string_view bytes(buffer_.data(), static_cast<std::size_t>(received));
    if (!take(connection, bytes)) return close_malformed(connection);
  } while (connection.stream.pending());
}

/// False if they are malformed. A whole message is answered from the buffer; only what is
/// incomplete is collected.
bool StubServer::take(Connection& connection, std::string_view bytes) {
  const bool collected = !connection.input.empty();
  if (collected) bytes = connection.input.append(bytes);
  if (!answer_all(connection, bytes)) return false;
  if (collected) {
    connection.input.erase(0, connection.input.size() - bytes.size());
  } else {
    connection.input = bytes;
  }
  return true;
}

void StubServer::close_malformed(Connection& connection) {
  ++findings_.malformed;
  connection = Connection{};
}

/// Takes what it answers off `bytes`.
bool StubServer::answer_all(Connection& connection, std::string_view& bytes) {
  while (const auto message = first_message(bytes)) {
    // Clients wait for their reply, so a second request can only be one that nobody sent.
    if (message->empty() || !connection.output.done()) return false;
    if (!answer(connection, *message)) return false;
    bytes.remove_prefix(message->size());
  }
  return true;
}

bool StubServer::answer(Connection& connection, std::string_view message) {
  const auto request = read_request(message);
  if (!request) return false;
  const std::size_t documents = count_documents(request->documents, connection.checked);
  const std::string_view reply = reply_to(request->command, documents);
  if (reply.empty()) return false;
  connection.output = OutgoingMessage(reply, next_request_id_++, request->request_id);
  send(connection);
  return true;
}

void StubServer::send(Connection& connection) {
  // A connection whose peer is gone goes back to reading, which sees the end and closes it.
  const bool full = connection.stream.send(connection.output) == Sent::waits_for_room;
  if (full == connection.full) return;
  connection.full = full;
  change_watch(epoll_, connection.stream.fd(), full ? EPOLLOUT : EPOLLIN, connection.tag);
}

std::string_view StubServer::reply_to(std::string_view command, std::size_t documents) const {
  for (const Work& work : works_) {
    if (work.command == command && work.documents == documents) return work.reply;
  }
  // An insert of another number of documents than any client sends must not look like success.
  return command == "insert" ? std::string_view() : hello_reply_;
}

/// The number of documents; one more than there can be if they are malformed.
std::size_t StubServer::count_documents(std::string_view documents, bool checked) {
  std::size_t count = 0;
  while (!documents.empty()) {
    const auto document = take_document(documents);
    if (!document) return originals_.size() + 1;
    if (checked && count < originals_.size()) check(*document, count);
    ++count;
  }
  return count;
}

void StubServer::check(std::string_view document, std::size_t index) {
  ++findings_.checked;
  const std::string_view uuid = leading_uuid(document);
  if (uuid.empty()) {
    ++findings_.wrong_ids;
    return;
  }
  const std::string_view rest = document.substr(kLengthBytes + kIdElement.size() + kUuidBytes);
  if (rest != std::string_view(originals_[index]).substr(kLengthBytes)) ++findings_.changed;
  if (!findings_.compare_ids.load(std::memory_order_relaxed)) return;
  ++findings_.compared_ids;
  if (!seen_ids_.emplace(uuid).second) ++findings_.repeated_ids;
}

}  // namespace idproxy::bench
