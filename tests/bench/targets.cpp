#include "targets.hpp"

#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>

#include "sockets.hpp"
#include "work.hpp"

namespace idproxy::bench {
namespace {

constexpr int kMaxConnections = 4000;  // of each proxy: tables are made for them
constexpr std::array kNames{"haproxy", "relay", "idproxy"};

}  // namespace

std::string_view name_of(TargetKind kind) {
  return kNames[column_of(kind)];
}

Launcher::Launcher(Programs programs, StubPorts stub, int core, std::optional<CertificateFiles> tls)
    : programs_(std::move(programs)), stub_(stub), core_(core), tls_(std::move(tls)) {}

Launcher::~Launcher() {
  if (std::uncaught_exceptions() > 0) std::cerr << end_of(file(TargetKind::idproxy, ".log"));
}

Target Launcher::start(TargetKind kind) const {
  const std::uint16_t port = free_port();
  Server server = start_server(port, command(kind, port), core_, file(kind, ".log"));
  return {kind, port, std::move(server.process)};
}

std::vector<Target> Launcher::start_all() const {
  std::vector<Target> targets;
  for (const auto kind : {TargetKind::haproxy, TargetKind::relay, TargetKind::idproxy}) {
    if (has(kind)) targets.push_back(start(kind));
  }
  return targets;
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
  const std::string downstream = tls_ ? " ssl crt " + tls_->certificate_key : "";
  const std::string upstream = tls_ ? " ssl verify required ca-file " + tls_->ca : "";
  std::ofstream(path) << "global\n  nbthread 1\n  maxconn " << kMaxConnections << "\n"
                      << "defaults\n  mode tcp\n  timeout connect 5s\n"
                      << "  timeout client 1h\n  timeout server 1h\n"
                      << "listen bench\n  bind 127.0.0.1:" << port << downstream << "\n"
                      << "  server stub 127.0.0.1:" << stub_.relayed << upstream << "\n";
  return path;
}

std::string Launcher::write_idproxy_config(std::uint16_t port) const {
  const std::string path = file(TargetKind::idproxy, ".yaml");
  const std::string downstream =
      tls_ ? ", tls: {mode: require, certificate_key_file: " + tls_->certificate_key + "}" : "";
  const std::string upstream = tls_ ? "&tls=true&tlsCAFile=" + tls_->ca : "";
  std::ofstream(path) << "listen: {address: 127.0.0.1, port: " << port
                      << ", max_connections: " << kMaxConnections << downstream << "}\n"
                      << "upstream: {uri: \"mongodb://127.0.0.1:" << stub_.checked
                      << "/?directConnection=true" << upstream << "\"}\n"
                      << "admin: {listen: null}\n"
                      // The stub answers inserts, and is no server for the proxy's own questions.
                      << "id_store: {uri: \"mongodb://127.0.0.1:9/\"}\n"
                      << "threads: 1\n"
                      << "log: {level: warning, format: json}\n"
                      << "rules: " << rules_of_works() << "\n";
  return path;
}

std::string Launcher::file(TargetKind kind, std::string_view extension) const {
  return directory_ / std::string(name_of(kind)).append(extension);
}

}  // namespace idproxy::bench
