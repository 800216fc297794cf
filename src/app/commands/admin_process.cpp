#include "app/commands/admin_process.hpp"

#include <pwd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>

#include "idproxy/base/typed_command.hpp"

namespace idproxy::app::commands {
namespace {

namespace fs = std::filesystem;
namespace ip = boost::asio::ip;
using Outcome = boost::system::result<void, NotSignalled>;

constexpr const char* kService = "mongo-idproxy";  // its unit, and its user where it has one
constexpr const char* kInContainer =
    "if it is in a container, type mongo-idproxy reload there, as its user, or docker kill "
    "--signal=HUP CONTAINER";

std::string process_path(int pid, const char* name) {
  return "/proc/" + std::to_string(pid) + "/" + name;
}

// ---- the listening socket
// ------------------------------------------------------------------------

/// As proc_net_tcp(5) has it: words of four bytes, each as a number of this machine.
template <class Bytes>
std::string in_table(const Bytes& address, unsigned port) {
  std::string text;
  std::array<char, 9> word{};
  for (std::size_t at = 0; at < address.size(); at += 4) {
    std::uint32_t value = 0;
    std::memcpy(&value, address.data() + at, sizeof value);
    (void)std::snprintf(word.data(), word.size(), "%08X", value);
    text += word.data();
  }
  (void)std::snprintf(word.data(), word.size(), ":%04X", port);
  return text + word.data();
}

/// The names that a socket may have which takes connections to `place`.
std::set<std::string> rows_of(const ip::tcp::endpoint& place) {
  const unsigned port = place.port();
  std::set<std::string> names{in_table(ip::address_v4::any().to_bytes(), port),
                              in_table(ip::address_v6::any().to_bytes(), port)};
  if (place.address().is_v6()) {
    names.insert(in_table(place.address().to_v6().to_bytes(), port));
  } else {
    const ip::address_v4 address = place.address().to_v4();
    names.insert(in_table(address.to_bytes(), port));
    names.insert(in_table(ip::make_address_v6(ip::v4_mapped, address).to_bytes(), port));
  }
  return names;
}

/// The links in /proc/PID/fd of the sockets of this network that listen there: "socket:[INODE]".
std::set<std::string> sockets_at(const ip::tcp::endpoint& place) {
  constexpr std::string_view kListens = "0A";
  constexpr int kBetween = 5;  // fields behind the state, before the inode
  const std::set<std::string> names = rows_of(place);
  std::set<std::string> sockets;
  for (const char* table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream file(table);
    for (std::string line; std::getline(file, line);) {
      std::istringstream fields(line);
      std::string skipped;
      std::string local;
      std::string state;
      fields >> skipped >> local >> skipped >> state;
      if (state != kListens || !names.contains(local)) continue;
      for (int i = 0; i < kBetween; ++i) fields >> skipped;
      std::string inode;
      fields >> inode;
      sockets.insert("socket:[" + inode + "]");
    }
  }
  return sockets;
}

enum class Holds { one, none, not_told };

/// Whether the process holds one of them; not_told: only to root, and in a container not even to
/// root, which lacks CAP_SYS_PTRACE there.
Holds look_for(const std::set<std::string>& sockets, int pid) {
  std::error_code error;
  fs::directory_iterator each(process_path(pid, "fd"), error);
  bool is_denied = error == std::errc::permission_denied;
  for (; !error && each != fs::directory_iterator(); each.increment(error)) {
    std::error_code fault;  // it has been closed meanwhile, or may not be seen
    if (sockets.contains(fs::read_symlink(each->path(), fault).string())) return Holds::one;
    is_denied = is_denied || fault == std::errc::permission_denied;
  }
  return is_denied ? Holds::not_told : Holds::none;
}

/// An address of this host: one can be bound to it.
bool is_here(const ip::address& address) {
  boost::asio::io_context io;
  boost::system::error_code error;
  ip::tcp::socket socket(io);
  const ip::tcp::endpoint any_port(address, 0);
  if (socket.open(any_port.protocol(), error)) return false;
  return !socket.bind(any_port, error);
}

// ---- the program and its owner
// -------------------------------------------------------------------

/// The path of its program, without what Linux adds once a newer one has its place.
std::string program_of(const std::string& link) {
  constexpr std::string_view kDeleted = " (deleted)";
  std::error_code error;
  std::string path = fs::read_symlink(link, error).string();
  if (path.ends_with(kDeleted)) path.resize(path.size() - kDeleted.size());
  return path;
}

bool is_same_file(const std::string& a, const std::string& b) {
  struct stat of_a{};
  struct stat of_b{};
  if (::stat(a.c_str(), &of_a) != 0 || ::stat(b.c_str(), &of_b) != 0) return false;
  return of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
}

bool has_this_program(int pid) {
  const std::string its = process_path(pid, "exe");
  const std::string own = "/proc/self/exe";
  return is_same_file(its, own) || (!program_of(its).empty() && program_of(its) == program_of(own));
}

/// The one user that it is; nothing: it is several, or has ended. Who owns /proc/PID says less: a
/// process can have that changed to root.
std::optional<uid_t> user_of(int pid) {
  std::ifstream file(process_path(pid, "status"));
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("Uid:")) continue;
    std::istringstream fields(line.substr(4));
    std::array<uid_t, 4> ids{};
    for (uid_t& id : ids) fields >> id;
    if (!fields || std::ranges::count(ids, ids.front()) != 4) return std::nullopt;
    return ids.front();
  }
  return std::nullopt;
}

bool is_user_of_service(uid_t user) {
  const passwd* entry = ::getpwuid(user);  // NOLINT(concurrency-mt-unsafe): there is one thread
  return entry != nullptr && std::string_view(entry->pw_name) == kService;
}

/// Where systemd may have put it: in the unified hierarchy, or in one of its own (cgroups(7)).
/// Where both are mounted, one has no units.
std::vector<fs::path> groups_of(int pid) {
  std::vector<fs::path> groups;
  std::ifstream file(process_path(pid, "cgroup"));
  for (std::string line; std::getline(file, line);) {
    line.erase(0, line.find(':') + 1);  // the hierarchy's number
    for (const std::string_view hierarchy : {":", "name=systemd:"}) {
      if (line.starts_with(hierarchy)) groups.emplace_back(line.substr(hierarchy.size()));
    }
  }
  return groups;
}

/// Its unit of the system: only root can have put it there. "": it has none. Services may have
/// groups of their own within theirs, so that what stands first behind the slices counts.
std::string unit_of(int pid) {
  for (const fs::path& group : groups_of(pid)) {
    for (const fs::path& part : group.relative_path()) {
      std::string name = part.string();
      if (name == "user.slice") return "";
      if (name.ends_with(".service")) return name;
      if (!name.ends_with(".slice")) break;
    }
  }
  return "";
}

bool has_owner_of_service(int pid) {
  const auto user = user_of(pid);
  if (!user) return false;
  if (*user == ::geteuid()) return true;
  return ::geteuid() == 0 && (is_user_of_service(*user) || unit_of(pid).starts_with(kService));
}

// ---- the signal
// ----------------------------------------------------------------------------------

Outcome refused(ExitCode code, std::string why, std::string instead) {
  return NotSignalled{code, std::move(why), std::move(instead)};
}

/// What to type for a process that may be the proxy.
std::string ways_to(int pid) {
  const std::string unit = unit_of(pid);
  if (unit.empty())
    return std::string("if it is the proxy, type this as its user; ") + kInContainer;
  return "if it is the proxy: sudo systemctl reload " + in_shell(unit);
}

Outcome another_users(int pid) {
  const bool is_root = ::geteuid() == 0;
  return refused(ExitCode::no_permission,
                 "process " + std::to_string(pid) + " is another user's, and " +
                     (is_root ? "root may not see here, without CAP_SYS_PTRACE, what it has open"
                              : "takes no signal from this one"),
                 (is_root ? "" : "be root, or ") + ways_to(pid));
}

Outcome look_at(int pid, const ip::tcp::endpoint& admin) {
  const std::string name = "process " + std::to_string(pid);
  const Holds holds = look_for(sockets_at(admin), pid);
  if (holds == Holds::not_told) return another_users(pid);
  if (holds == Holds::none) {
    return refused(ExitCode::unavailable,
                   name + ", which the answer names, does not listen there on this host",
                   kInContainer);
  }
  if (!has_this_program(pid)) {
    return refused(ExitCode::unavailable,
                   name + " listens there, and is another program than this one, " +
                       program_of("/proc/self/exe"),
                   ways_to(pid));
  }
  if (has_owner_of_service(pid)) return boost::system::in_place_value;
  return refused(ExitCode::no_permission,
                 name + " listens there, and is neither this user's nor the service's",
                 ways_to(pid));
}

}  // namespace

// The header of glibc 2.36 for the system calls is not for C++.
ProxyProcess::ProxyProcess(int pid)
    : pid_(pid), descriptor_(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))) {}

ProxyProcess::~ProxyProcess() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

boost::system::result<ProxyProcess, NotSignalled> ProxyProcess::find(
    int pid, const ip::tcp::endpoint& admin) {
  if (pid <= 0 || !is_here(admin.address())) {
    return NotSignalled{ExitCode::unavailable,
                        "what answers is not on this host, or does not say which process it is",
                        kInContainer};
  }
  ProxyProcess process(pid);  // before anything is looked at
  if (auto looked = look_at(pid, admin); !looked) return looked.error();
  return process;
}

Outcome ProxyProcess::signal_reload() const {
  const bool is_sent = ::syscall(SYS_pidfd_send_signal, descriptor_, SIGHUP, nullptr, 0) == 0;
  if (is_sent) return boost::system::in_place_value;
  if (errno == EPERM) return another_users(pid_);
  return refused(ExitCode::unavailable, "the proxy's process has ended",
                 "see systemctl status mongo-idproxy");
}

}  // namespace idproxy::app::commands
