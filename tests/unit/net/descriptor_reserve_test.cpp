#include "net/file_descriptor.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

namespace idproxy::net {
namespace descriptor_reserve_test {

FileDescriptor open_any() {
  return FileDescriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

/// As long as it exists, this process has no descriptor left.
class NoneLeft {
 public:
  NoneLeft() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit now{static_cast<rlim_t>(open_any().get()), before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &now);
  }
  ~NoneLeft() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoneLeft(const NoneLeft&) = delete;
  NoneLeft& operator=(const NoneLeft&) = delete;

 private:
  rlimit before_{};
};

TEST(DescriptorReserve, IsThereWhenNoOtherDescriptorIs) {
  DescriptorReserve reserve;
  const NoneLeft none;
  ASSERT_FALSE(open_any().is_open());
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(reserve.is_lent());
    reserve.lend();
    EXPECT_TRUE(reserve.is_lent());
    EXPECT_TRUE(open_any().is_open());
    reserve.regain();
  }
}

TEST(DescriptorReserve, IsLentUntilADescriptorIsFree) {
  DescriptorReserve reserve;
  const NoneLeft none;
  reserve.lend();
  FileDescriptor taken = open_any();
  reserve.regain();
  EXPECT_TRUE(reserve.is_lent());
  taken.close();
  reserve.regain();
  EXPECT_FALSE(reserve.is_lent());
  EXPECT_FALSE(open_any().is_open());
}

}  // namespace descriptor_reserve_test
}  // namespace idproxy::net
