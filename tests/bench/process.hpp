#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace idproxy::bench {

/// The first two cores that this process may use; on a machine with one core both are the same.
struct Cores {
  int load;   ///< of the load generator and the stub server
  int proxy;  ///< of the proxy under test, alone
};

Cores choose_cores();

/// Pins every thread of a process to these cores; pid 0 is the calling process.
void pin_process(pid_t pid, const std::vector<int>& cores);

struct Memory {
  double resident_kib;
  /// Without the pages of files: growth of these is what the process keeps, not code it has run.
  double anonymous_kib;
};

/// A child process, which ends with its owner, and with this program however that ends.
class Child {
 public:
  /// Runs a program with its output appended to `log`. Throws std::system_error.
  static Child run(std::vector<std::string> command, int core, const std::string& log);

  /// Runs `body`, which never returns, in a copy of this process. An exception ends the copy.
  static Child fork_into(const std::function<void()>& body);

  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;
  ~Child();

  bool alive();
  void pin_to(const std::vector<int>& cores) const { pin_process(pid_, cores); }

  /// Used by all its threads so far, in user space and in the kernel.
  std::chrono::nanoseconds cpu_time() const;
  Memory memory() const;
  /// Those that it has now.
  std::vector<pid_t> threads() const;

 private:
  explicit Child(pid_t pid) : pid_(pid) {}
  bool ended_within(std::chrono::milliseconds limit);

  pid_t pid_;
};

}  // namespace idproxy::bench
