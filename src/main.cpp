#include <boost/system/system_error.hpp>
#include <exception>
#include <iostream>
#include <string>
#include <system_error>

#include "idproxy/app/commands/run.hpp"
#include "idproxy/app/serve/serve.hpp"
#include "idproxy/app/version.hpp"
#include "idproxy/threads/threads.hpp"

namespace {

using idproxy::app::ExitCode;

ExitCode serve(const std::string& file) {
  return idproxy::app::serve::serve(file, std::string(idproxy::app::version()));
}

/// Says what has ended the process: the system has refused a thread, or what must not happen.
int ended_by(bool is_thread, const std::exception& error) {
  std::cerr << "mongo-idproxy: "
            << (is_thread ? idproxy::threads::kRefused
                          : std::string("internal error: ") + error.what())
            << '\n';
  return static_cast<int>(is_thread ? ExitCode::unavailable : ExitCode::internal);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return static_cast<int>(idproxy::app::commands::run(argc, argv, serve));
  } catch (const std::system_error& error) {
    return ended_by(error.code() == std::errc::resource_unavailable_try_again, error);
  } catch (const boost::system::system_error& error) {
    return ended_by(error.code() == boost::system::errc::resource_unavailable_try_again, error);
  } catch (const std::exception& error) {
    return ended_by(false, error);
  }
}
