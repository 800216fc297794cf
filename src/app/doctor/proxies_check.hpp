#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "app/doctor/check.hpp"
#include "app/json_view.hpp"
#include "idproxy/config/config.hpp"
#include "idproxy/id_store/known_proxy.hpp"

/// The parts of `mongo-idproxy doctor` about proxies that run.
namespace idproxy::app::doctor {

/// The configuration that is examined.
struct ExaminedFile {
  std::string name;
  std::string rules_hash;                 ///< of its rules
  std::vector<std::string> namespaces{};  ///< of its rules, globs
  std::vector<std::string> named{};       ///< the files that it names: certificates, secrets
  std::vector<std::string> deserted{};    ///< where its proxy should listen, and nobody does
};

/// The running proxy of this host, by its document of /status.json. `others`: what the other checks
/// have found; what the proxy says of the same subjects is left out.
[[nodiscard]] DoctorCheck check_proxy(const JsonView& status, const ExaminedFile& file,
                                      const std::vector<const DoctorCheck*>& others);

/// The proxies of the id store, compared with the file and with this program. `status`: of the
/// running proxy of this host, which check_proxy() compares; of nothing: none answers.
[[nodiscard]] DoctorCheck check_proxies(const std::vector<id_store::KnownProxy>& proxies,
                                        const JsonView& status, const ExaminedFile& file,
                                        std::string_view version);

}  // namespace idproxy::app::doctor
