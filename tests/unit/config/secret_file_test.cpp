#include "idproxy/base/secret_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "findings_of.hpp"

namespace idproxy::config {
namespace secret_file_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class SecretFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "idproxy-secret-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string write(const std::string& content, mode_t mode) {
    const std::string path = directory_ + "/secret";
    std::ofstream(path) << content;
    ::chmod(path.c_str(), mode);
    return path;
  }

  std::optional<std::string> read(const std::string& path, Access access = Access::secret) {
    Mapping m("uri_file: '" + path + "'");
    auto content = read_named_file("uri_file", access, m.reader);
    found_ = m.found();
    return content;
  }

  std::string directory_;
  std::vector<std::string> found_;
};

TEST_F(SecretFile, IsReadWithoutItsLastNewline) {
  EXPECT_EQ(read(write("mongodb://bob:secret@h\n", 0600)), "mongodb://bob:secret@h");
  EXPECT_EQ(read(write("two\r\n\n", 0640)), "two");
  EXPECT_EQ(read(write("none", 0400)), "none");
  EXPECT_THAT(found_, IsEmpty());
}

TEST_F(SecretFile, FailsIfEverybodyCanReadOrWriteIt) {
  for (const mode_t mode : {0644U, 0604U, 0602U, 0666U}) {
    EXPECT_EQ(read(write("x", mode)), std::nullopt);
    EXPECT_THAT(found_, ElementsAre(HasSubstr("1:1: error: uri_file: cannot use '")));
    EXPECT_THAT(
        found_,
        ElementsAre(HasSubstr("is open to every user of this host: change that with chmod o-rwx")));
    EXPECT_THAT(found_, ElementsAre(HasSubstr("in Kubernetes set defaultMode: 0440")));
  }
  EXPECT_EQ(read(write("x", 0644), Access::any), "x");
}

TEST_F(SecretFile, SaysWhatAFindingIsAbout) {
  const std::string path = write("x", 0644);
  const auto abouts = [&](const std::string& key) {
    std::vector<FileFinding::About> all;
    for (const FileFinding& each :
         load(key + "\nrules: [{ns: a.b, field: c, strategy: uuid}]").findings) {
      all.push_back(each.about);
    }
    return all;
  };
  using enum FileFinding::About;
  const std::string tls = "listen: {tls: {mode: require, certificate_key_file: '" + path + "'}}";
  const std::string uri =
      "upstream: {uri: 'mongodb://h/?tls=true&tlsCertificateKeyFile=" + path + "'}";
  const std::string store = "id_store: {uri_file: '" + path + "'}";
  EXPECT_THAT(abouts(tls), ElementsAre(secret_file));
  EXPECT_THAT(abouts(uri), ElementsAre(secret_file));
  EXPECT_THAT(abouts(store), ElementsAre(secret_file));
  ::chmod(path.c_str(), 0600);
  EXPECT_THAT(abouts(tls), ElementsAre(certificate));
  EXPECT_THAT(abouts(uri), ElementsAre(certificate));
  EXPECT_THAT(abouts(store), ElementsAre(FileFinding::About::text));
  std::filesystem::remove(path);
  EXPECT_THAT(abouts(tls), ElementsAre(certificate));
  EXPECT_THAT(abouts(uri), ElementsAre(certificate));
  EXPECT_THAT(abouts(store), ElementsAre(FileFinding::About::text));
}

TEST_F(SecretFile, FailsIfItCannotBeRead) {
  EXPECT_EQ(read(directory_ + "/nowhere"), std::nullopt);
  EXPECT_THAT(found_, ElementsAre(HasSubstr("No such file or directory")));
  EXPECT_EQ(read(directory_), std::nullopt);
  EXPECT_THAT(found_, ElementsAre(HasSubstr("is not a regular file")));
  const std::string pipe = directory_ + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(read(pipe), std::nullopt);
  EXPECT_THAT(found_, ElementsAre(HasSubstr("is not a regular file")));
  EXPECT_EQ(read(write(std::string(1024 * 1024 + 1, 'x'), 0600)), std::nullopt);
  EXPECT_THAT(found_, ElementsAre(HasSubstr("is larger than 1 MiB")));
}

TEST_F(SecretFile, HasAStateThatChangesWithItsContentAndItsReaders) {
  const std::string path = write("one", 0600);
  const std::string one = state_of_file(path);
  EXPECT_EQ(state_of_file(write("one", 0440)), one) << "nobody else reads it";
  EXPECT_NE(state_of_file(write("one", 0644)), one);
  EXPECT_NE(state_of_file(write("two", 0600)), one);
  std::filesystem::remove(path);
  EXPECT_EQ(state_of_file(path), "No such file or directory");
  EXPECT_EQ(state_of_file(directory_), "is not a regular file");
  std::filesystem::create_directory(directory_ + "/first");
  std::filesystem::create_directory(directory_ + "/second");
  std::ofstream(directory_ + "/first/file") << "one";
  std::ofstream(directory_ + "/second/file") << "two";
  std::filesystem::create_symlink("first", directory_ + "/link");
  ::chmod((directory_ + "/first/file").c_str(), 0600);
  EXPECT_EQ(state_of_file(directory_ + "/link/file"), one);
  std::filesystem::remove(directory_ + "/link");
  std::filesystem::create_symlink("second", directory_ + "/link");
  EXPECT_NE(state_of_file(directory_ + "/link/file"), one) << "as Kubernetes renews a volume";
}

TEST_F(SecretFile, IsNotedWithItsStateAlsoIfItCannotBeUsed) {
  const std::string path = write("mongodb://bob:secret@h\n", 0600);
  const std::string text = "id_store:\n  uri_file: " + path + "\n";
  EXPECT_THAT(load(text).files, ElementsAre(testing::Pair(path, state_of_file(path))));
  ::chmod(path.c_str(), 0644);
  EXPECT_THAT(load(text).files, ElementsAre(testing::Pair(path, HasSubstr(" open"))));
  std::filesystem::remove(path);
  EXPECT_THAT(load(text).files,
              ElementsAre(testing::Pair(path, HasSubstr("No such file or directory"))));
  const std::string uri = "mongodb://h/?tls=true&tlsCAFile=" + path;
  EXPECT_THAT(load("upstream:\n  uri: " + uri + "\n").files,
              ElementsAre(testing::Pair(path, HasSubstr("No such file"))));
}

TEST_F(SecretFile, HoldsTheConnectionStringOfTheStore) {
  const std::string path = write("mongodb://bob:secret@h\n", 0600);
  const Loaded loaded = load("id_store:\n  uri_file: " + path + "\nrules: []");
  EXPECT_TRUE(loaded.ok());
  EXPECT_EQ(loaded.config.id_store.uri, "mongodb://bob:secret@h");
  EXPECT_THAT(findings_without_rules("id_store:\n  uri_file: " + path + "\n  uri: mongodb://h\n"),
              ElementsAre("2:3: error: id_store.uri_file: cannot be set together with uri"));
  write("mongodb://bob:s@secret@h\n", 0600);
  EXPECT_THAT(findings_without_rules("id_store:\n  uri_file: " + path),
              ElementsAre(HasSubstr("2:3: error: id_store.uri_file: the characters")));
  for (const char* blank : {"", "\n"}) {
    write(blank, 0600);
    EXPECT_THAT(findings_without_rules("id_store:\n  uri_file: " + path),
                ElementsAre("2:3: error: id_store.uri_file: the file is empty: it must hold a "
                            "connection string, as in "
                            "mongodb://USER:PASSWORD@db1,db2,db3/?replicaSet=rs0"));
  }
  write("secret", 0600);
  EXPECT_THAT(findings_without_rules("id_store:\n  uri_file: " + path),
              ElementsAre("2:3: error: id_store.uri_file: the file must hold a connection string "
                          "that begins with mongodb://"));
  write("mongodb+srv://bob:secret@h.example.org", 0600);
  EXPECT_THAT(findings_without_rules("id_store:\n  uri_file: " + path),
              ElementsAre(HasSubstr("2:3: error: id_store.uri_file: mongodb+srv is not in this")));
}

}  // namespace secret_file_test
}  // namespace idproxy::config
