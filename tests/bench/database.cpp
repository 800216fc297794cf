#include "database.hpp"

#include <sys/socket.h>
#include <sys/time.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <vector>

#include "element_reader.hpp"
#include "outgoing_message.hpp"
#include "request_reader.hpp"
#include "sockets.hpp"

namespace idproxy::bench {
namespace {

constexpr timeval kReplyTimeout{60, 0};

/// The server's word, for a message.
std::string text_of(std::string_view reply, std::string_view name) {
  const auto element = find(reply, name);
  if (!element || element->type != '\x02') return "it gives no reason";
  const std::string_view text = element->value.substr(sizeof(std::int32_t));
  return std::string(text.substr(0, text.find('\0')));
}

}  // namespace

std::string make_message(const std::string& body, std::string_view documents) {
  constexpr std::string_view kIdentifier("documents\0", 10);
  const std::size_t sequence =
      documents.empty() ? 0 : sizeof(std::int32_t) + kIdentifier.size() + documents.size();
  std::size_t length = kHeaderBytes + sizeof(std::uint32_t) + 1 + body.size();
  if (sequence > 0) length += 1 + sequence;
  std::string out;
  out.reserve(length);
  append_raw(out, static_cast<std::int32_t>(length));
  append_raw(out, std::int32_t{0});  // requestID
  append_raw(out, std::int32_t{0});  // responseTo
  append_raw(out, kOpMsg);
  append_raw(out, std::uint32_t{0});  // flagBits
  out.append(1, '\0').append(body);
  if (sequence == 0) return out;
  out.push_back('\1');
  append_raw(out, static_cast<std::int32_t>(sequence));
  return out.append(kIdentifier).append(documents);
}

Server start_mongod(const std::string& program, const TemporaryDirectory& directory, int core) {
  const std::uint16_t port = free_port();
  const std::string data = directory / "data";
  std::filesystem::create_directory(data);
  const std::string log = directory / "mongod.log";
  return start_server(port,
                      {program, "--dbpath", data, "--port", std::to_string(port), "--bind_ip",
                       "127.0.0.1", "--nounixsocket", "--wiredTigerCacheSizeGB", "1", "--syncdelay",
                       "0", "--setParameter", "diagnosticDataCollectionEnabled=false"},
                      core, log);
}

Server start_idproxy(const std::string& program, std::string text,
                     const TemporaryDirectory& directory, int core) {
  const std::uint16_t port = free_port();
  constexpr std::string_view kPort = "PORT";
  text.replace(text.find(kPort), kPort.size(), std::to_string(port));
  const std::string config = directory / "idproxy.yaml";
  std::ofstream(config) << text;
  return start_server(port, {program, "--config", config}, core, directory / "idproxy.log");
}

Database::Database(std::uint16_t port, std::string name)
    : fd_(connect_to_loopback(port)), name_(std::move(name)) {
  ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &kReplyTimeout, sizeof kReplyTimeout);
}

std::string Database::run(Document command, std::string_view documents) {
  return run_on(name_, std::move(command), documents);
}

std::string Database::run_on(std::string_view database, Document command,
                             std::string_view documents) {
  const std::string message = make_message(command.text("$db", database).bytes(), documents);
  OutgoingMessage request(message, ++request_id_, 0);
  while (!request.done()) {
    if (!request.send(fd_.get())) throw std::runtime_error("mongod closed a connection");
  }
  static std::vector<char> buffer(kReadBytes);
  std::string input;
  while (!first_message(input)) {
    const std::ptrdiff_t received = receive_some(fd_, buffer.data(), buffer.size());
    if (received <= 0) throw std::runtime_error("a reply of mongod did not come");
    input.append(buffer.data(), static_cast<std::size_t>(received));
  }
  const std::string reply(body_of(input));
  if (integer_at(reply, "ok") != 1 || find(reply, "writeErrors")) {
    throw std::runtime_error("mongod refuses a command: " + text_of(reply, "errmsg"));
  }
  return reply;
}

}  // namespace idproxy::bench
