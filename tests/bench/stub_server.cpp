#include "stub_server.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "element_reader.hpp"

namespace idproxy::bench {
namespace {

constexpr std::uint64_t kRelayedTag = ~std::uint64_t{0};
constexpr std::uint64_t kCheckedTag = kRelayedTag - 1;
constexpr std::size_t kUuidBytes = 16;

bool is_uuid_7(std::string_view uuid) {
  return (uuid[6] & 0xf0) == 0x70 && (uuid[8] & 0xc0) == 0x80;
}

/// Appends the documents of an insert. False if they are malformed.
bool list_documents(const Request& request, std::vector<std::string_view>& out) {
  std::string_view documents = request.documents;
  while (!documents.empty()) {
    const auto document = take_document(documents);
    if (!document) return false;
    out.push_back(*document);
  }
  if (request.array.empty()) return true;
  try {
    ElementReader elements(request.array);
    while (const auto element = elements.next()) out.push_back(element->value);
  } catch (const std::runtime_error&) {
    return false;
  }
  return true;
}

}  // namespace

std::string require_clean(const Findings& findings) {
  const auto text = [](std::uint64_t count) { return std::to_string(count); };
  const std::string checked = text(findings.checked) + " inserted documents were checked byte by " +
                              "byte, and the values of " + text(findings.compared_ids) +
                              " compared with each other";
  const bool clean = findings.wrong_ids == 0 && findings.repeated_ids == 0 &&
                     findings.changed == 0 && findings.malformed == 0;
  if (clean) return checked + "; all were as they should be.";
  throw std::runtime_error(checked + ": " + text(findings.wrong_ids) + " wrong values, " +
                           text(findings.repeated_ids) + " repeated, " + text(findings.changed) +
                           " documents otherwise changed, " + text(findings.malformed) +
                           " malformed messages");
}

StubServer::StubServer(const std::vector<Work>& works, const Transport& transport,
                       Findings& findings)
    : works_(works),
      transport_(transport),
      findings_(findings),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
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
  const Work* work = work_of(*request, connection.checked);
  // An insert that no client sends must not look like success.
  if (work == nullptr && request->command == "insert") return false;
  const std::string_view reply = work == nullptr ? hello_reply_ : work->reply;
  connection.output = OutgoingMessage(reply, next_request_id_++, request->request_id);
  send(connection);
  return true;
}

void StubServer::send(Connection& connection) {
  // A connection whose peer is gone goes back to reading, which sees the end and closes it.
  const Sent sent = connection.stream.send(connection.output);
  if (sent == Sent::failed) connection.output = OutgoingMessage();
  const bool full = sent == Sent::waits_for_room;
  if (full == connection.full) return;
  connection.full = full;
  change_watch(epoll_, connection.stream.fd(), full ? EPOLLOUT : EPOLLIN, connection.tag);
}

/// The documents of an insert; one after the other.
const Work* StubServer::work_of(const Request& request, bool checked) {
  if (request.command != "insert") {
    const auto found = std::ranges::find_if(works_, [&](const Work& work) {
      return work.command == request.command &&
             (work.collection.empty() || work.collection == request.collection);
    });
    return found == works_.end() ? nullptr : &*found;
  }
  documents_.clear();
  if (!list_documents(request, documents_)) return nullptr;
  const auto found = std::ranges::find_if(works_, [&](const Work& work) {
    return work.documents == documents_.size() && work.collection == request.collection;
  });
  if (found == works_.end()) return nullptr;
  if (checked) {
    for (std::size_t i = 0; i < documents_.size(); ++i) {
      check(documents_[i], found->stored[i % found->stored.size()]);
    }
  }
  return &*found;
}

void StubServer::check(std::string_view document, const StoredDocument& stored) {
  ++findings_.checked;
  if (document.size() != stored.bytes.size()) {
    ++findings_.changed;
    return;
  }
  std::size_t at = 0;
  for (const std::size_t hole : stored.uuids) {
    if (document.substr(at, hole - at) != std::string_view(stored.bytes).substr(at, hole - at)) {
      ++findings_.changed;
    }
    const std::string_view uuid = document.substr(hole, kUuidBytes);
    if (!is_uuid_7(uuid)) ++findings_.wrong_ids;
    at = hole + kUuidBytes;
    if (!findings_.compare_ids.load(std::memory_order_relaxed)) continue;
    ++findings_.compared_ids;
    if (!seen_ids_.emplace(uuid).second) ++findings_.repeated_ids;
  }
  if (document.substr(at) != std::string_view(stored.bytes).substr(at)) ++findings_.changed;
}

}  // namespace idproxy::bench
