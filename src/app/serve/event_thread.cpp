#include "app/serve/event_thread.hpp"

#include <pthread.h>

#include <cstdlib>
#include <exception>

#include "idproxy/app/command_line.hpp"
#include "idproxy/log/log.hpp"

namespace idproxy::app::serve {

void run_loop(boost::asio::io_context& io, const char* name) {
  pthread_setname_np(pthread_self(), name);
  try {
    io.run();
  } catch (const std::exception& error) {
    log::event(log::Level::error, "internal_error", "an internal error ends the proxy",
               {{"reason", error.what()}});
    log::finish(kLogFlushTimeout);
    std::_Exit(static_cast<int>(ExitCode::internal));
  }
}

}  // namespace idproxy::app::serve
