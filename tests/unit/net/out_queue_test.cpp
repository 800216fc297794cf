#include "net/out_queue.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>

#include "net/stream.hpp"
#include "support/messages.hpp"

namespace idproxy::net {
namespace out_queue_test {

using Status = OutQueue::Status;

/// Two connected sockets; what is sent into one is read from the other when the test says so.
class OutQueueTest : public ::testing::Test {
 protected:
  OutQueueTest() : sink_(loop_, scratch_) {
    std::array<int, 2> fds{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds.data()), 0);
    sink_.open(FileDescriptor(fds[0]), nullptr);
    reader_ = fds[1];
  }
  ~OutQueueTest() override {
    if (reader_ >= 0) ::close(reader_);
  }
  void close_reader() {
    ::close(reader_);
    reader_ = -1;
  }
  void read() {
    std::array<char, 100'000> bytes;
    ssize_t n = 0;
    while ((n = ::read(reader_, bytes.data(), bytes.size())) > 0) {
      received_.append(bytes.data(), static_cast<std::size_t>(n));
    }
  }
  void flush() {
    Status status = Status::blocked;
    while (status == Status::blocked) {
      read();
      status = queue_.flush(sink_);
    }
    EXPECT_EQ(status, Status::done);
    EXPECT_TRUE(queue_.empty());
    read();
  }

  EventLoop loop_;
  TlsScratch scratch_;
  Stream sink_;
  OutQueue queue_;
  std::string received_;

 private:
  int reader_ = -1;
};

std::string pattern(std::size_t size) {
  std::string text;
  for (std::size_t i = 0; text.size() < size; ++i) text += std::to_string(i) + ",";
  return text;
}

TEST_F(OutQueueTest, KeepsOnlyWhatTheSocketDoesNotTake) {
  EXPECT_EQ(queue_.send(sink_, as_bytes("small")), Status::done);
  EXPECT_TRUE(queue_.empty());
  const std::string large = pattern(3'000'000);
  EXPECT_EQ(queue_.send(sink_, as_bytes(large)), Status::blocked);
  EXPECT_EQ(queue_.send(sink_, as_bytes("behind")), Status::blocked);
  flush();
  EXPECT_TRUE(received_ == "small" + large + "behind");
}

TEST_F(OutQueueTest, BorrowsALargePatchedMessage) {
  const std::string original = pattern(3'000'000);
  wire::PatchedMessage patched;
  patched.start(as_bytes(original));
  patched.keep(0, 1'000'000);
  patched.add(as_bytes("[new]"));
  patched.keep(1'500'000, original.size());
  EXPECT_EQ(queue_.send(sink_, patched, as_bytes(original)), Status::blocked);
  queue_.add(as_bytes("behind"));
  flush();
  EXPECT_TRUE(received_ ==
              original.substr(0, 1'000'000) + "[new]" + original.substr(1'500'000) + "behind");
}

TEST_F(OutQueueTest, CopiesASmallRestOfAPatchedMessage) {
  const std::string filler = pattern(1'000'000);
  while (queue_.empty()) static_cast<void>(queue_.send(sink_, as_bytes(filler)));
  read();
  ASSERT_EQ(queue_.flush(sink_), Status::blocked) << "the socket is to be full";
  const std::size_t before = received_.size();
  flush();
  const std::size_t filled = received_.size();
  ASSERT_GE(filled, before);
  std::string original = pattern(300'000);
  wire::PatchedMessage patched;
  patched.start(as_bytes(original));
  patched.keep(0, original.size());
  const std::string expected = original;
  ASSERT_EQ(queue_.send(sink_, patched, as_bytes(original)), Status::blocked);
  original.assign(original.size(), '?');
  patched.start({});
  flush();
  EXPECT_TRUE(received_.substr(filled) == expected);
}

TEST_F(OutQueueTest, FailsIfThePeerIsGone) {
  close_reader();
  EXPECT_EQ(queue_.send(sink_, as_bytes("x")), Status::failed);
}

}  // namespace out_queue_test
}  // namespace idproxy::net
