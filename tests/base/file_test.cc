#include "evenkeel/base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>

namespace evenkeel {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class Files : public testing::Test {
 protected:
  Files() {
    std::string name = "/tmp/evenkeel-file-XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~Files() override { fs::remove_all(folder_); }

  std::string path(const char* name) const { return (folder_ / name).string(); }
  static std::string text_of(const std::string& path, std::size_t max = 1000) {
    const auto read = read_file(path, max);
    const auto* const error = std::get_if<FileError>(&read);
    return error == nullptr ? std::get<std::string>(read) : "error: " + error->why;
  }
  std::size_t count() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  fs::path folder_;
};

TEST_F(Files, AreReplacedWhole) {
  for (const std::string& text :
       {std::string("one"), std::string("a longer text"), std::string()}) {
    EXPECT_FALSE(replace_file(path("state"), text));
    EXPECT_EQ(text_of(path("state")), text);
  }
  EXPECT_EQ(count(), 1u) << "no temporary file is left";
  struct stat facts{};
  ASSERT_EQ(stat(path("state").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777u, 0600u);
}

TEST_F(Files, AreReadUpToTheLimit) {
  ASSERT_FALSE(replace_file(path("state"), std::string(1000, 'x')));
  EXPECT_EQ(text_of(path("state"), 1000).size(), 1000u);
  EXPECT_THAT(text_of(path("state"), 999), HasSubstr("larger than 999"));
  EXPECT_THAT(text_of("/proc/self/status", 100'000), HasSubstr("Name:"))
      << "its size is given as 0";
}

TEST_F(Files, AreReplacedWhereALinkLeads) {
  ASSERT_FALSE(replace_file(path("target"), "old"));
  fs::create_symlink("target", path("link"));

  EXPECT_FALSE(replace_file(path("link"), "new"));

  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(text_of(path("target")), "new");
}

TEST_F(Files, AreMadeWhereALinkLeads) {
  ASSERT_EQ(mkdir(path("folder").c_str(), 0700), 0);
  fs::create_symlink("folder/state", path("link"));

  EXPECT_FALSE(replace_file(path("link"), "new"));

  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(text_of(path("folder/state")), "new");
}

TEST_F(Files, AreNotReplacedWhereALinkOfAnotherUserLeads) {
  ASSERT_FALSE(replace_file(path("target"), "old"));
  fs::create_symlink("target", path("link"));
  if (lchown(path("link").c_str(), 12345, 12345) != 0) GTEST_SKIP() << "only root may do that";

  const auto error = replace_file(path("link"), "new");

  ASSERT_TRUE(error);
  EXPECT_THAT(error->why, HasSubstr("link of another user"));
  EXPECT_EQ(text_of(path("target")), "old");
}

TEST_F(Files, AreNotReplacedWhereLinksLeadInACircle) {
  fs::create_symlink("b", path("a"));
  fs::create_symlink("a", path("b"));

  EXPECT_EQ(replace_file(path("a"), "new")->number, ELOOP);
}

TEST_F(Files, AreNotReplacedByWhatCannotBeWritten) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  ASSERT_EQ(mkdir(path("folder").c_str(), 0700), 0);
  EXPECT_EQ(replace_file(path("pipe"), "x")->why, "not a regular file");
  EXPECT_EQ(replace_file(path("folder"), "x")->number, EISDIR);
  EXPECT_EQ(replace_file(path("missing/state"), "x")->number, ENOENT);
  EXPECT_EQ(replace_file("/dev/null", "x")->why, "not a regular file");
  EXPECT_EQ(count(), 2u);
}

}  // namespace
}  // namespace evenkeel
