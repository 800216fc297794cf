#include "insert_load.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <stdexcept>

#include "document.hpp"
#include "element_reader.hpp"
#include "request_reader.hpp"
#include "work.hpp"

namespace idproxy::bench {
namespace {

constexpr int kReplyTimeoutMs = 10'000;
constexpr std::int64_t kDuplicateKey = 11000;
constexpr std::size_t kResponseTo = 8;

constexpr std::size_t kLengthBytes = sizeof(std::int32_t);
constexpr std::size_t kKeyAt = kLengthBytes + 1 + sizeof "_id";
constexpr std::size_t kNumberFromEnd = sizeof(std::int64_t) + 1;

/// The elements of a document, without its length and its terminator.
std::string elements_of(const std::string& document) {
  return document.substr(kLengthBytes, document.size() - kLengthBytes - 1);
}

std::string make_document(std::size_t index, NumberedBy numbered_by) {
  std::string elements = elements_of(Document().int64("_id", 0).bytes());
  elements += elements_of(order_document(index));
  if (numbered_by == NumberedBy::client) {
    elements += elements_of(Document().int64("number", 0).bytes());
  }
  std::string out;
  append_raw(out, static_cast<std::int32_t>(kLengthBytes + elements.size() + 1));
  return out.append(elements).append(1, '\0');
}

/// An OP_MSG with `body` and these documents as a sequence; its requestID is still to be put in.
std::string make_message(const std::string& body, std::string_view documents) {
  constexpr std::string_view kIdentifier("documents\0", 10);
  const std::size_t sequence = kLengthBytes + kIdentifier.size() + documents.size();
  const std::size_t length = kHeaderBytes + sizeof(std::uint32_t) + 1 + body.size() + 1 + sequence;
  std::string out;
  out.reserve(length);
  append_raw(out, static_cast<std::int32_t>(length));
  append_raw(out, std::int32_t{0});  // requestID
  append_raw(out, std::int32_t{0});  // responseTo
  append_raw(out, kOpMsg);
  append_raw(out, std::uint32_t{0});  // flagBits
  out.append(1, '\0').append(body).append(1, '\1');
  append_raw(out, static_cast<std::int32_t>(sequence));
  return out.append(kIdentifier).append(documents);
}

void put(std::string& document, std::size_t at, std::int64_t value) {
  std::memcpy(document.data() + at, &value, sizeof value);
}

}  // namespace

Batch::Batch(const InsertWork& work) : work_(work) {
  body_ = Document()
              .text("insert", work.collection)
              .boolean("ordered", work.order == Order::ordered)
              .text("$db", work.database)
              .bytes();
  for (std::size_t i = 0; i < work.batch; ++i) {
    documents_.push_back(make_document(i, work.numbered_by));
  }
}

void Batch::begin(std::int64_t first_key, std::mt19937_64& random) {
  unstored_.resize(documents_.size());
  std::iota(unstored_.begin(), unstored_.end(), std::size_t{0});
  for (const std::size_t i : unstored_) {
    put(documents_[i], kKeyAt, first_key + static_cast<std::int64_t>(i));
    give_number(i, random);
  }
}

void Batch::give_number(std::size_t document, std::mt19937_64& random) {
  if (work_.numbered_by == NumberedBy::proxy) return;
  std::uniform_int_distribution<std::int64_t> number(0, work_.numbers - 1);
  std::string& bytes = documents_[document];
  put(bytes, bytes.size() - kNumberFromEnd, number(random));
}

std::string_view Batch::message() {
  sequence_.clear();
  for (const std::size_t i : unstored_) sequence_ += documents_[i];
  message_ = make_message(body_, sequence_);
  return message_;
}

bool Batch::take_reply(std::string_view body, std::mt19937_64& random) {
  if (integer_at(body, "ok") != 1) throw std::runtime_error("an insert failed");
  const auto write_errors = find(body, "writeErrors");
  std::vector<std::size_t> again;
  if (write_errors) again = refused(write_errors->value);
  for (const std::size_t i : again) give_number(i, random);
  if (!again.empty() && work_.order == Order::ordered) {  // those behind it were not tried
    const auto tail = std::find(unstored_.begin(), unstored_.end(), again.front());
    again.assign(tail, unstored_.end());
  }
  const std::size_t stored = unstored_.size() - again.size();
  if (integer_at(body, "n") != static_cast<std::int64_t>(stored)) {
    throw std::runtime_error("a reply counts other documents than were stored");
  }
  unstored_ = std::move(again);
  return unstored_.empty();
}

std::vector<std::size_t> Batch::refused(std::string_view write_errors) const {
  if (work_.numbered_by == NumberedBy::proxy) {
    throw std::runtime_error("the proxy let a write error through");
  }
  std::vector<std::size_t> positions;
  ElementReader errors(write_errors);
  while (const auto error = errors.next()) {
    if (integer_at(error->value, "code") != kDuplicateKey) {
      throw std::runtime_error("a document failed, and not because its number is taken");
    }
    positions.push_back(unstored_.at(static_cast<std::size_t>(integer_at(error->value, "index"))));
  }
  return positions;
}

InsertLoad::InsertLoad(std::uint16_t port, InsertWork work)
    : work_(std::move(work)), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  for (std::size_t tag = 0; tag < work_.connections; ++tag) {
    Fd fd = connect_to_loopback(port);
    set_nonblocking(fd);
    watch(epoll_, fd, EPOLLIN, tag);
    connections_.push_back({std::move(fd), Batch(work_), OutgoingMessage(), 0, {}, false});
  }
}

std::uint64_t InsertLoad::run(std::chrono::nanoseconds duration) {
  end_ = std::chrono::steady_clock::now() + duration;
  stored_ = 0;
  for (std::size_t tag = 0; tag < connections_.size(); ++tag) start_batch(tag);
  while (in_flight_ > 0) serve();
  return stored_;
}

void InsertLoad::start_batch(std::size_t tag) {
  connections_[tag].batch.begin(next_key_, random_);
  next_key_ += static_cast<std::int64_t>(work_.batch);
  ++in_flight_;
  start_request(tag);
}

void InsertLoad::start_request(std::size_t tag) {
  Connection& connection = connections_[tag];
  connection.request_id = next_request_id_++;
  connection.request = OutgoingMessage(connection.batch.message(), connection.request_id, 0);
  send(tag);
}

void InsertLoad::send(std::size_t tag) {
  Connection& connection = connections_[tag];
  if (!connection.request.send(connection.fd.get())) {
    throw std::runtime_error("a connection was closed");
  }
  const bool full = !connection.request.done();
  if (full == connection.full) return;
  connection.full = full;
  change_watch(epoll_, connection.fd, full ? EPOLLIN | EPOLLOUT : EPOLLIN, tag);
}

void InsertLoad::serve() {
  std::array<epoll_event, 64> events{};
  const int count = ::epoll_wait(epoll_.get(), events.data(), events.size(), kReplyTimeoutMs);
  if (count == 0) throw std::runtime_error("replies did not come");
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    if ((event.events & EPOLLOUT) != 0) send(event.data.u64);
    if ((event.events & ~static_cast<unsigned>(EPOLLOUT)) != 0) receive(event.data.u64);
  }
}

void InsertLoad::receive(std::size_t tag) {
  Connection& connection = connections_[tag];
  const std::ptrdiff_t received = receive_some(connection.fd, buffer_.data(), buffer_.size());
  if (received < 0) throw std::runtime_error("a connection was closed");
  connection.input.append(buffer_.data(), static_cast<std::size_t>(received));
  const auto message = first_message(connection.input);
  if (!message) return;
  if (message->size() != connection.input.size()) {
    throw std::runtime_error("a reply that nobody asked for");
  }
  const std::string reply = std::move(connection.input);
  connection.input.clear();
  on_reply(tag, reply);
}

void InsertLoad::on_reply(std::size_t tag, std::string_view message) {
  Connection& connection = connections_[tag];
  if (load_raw<std::int32_t>(message, kResponseTo) != connection.request_id) {
    throw std::runtime_error("a reply answers another request");
  }
  if (!connection.batch.take_reply(body_of(message), random_)) return start_request(tag);
  stored_ += work_.batch;
  --in_flight_;
  if (std::chrono::steady_clock::now() < end_) start_batch(tag);
}

}  // namespace idproxy::bench
