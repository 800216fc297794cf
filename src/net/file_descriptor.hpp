#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <utility>

namespace idproxy::net {

/// Owns a file descriptor, or none (-1).
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    FileDescriptor(std::move(other)).swap(*this);
    return *this;
  }
  ~FileDescriptor() { close(); }

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool is_open() const { return fd_ >= 0; }
  void close() {
    if (is_open()) ::close(std::exchange(fd_, -1));
  }
  void swap(FileDescriptor& other) noexcept { std::swap(fd_, other.fd_); }

 private:
  int fd_ = -1;
};

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
