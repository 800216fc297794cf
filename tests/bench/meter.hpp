#pragma once

#include <string>
#include <vector>

#include "fd.hpp"
#include "process.hpp"

namespace idproxy::bench {

/// What a process uses: instructions where the machine counts them for us, else CPU time.
class Meter {
 public:
  /// Of all threads that `process`, which must outlive it, has now.
  explicit Meter(const Child& process);

  bool counts_instructions() const { return !counters_.empty(); }
  /// Thousands of instructions, or microseconds, so far.
  double read() const;

 private:
  const Child& process_;
  std::vector<Fd> counters_;  ///< one for each thread; none where the machine has no counters
};

}  // namespace idproxy::bench
