#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/system/result.hpp>
#include <string>
#include <utility>

#include "idproxy/app/command_line.hpp"

namespace idproxy::app::commands {

/// Why a process gets no signal, and how a command ends then.
struct NotSignalled {
  ExitCode code;
  std::string why;
  std::string instead;  ///< what to do, for `reload`
};

/// The process of a proxy of this host. Its number cannot come to mean another one meanwhile.
class ProxyProcess {
 public:
  /// The proxy that has answered at `admin`, and says that it is process `pid`. It is found only if
  /// this process holds the listening socket there, in this network, and has this program and the
  /// service's owner: what answers may be on another host, or no proxy.
  [[nodiscard]] static boost::system::result<ProxyProcess, NotSignalled> find(
      int pid, const boost::asio::ip::tcp::endpoint& admin);
  ProxyProcess(ProxyProcess&& other) noexcept
      : pid_(other.pid_), descriptor_(std::exchange(other.descriptor_, -1)) {}
  ProxyProcess& operator=(ProxyProcess&&) = delete;
  ~ProxyProcess();

  /// Sends SIGHUP.
  [[nodiscard]] boost::system::result<void, NotSignalled> signal_reload() const;

 private:
  explicit ProxyProcess(int pid);

  int pid_;
  int descriptor_;  // of the process; negative: it has ended
};

}  // namespace idproxy::app::commands
