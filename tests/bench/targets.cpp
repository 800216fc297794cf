#include "targets.hpp"

#include <chrono>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "sockets.hpp"

namespace idproxy::bench {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

constexpr std::array kNames{"haproxy", "relay", "idproxy"};
constexpr std::size_t kLogBytesShown = 2000;

std::filesystem::path make_directory() {
  std::string path = std::filesystem::temp_directory_path() / "idproxy-bench-XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) throw_errno("mkdtemp");
  return path;
}

bool accepts_connections(std::uint16_t port) {
  try {
    connect_to_loopback(port);
    return true;
  } catch (const std::system_error&) {
    return false;
  }
}

bool comes_up(Target& target) {
  const auto end = std::chrono::steady_clock::now() + 10s;
  while (target.process.alive() && std::chrono::steady_clock::now() < end) {
    if (accepts_connections(target.port)) return true;
    std::this_thread::sleep_for(10ms);
  }
  return false;
}

}  // namespace

std::string_view name_of(TargetKind kind) {
  return kNames[column_of(kind)];
}

Launcher::Launcher(Programs programs, StubPorts stub, int core)
    : programs_(std::move(programs)), stub_(stub), core_(core), directory_(make_directory()) {}

Launcher::~Launcher() {
  if (std::uncaught_exceptions() > 0) std::cerr << log_of(TargetKind::idproxy);
  std::error_code ignored;  // a temporary file left behind is no failure of a measurement
  std::filesystem::remove_all(directory_, ignored);
}

Target Launcher::start(TargetKind kind) const {
  const std::uint16_t port = free_port();
  Target target{kind, port, Child::run(command(kind, port), core_, file(kind, ".log"))};
  if (!comes_up(target)) {
    throw std::runtime_error(std::string(name_of(kind)) + " does not start\n" + log_of(kind));
  }
  return target;
}

std::vector<Target> Launcher::start_all() const {
  std::vector<Target> targets;
  for (const auto kind : {TargetKind::haproxy, TargetKind::relay, TargetKind::idproxy}) {
    if (has(kind)) targets.push_back(start(kind));
  }
  return targets;
}

std::string Launcher::log_of(TargetKind kind) const {
  std::ostringstream log;
  log << std::ifstream(file(kind, ".log")).rdbuf();
  const std::string text = log.str();
  return text.size() <= kLogBytesShown ? text : text.substr(text.size() - kLogBytesShown);
}

std::vector<std::string> Launcher::command(TargetKind kind, std::uint16_t port) const {
  const std::string& program = programs_[column_of(kind)];
  switch (kind) {
    case TargetKind::haproxy:
      return {program, "-db", "-f", write_haproxy_config(port)};
    case TargetKind::relay:
      return {program, std::to_string(port), std::to_string(stub_.relayed)};
    case TargetKind::idproxy:
      return {program, "--config", write_idproxy_config(port)};
  }
  std::abort();
}

std::string Launcher::write_haproxy_config(std::uint16_t port) const {
  const std::string path = file(TargetKind::haproxy, ".cfg");
  std::ofstream(path) << "global\n  nbthread 1\n  maxconn 4000\n"
                      << "defaults\n  mode tcp\n  timeout connect 5s\n"
                      << "  timeout client 1h\n  timeout server 1h\n"
                      << "listen bench\n  bind 127.0.0.1:" << port << "\n"
                      << "  server stub 127.0.0.1:" << stub_.relayed << "\n";
  return path;
}

std::string Launcher::write_idproxy_config(std::uint16_t port) const {
  const std::string path = file(TargetKind::idproxy, ".yaml");
  std::ofstream(path) << "listen: {address: 127.0.0.1, port: " << port << "}\n"
                      << "upstream: {uri: \"mongodb://127.0.0.1:" << stub_.checked
                      << "/?directConnection=true\"}\n"
                      << "admin: {listen: null}\n"
                      << "threads: 1\n"
                      << "log: {level: warning, format: json}\n"
                      << "rules: [{ns: \"bench.*\", field: _id, strategy: uuid, version: 7}]\n";
  return path;
}

std::string Launcher::file(TargetKind kind, std::string_view extension) const {
  return directory_ / std::string(name_of(kind)).append(extension);
}

}  // namespace idproxy::bench
