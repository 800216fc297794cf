#pragma once

#include <boost/system/result.hpp>
#include <memory>
#include <span>
#include <string>

#include "idproxy/base/listen_fault.hpp"
#include "idproxy/net/options.hpp"
#include "net/event_loop.hpp"
#include "net/file_descriptor.hpp"
#include "net/io_thread.hpp"
#include "net/sockets.hpp"
#include "net/upstream.hpp"

namespace idproxy::net {

/// Opens a socket that listens at `endpoint`, an IP address (port 0: any free port) or a Unix
/// socket.
[[nodiscard]] boost::system::result<FileDescriptor> listen_at(const Endpoint& endpoint);

/// Accepts the clients of one server and assigns them to the io threads in turn. Lives on the first
/// io thread.
///
/// Shared ownership, because it may be accepting clients when it is stopped.
class Listener final : public std::enable_shared_from_this<Listener>, private EventLoop::Watcher {
 public:
  Listener(std::span<const std::unique_ptr<IoThread>> threads, std::shared_ptr<Upstream> upstream);
  ~Listener() { stop(); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  /// Opens the socket and sets the actual port in the upstream's route.
  [[nodiscard]] ListenFault open();
  void start();
  void stop();

 private:
  void ready(std::uint32_t /*events*/) override { accept(); }
  void accept();
  [[nodiscard]] FileDescriptor next_client();
  void admit(IoThread& thread, FileDescriptor socket);
  void pause(const error_code& error);
  void turn_one_away();

  std::span<const std::unique_ptr<IoThread>> threads_;
  std::shared_ptr<Upstream> upstream_;
  FileDescriptor socket_;
  Timer pause_;
  std::size_t next_thread_ = 0;
};

}  // namespace idproxy::net
