#pragma once

#include <boost/system/result.hpp>
#include <string>
#include <vector>

#include "idproxy/app/command_line.hpp"

/// The commands of the program that only ask or tell.
namespace idproxy::app::commands {

/// Prints every error and warning about the file, and what the servers say, to standard output.
/// Opens no listener and writes nothing.
[[nodiscard]] ExitCode check_config(const CheckRequest& request);

/// Prints every key of the configuration with its value, its default and where it comes from, or
/// the JSON Schema of all configurations.
[[nodiscard]] ExitCode print_config(const ConfigRequest& request);
/// Looks at all that a proxy with this configuration depends on – the file, this host, the servers,
/// the store's user, the rules, the counters, the proxies that run – and prints what is wrong, with
/// the commands that mend it. Only reads. Returns `findings` if there is more than notes, also if
/// the configuration has errors; and `config` if it is no configuration at all. Takes about thirty
/// seconds at most; may end the process if a server hangs.
[[nodiscard]] ExitCode doctor(const DoctorRequest& request);

/// The configuration file of a command that names none: /etc/mongo-idproxy/mongo-idproxy.yaml, or
/// that of the prefix where this is installed. If there is none of them, prints that and returns
/// the exit code.
[[nodiscard]] boost::system::result<std::string, ExitCode> default_config_file();

/// Asks a running proxy how it is, and prints that. Returns `findings` if it says that something is
/// wrong, and `unavailable` if it does not answer.
[[nodiscard]] ExitCode status(const StatusRequest& request);

/// Waits until a running proxy serves and no rule that names its collection lacks values. Returns
/// `unavailable` if that takes longer than request.most; standard error says what it waits for.
[[nodiscard]] ExitCode wait(const WaitRequest& request);

/// Has a running proxy read its configuration again, and prints what has changed. Returns `config`
/// if the configuration has errors, `no_permission` if the proxy is another user's, and
/// `unavailable` if it does not answer or its process cannot be seen from here.
[[nodiscard]] ExitCode reload(const ReloadRequest& request);

/// Lists, shows or sets counters in the servers, beside the proxies that use them. Returns
/// `findings` if there is no such counter or it must not be set so, and `unavailable` if a server
/// does not answer or refuses.
[[nodiscard]] ExitCode counters(const CountersRequest& request);

/// Prints values that a rule would give, and uses none up. Returns `usage` if no rule fills the
/// field, and `unavailable` if a server does not answer or the rule is not ready.
[[nodiscard]] ExitCode print_ids(const IdsRequest& request);

/// Prints a script that completes commands and options in `shell`: bash, zsh or fish. `commands`:
/// the program itself and then each of its commands.
[[nodiscard]] ExitCode print_completion(const std::string& shell,
                                        const std::vector<CommandSyntax>& commands);

}  // namespace idproxy::app::commands
