#include "app/doctor/host_check.hpp"

#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include "app/descriptors.hpp"
#include "idproxy/base/words.hpp"

namespace idproxy::app::doctor {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

// ---- the configuration -------------------------------------------------------------------------

/// How to run the doctor with what only the service has. It takes nothing from a running process:
/// anybody can start one that is called as the proxy is.
Commands ways_to_variables(const std::string& file, bool are_credentials) {
  std::error_code error;
  const std::string whole = std::filesystem::absolute(file, error);  // a unit starts elsewhere
  const auto with_doctor = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"mongo-idproxy", "doctor", "--config", whole});
    return words;
  };
  if (are_credentials) {
    return Commands().shell(with_doctor(
        {"sudo", "env", "CREDENTIALS_DIRECTORY=/run/credentials/mongo-idproxy.service"}));
  }
  return Commands()
      .shell({"systemctl", "show", "--property=Environment,EnvironmentFiles", "mongo-idproxy"})
      .shell(with_doctor({"sudo", "systemd-run", "--pipe", "--wait", "--collect",
                          "--property=EnvironmentFile=/etc/mongo-idproxy/environment"}));
}

/// To have systemd hand a file over to the unit's user, who can read none that is not open to all.
Commands passing_on(const std::string& file) {
  return Commands()
      .shell({"sudo", "systemctl", "edit", "mongo-idproxy"})
      .shell({"sudoedit", as_path(file)})
      .shell({"sudo", "systemctl", "restart", "mongo-idproxy"});
}

void add_finding(const std::string& file, const FileFinding& said, DoctorCheck& check) {
  using About = FileFinding::About;
  const std::string& named = said.other_file;
  const auto add = [&](const FindingKind& kind, std::string subject, Commands commands) {
    check.add(kind, std::move(subject), said.message, std::move(commands));
  };
  switch (said.about) {
    case About::secret_file:
      return add(
          finding::kSecretFileOpen, named,
          Commands().shell({"sudo", "chmod", "o-rwx", as_path(named)}).append(passing_on(file)));
    case About::certificate:
      if (named.empty()) break;
      // Lists certificates, keys and CRLs, whatever of these the file is for.
      return add(finding::kCertificateUnusable, named,
                 Commands().shell({"sudo", "openssl", "storeutl", "-noout", as_path(named)}));
    case About::password:
      return add(finding::kPasswordInFile, file,
                 Commands()
                     .shell({"sudo", "touch", named})
                     .shell({"sudo", "chmod", "go-rwx", named})
                     .shell({"sudoedit", named})
                     .append(passing_on(file)));
    case About::variable:
    case About::credentials:
      return add(finding::kVariableUndefined, file,
                 ways_to_variables(file, said.about == About::credentials));
    case About::certificate_date:
    case About::text:
      break;
  }
  const bool is_error = said.severity == FileFinding::Severity::error;
  const std::string at = std::to_string(said.place.line) + ":" + std::to_string(said.place.column);
  add(is_error ? finding::kConfigError : finding::kConfigWarning,
      said.place.line > 0 ? file + ":" + at : file, Commands().shell({"sudoedit", as_path(file)}));
}

// ---- ports -------------------------------------------------------------------------------------

/// Why nobody can listen there now; no error: one can.
error_code fault_of_tcp(const net::Endpoint& endpoint) {
  error_code error;
  const auto address = asio::ip::make_address(endpoint.host, error);
  if (error) return error;
  asio::io_context io;
  const asio::ip::tcp::endpoint place(address, endpoint.port);
  asio::ip::tcp::acceptor acceptor(io);
  if (acceptor.open(place.protocol(), error)) return error;
  // As the proxy does it: the ends of old connections do not count.
  if (acceptor.set_option(asio::socket_base::reuse_address(true), error)) return error;
  (void)acceptor.bind(place, error);
  return error;
}

/// The proxy removes a socket that nobody listens at.
error_code fault_of_unix(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path();
  if (::access(folder.c_str(), W_OK) != 0) {
    return {errno, boost::system::system_category()};
  }
  asio::io_context io;
  asio::local::stream_protocol::socket socket(io);
  error_code error;
  (void)socket.connect(asio::local::stream_protocol::endpoint(path), error);
  return error ? error_code{} : make_error_code(boost::system::errc::address_in_use);
}

error_code fault_of(const net::Endpoint& endpoint) {
  return endpoint.unix_path.empty() ? fault_of_tcp(endpoint) : fault_of_unix(endpoint.unix_path);
}

/// `whose`: what may be said of the one that listens there.
void add_fault(const net::Endpoint& endpoint, const std::string& purpose, const error_code& fault,
               const std::string& whose, DoctorCheck& check) {
  const bool is_local = !endpoint.unix_path.empty();
  if (fault == boost::system::errc::address_in_use) {
    return check.add(finding::kPortInUse, endpoint.text(),
                     "another process listens at " + endpoint.text() + ", which is for " + purpose +
                         ": stop that process, or choose another port" + whose,
                     is_local ? Commands().shell({"sudo", "ss", "-lxp", "src", endpoint.unix_path})
                              : Commands().shell({"sudo", "ss", "-ltnp",
                                                  "sport = :" + std::to_string(endpoint.port)}));
  }
  check.add(finding::kAddressUnavailable, endpoint.text(),
            "nothing can listen at " + endpoint.text() + ", which is for " + purpose + ": " +
                fault.message(),
            is_local ? Commands().shell(
                           {"ls", "-ld",
                            std::filesystem::path(endpoint.unix_path).parent_path().string()})
                     : Commands().shell({"ip", "-brief", "address"}));
}

/// A place where the proxy listens, and what for.
struct ListenPlace {
  net::Endpoint endpoint;
  std::string purpose;
};

std::vector<ListenPlace> places_of(const config::Config& config) {
  std::vector<ListenPlace> places;
  places.reserve(config.net.routes.size());
  for (const net::Route& each : config.net.routes) {
    places.push_back({each.listen, "clients of " + each.upstream.text()});
  }
  for (const auto& [server, port] : config.net.pins) {
    const bool is_known = std::ranges::any_of(
        places, [its = port](const ListenPlace& each) { return each.endpoint.port == its; });
    if (is_known || config.net.routes.empty()) continue;
    places.push_back({{config.net.routes.front().listen.host, port, {}}, "clients of " + server});
  }
  if (config.admin) places.push_back({*config.admin, "admin.listen"});
  std::erase_if(places, [](const ListenPlace& each) {
    return each.endpoint.port == 0 && each.endpoint.unix_path.empty();  // any free one
  });
  return places;
}

/// True if the running proxy, which has answered at admin.listen, listens there.
bool is_held(const ListenPlace& place, const config::Config& config, const JsonView& proxy) {
  if (!proxy.is_object()) return false;
  const std::string text = place.endpoint.text();
  if (config.admin && text == config.admin->text()) return true;
  const auto servers = proxy["servers"].items();
  return std::ranges::any_of(servers,
                             [&](const JsonView& each) { return each["listener"].text() == text; });
}

}  // namespace

DoctorCheck check_configuration(const std::string& file, const ConfigFile& opened) {
  DoctorCheck check{"configuration"};
  const std::size_t rules = opened.loaded.config.rules.size();
  check.what = file + (opened.loaded.ok() ? ", " + count_of(rules, "rule") : "");
  for (const FileFinding& each : opened.loaded.findings) {
    // check_certificates() has those of a file that can be used.
    const bool is_said = opened.loaded.ok() && each.about == FileFinding::About::certificate_date;
    if (!is_said) add_finding(file, each, check);
  }
  return check;
}

DoctorCheck check_ports(const config::Config& config, const JsonView& proxy) {
  DoctorCheck check{"ports"};
  const bool can_ask = config.admin && config.admin->port != 0;
  const std::string whose =
      can_ask ? "" : ". If it is the proxy itself: without admin.listen, nobody can ask it";
  std::string free;
  std::string held;
  for (const ListenPlace& place : places_of(config)) {
    const std::string text = place.endpoint.text();
    if (is_held(place, config, proxy)) {
      held += (held.empty() ? "" : ", ") + text;
    } else if (const error_code fault = fault_of(place.endpoint)) {
      add_fault(place.endpoint, place.purpose, fault, whose, check);
    } else {
      free += (free.empty() ? "" : ", ") + text;
    }
  }
  if (!free.empty()) check.what = free + " free";
  if (!held.empty()) {
    check.what += (free.empty() ? "" : "; ") + held + " held by the running proxy";
  }
  if (check.what.empty()) {
    check.skipped = check.findings.empty();
    check.what = check.skipped ? "any free ones" : "none is free";
  }
  return check;
}

std::vector<std::string> deserted_places(const config::Config& config) {
  std::vector<std::string> deserted;
  for (const net::Route& each : config.net.routes) {
    const bool is_known = each.listen.port != 0 || !each.listen.unix_path.empty();
    if (is_known && !fault_of(each.listen)) deserted.push_back(each.listen.text());
  }
  return deserted;
}

DoctorCheck check_descriptors(const config::Config& config, const JsonView& proxy) {
  DoctorCheck check{"descriptors"};
  const std::uint64_t needed = needed_descriptors(config.net);
  const std::uint32_t wanted = config.net.max_connections;
  std::uint64_t permitted = wanted;
  if (const auto limit = proxy["limits"]["clients"]["limit"].count()) {
    permitted = *limit;
  } else {
    rlimit own{};
    const bool is_known = ::getrlimit(RLIMIT_NOFILE, &own) == 0;
    if (is_known && own.rlim_max < needed) {
      permitted = connections_within(own.rlim_max, config.net);
    }
  }
  check.what = "enough for " + count_of(std::min<std::uint64_t>(permitted, wanted), "client");
  if (permitted >= wanted) return check;
  const std::string number = std::to_string(needed);
  const std::string figures = " file descriptors for " + std::to_string(permitted) +
                              " clients, and " + std::to_string(wanted) +
                              " may connect, which takes " + number;
  if (!proxy.is_object()) {
    check.add(
        finding::kDescriptorsOfShell, "listen.max_connections",
        "a process of this shell gets" + figures +
            ": a proxy that is started here lowers its limit; the unit has a limit of its own",
        Commands().shell({"ulimit", "-n", number}));
    return check;
  }
  check.add(finding::kDescriptorsTooFew, "listen.max_connections",
            "the running proxy has" + figures + ": in the unit, LimitNOFILE=" + number +
                " below [Service]",
            Commands().shell({"sudo", "systemctl", "edit", "mongo-idproxy"}));
  return check;
}

}  // namespace idproxy::app::doctor
