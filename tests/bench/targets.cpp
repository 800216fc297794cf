#include "targets.hpp"

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "sockets.hpp"
#include "work.hpp"

namespace idproxy::bench {
namespace {

constexpr std::array kNames{"haproxy", "nginx", "envoy", "relay", "idproxy"};

}  // namespace

std::string_view name_of(TargetKind kind) {
  return kNames[index_of(kind)];
}

Launcher::Launcher(Programs programs, StubPorts stub, int core, std::optional<CertificateFiles> tls,
                   TlsSides sides, ListensOn listens_on)
    : programs_(std::move(programs)),
      stub_(stub),
      core_(core),
      tls_(std::move(tls)),
      sides_(sides),
      listens_on_(listens_on) {}

Launcher::~Launcher() {
  if (std::uncaught_exceptions() == 0) return;
  for (const std::string& name : started_) std::cerr << end_of(directory_ / (name + ".log"));
}

Target Launcher::start(TargetKind kind) {
  const std::uint16_t port = free_port();
  return start(std::string(name_of(kind)), port, command(kind, port));
}

Target Launcher::start(const Variant& variant) {
  const std::uint16_t port = free_port();
  const std::string& program =
      variant.program.empty() ? programs_[index_of(TargetKind::idproxy)] : variant.program;
  return start(variant.name, port, {program, "--config", write_idproxy_config(variant, port)});
}

Target Launcher::start_haproxy(int threads) {
  const std::uint16_t port = free_port();
  const std::string name =
      "haproxy, " + std::to_string(threads) + (threads == 1 ? " thread" : " threads");
  return start(name, port, haproxy_command(port, threads));
}

Target Launcher::start(std::string name, std::uint16_t port, std::vector<std::string> command) {
  started_.push_back(name);
  Server server = start_server(port, std::move(command), core_, directory_ / (name + ".log"));
  return {std::move(name), port, std::move(server.process)};
}

std::vector<Target> Launcher::start_all() {
  std::vector<Target> targets;
  for (const TargetKind kind : kTargetKinds) {
    if (has(kind)) targets.push_back(start(kind));
  }
  return targets;
}

std::vector<std::string> Launcher::command(TargetKind kind, std::uint16_t port) const {
  const std::string& program = programs_[index_of(kind)];
  switch (kind) {
    case TargetKind::haproxy:
      return haproxy_command(port, 1);
    case TargetKind::nginx:
      return {program, "-e", "stderr", "-c", write_nginx_config(port)};
    case TargetKind::envoy:
      return {program, "--disable-hot-restart", "--concurrency", "1", "--log-level", "warning",
              "-c",    write_envoy_config(port)};
    case TargetKind::relay:
      return {program, std::to_string(port), std::to_string(stub_.relayed)};
    case TargetKind::idproxy:
      return {program, "--config", write_idproxy_config({"idproxy"}, port)};
  }
  std::abort();
}

std::vector<std::string> Launcher::haproxy_command(std::uint16_t port, int threads) const {
  return {programs_[index_of(TargetKind::haproxy)], "-db", "-f",
          write_haproxy_config(port, threads)};
}

std::string Launcher::write_haproxy_config(std::uint16_t port, int threads) const {
  const std::string path = directory_ / ("haproxy-" + std::to_string(threads) + ".cfg");
  const std::string downstream = tls_ ? " ssl crt " + tls_->certificate_key : "";
  const bool begins = tls_ && sides_ == TlsSides::both;
  const std::string upstream = begins ? " ssl verify required ca-file " + tls_->ca : "";
  std::ofstream(path) << "global\n  nbthread " << threads << "\n  maxconn " << kMaxConnections
                      << "\n"
                      << "defaults\n  mode tcp\n  timeout connect 5s\n"
                      << "  timeout client 1h\n  timeout server 1h\n"
                      << "listen bench\n  bind "
                      << (listens_on_ == ListensOn::port ? "127.0.0.1:" + std::to_string(port)
                                                         : "unix@" + unix_socket_of(port))
                      << downstream << "\n"
                      << "  server stub 127.0.0.1:" << stub_.relayed << upstream << "\n";
  return path;
}

std::string Launcher::write_nginx_config(std::uint16_t port) const {
  const std::string path = directory_ / "nginx.conf";
  const auto prefix = std::filesystem::path(programs_[index_of(TargetKind::nginx)])
                          .parent_path()   // sbin
                          .parent_path();  // usr
  // One process, so that its CPU time is all of it.
  std::ofstream(path) << "daemon off;\nmaster_process off;\nerror_log stderr error;\npid "
                      << (directory_ / "nginx.pid") << ";\n"
                      << "load_module "
                      << (prefix / "lib/nginx/modules/ngx_stream_module.so").string() << ";\n"
                      << "events { worker_connections " << 2 * kMaxConnections << "; }\n"
                      << "stream {\n  server {\n    listen 127.0.0.1:" << port << ";\n"
                      << "    proxy_pass 127.0.0.1:" << stub_.relayed << ";\n"
                      << "    proxy_timeout 1h;\n  }\n}\n";
  return path;
}

std::string Launcher::write_envoy_config(std::uint16_t port) const {
  const std::string path = directory_ / "envoy.yaml";
  const auto address = [](std::uint16_t of) {
    return "{socket_address: {address: 127.0.0.1, port_value: " + std::to_string(of) + "}}";
  };
  std::ofstream(path)
      << "static_resources:\n  listeners:\n  - address: " << address(port) << "\n"
      << "    filter_chains:\n    - filters:\n      - name: envoy.filters.network.tcp_proxy\n"
      << "        typed_config:\n"
      << "          \"@type\": type.googleapis.com/"
         "envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy\n"
      << "          stat_prefix: bench\n          cluster: stub\n          idle_timeout: 0s\n"
      << "  clusters:\n  - name: stub\n    type: STATIC\n    connect_timeout: 5s\n"
      << "    circuit_breakers: {thresholds: [{max_connections: " << kMaxConnections << "}]}\n"
      << "    load_assignment:\n      cluster_name: stub\n"
      << "      endpoints: [{lb_endpoints: [{endpoint: {address: " << address(stub_.relayed)
      << "}}]}]\n";
  return path;
}

std::string Launcher::write_idproxy_config(const Variant& variant, std::uint16_t port) const {
  const std::string path = directory_ / (variant.name + ".yaml");
  const std::string downstream =
      tls_ ? ", tls: {mode: require, certificate_key_file: " + tls_->certificate_key + "}" : "";
  const bool begins = tls_ && sides_ == TlsSides::both;
  const std::string upstream = begins ? "&tls=true&tlsCAFile=" + tls_->ca : "";
  std::ofstream file(path);
  file << "listen: {"
       << (listens_on_ == ListensOn::port ? "address: 127.0.0.1, port: " + std::to_string(port)
                                          : "address: 'unix:" + unix_socket_of(port) + "'")
       << ", max_connections: " << variant.max_connections << downstream << "}\n"
       << "upstream: {uri: \"mongodb://127.0.0.1:" << stub_.checked << "/?directConnection=true"
       << upstream << "\"}\n"
       << "admin: {listen: null}\n"
       // The stub answers inserts, and is no server for the proxy's own questions.
       << "id_store: {uri: \"mongodb://127.0.0.1:9/\"}\n"
       // Connections are silent until it is their turn.
       << "limits: {first_byte: 5m}\n"
       << "threads: " << variant.threads << "\n"
       << "log: {level: warning, format: json}\n"
       << "rules:\n";
  for (int i = 0; i < variant.rules; ++i) {
    file << "  - {ns: 'shop.orders-" << i << "-*', field: number, strategy: uuid, version: 7}\n";
  }
  file << rules_of_works();
  return path;
}

}  // namespace idproxy::bench
