#include "idproxy/base/input_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace idproxy {
namespace input_file_test {

namespace errc = boost::system::errc;

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
    EXPECT_EQ(read_file(write(content)).value(), content) << size;
  }
}

TEST_F(InputFileTest, FailsIfItCannotBeRead) {
  EXPECT_EQ(read_file(directory_ + "/none").error(), errc::no_such_file_or_directory);
  EXPECT_EQ(read_file(directory_).error(), errc::is_a_directory);
  EXPECT_EQ(read_file(directory_ + "/none").error().message(), "No such file or directory");
}

TEST_F(InputFileTest, FailsIfItExceedsTheLimit) {
  const std::string path = write(std::string(5000, 'x'));
  EXPECT_EQ(InputFile::open(path)->read_all(5000).value().size(), 5000U);
  EXPECT_EQ(InputFile::open(path)->read_all(4999).error(), errc::file_too_large);
}

TEST_F(InputFileTest, WaitsForNoWriterIfItIsToldSo) {
  const std::string pipe = directory_ + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(InputFile::open(pipe, O_NONBLOCK)->read_all().value(), "");
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
