#include "idproxy/base/input_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace idproxy {
namespace input_file_test {

class InputFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "idproxy-file-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  [[nodiscard]] std::string write(const std::string& content) const {
    std::string path = directory_ + "/file";
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }

  std::string directory_;
};

TEST_F(InputFileTest, SucceedsWithEverySize) {
  for (const std::size_t size : {0U, 1U, 4095U, 4096U, 4097U, 100'000U}) {
    const std::string content(size, '\0');
    EXPECT_EQ(*read_file(write(content), size), content) << size;
  }
}

TEST_F(InputFileTest, FailsIfItCannotBeRead) {
  EXPECT_EQ(read_file(directory_ + "/none", 1).error(), "No such file or directory");
  EXPECT_EQ(read_file(write("x") + "/none", 1).error(), "Not a directory");
}

TEST_F(InputFileTest, FailsIfItExceedsTheLimit) {
  const std::string path = write(std::string(4097, 'x'));
  EXPECT_EQ(read_file(path, 4097)->size(), 4097U);
  EXPECT_EQ(read_file(path, 4096).error(), "is larger than 4 KiB");
}

// A25: what never ends, or waits for a writer.
TEST_F(InputFileTest, IsARegularFile) {
  const std::string pipe = directory_ + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::filesystem::create_symlink(pipe, directory_ + "/link");
  for (const std::string& path : {pipe, directory_ + "/link", directory_, std::string("/dev/zero"),
                                  std::string("/dev/tty")}) {
    EXPECT_EQ(read_file(path, 1).error(), "is not a regular file") << path;
  }
}

TEST_F(InputFileTest, IsClosedOnce) {
  auto first = InputFile::open(write("x"));
  const int descriptor = first->descriptor();
  {
    const InputFile second(*std::move(first));
    EXPECT_EQ(second.descriptor(), descriptor);
    EXPECT_NE(::fcntl(descriptor, F_GETFD), -1);
  }
  EXPECT_EQ(::fcntl(descriptor, F_GETFD), -1);
}

}  // namespace input_file_test
}  // namespace idproxy
