#pragma once

#include <sys/eventfd.h>

#include <atomic>

#include "net/file_descriptor.hpp"

namespace idproxy::net {

/// A file descriptor that nobody uses, so that a client can be accepted and turned away when no
/// other is free. The first io thread lends and regains it; any thread may ask is_lent().
class DescriptorReserve {
 public:
  DescriptorReserve() { regain(); }

  /// Closes it, for somebody to open another one at once, and close that.
  void lend() {
    lent_ = true;  // before another thread can take it
    reserve_.close();
  }
  /// Opens it again, unless that has been done, or no descriptor is free.
  void regain() {
    if (reserve_.is_open()) return;
    reserve_ = FileDescriptor(::eventfd(0, EFD_CLOEXEC));
    lent_ = !reserve_.is_open();
  }
  /// True until it has been regained: a descriptor that was opened meanwhile must be closed again.
  /// Otherwise those who come later could not even be turned away.
  [[nodiscard]] bool is_lent() const { return lent_; }

 private:
  FileDescriptor reserve_;
  std::atomic<bool> lent_{false};
};

}  // namespace idproxy::net
