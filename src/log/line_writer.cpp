#include "log/line_writer.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace idproxy::log {

LineWriter::LineWriter(int descriptor) : descriptor_(descriptor) {
  struct stat status{};
  if (::fstat(descriptor, &status) != 0) return;
  if (S_ISSOCK(status.st_mode)) {
    kind_ = Kind::socket;
  } else if (S_ISFIFO(status.st_mode) || S_ISCHR(status.st_mode)) {
    // Open it again: O_NONBLOCK is then not shared with other processes. Not for regular files,
    // which would be overwritten from the beginning.
    const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
    const int own = ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (own < 0) return;  // it belongs to another user: poll before each write instead
    descriptor_ = own;
    owned_ = true;
    kind_ = Kind::nonblocking;
  }
}

LineWriter::~LineWriter() {
  if (owned_) ::close(descriptor_);
}

void LineWriter::write(std::string_view line) {
  if (!kept_.empty()) write_kept();
  if (kept_.size() + line.size() > kMostBytes) {
    ++dropped_;
    return;
  }
  kept_ += line;
  write_kept();
}

void LineWriter::flush(std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  for (write_kept(); !kept_.empty(); write_kept()) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (left.count() <= 0 || !await_room(left)) return;
  }
}

void LineWriter::write_kept() {
  std::size_t done = 0;
  while (done < kept_.size()) {
    const std::ptrdiff_t taken = write_some(std::string_view(kept_).substr(done));
    if (taken < 0) {  // closed, or the disk is full: waiting would not help
      dropped_ += static_cast<std::uint64_t>(
          std::count(kept_.begin() + static_cast<std::ptrdiff_t>(done), kept_.end(), '\n'));
      done = kept_.size();
    }
    if (taken == 0) break;
    if (taken > 0) done += static_cast<std::size_t>(taken);
  }
  kept_.erase(0, done);
}

std::ptrdiff_t LineWriter::write_some(std::string_view bytes) const {
  // A pipe that polls as writable takes PIPE_BUF bytes without blocking.
  if (kind_ == Kind::polled) {
    if (!await_room(std::chrono::milliseconds(0))) return 0;
    bytes = bytes.substr(0, PIPE_BUF);
  }
  ssize_t taken = -1;
  do {
    taken = kind_ == Kind::socket
                ? ::send(descriptor_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL)
                : ::write(descriptor_, bytes.data(), bytes.size());
  } while (taken < 0 && errno == EINTR);
  if (taken < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
  return taken;
}

bool LineWriter::await_room(std::chrono::milliseconds limit) const {
  pollfd room{.fd = descriptor_, .events = POLLOUT, .revents = 0};
  return ::poll(&room, 1, static_cast<int>(limit.count())) > 0;
}

}  // namespace idproxy::log
