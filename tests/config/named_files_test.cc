#include "evenkeel/config/named_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace evenkeel {
namespace {

using testing::HasSubstr;
using testing::Optional;

class NamedFiles : public testing::Test {
 protected:
  NamedFiles() {
    std::string pattern = testing::TempDir() + "named-files-XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~NamedFiles() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return path(name);
  }

 private:
  std::filesystem::path folder_;
};

TEST_F(NamedFiles, AnApiKeyIsOneWord) {
  EXPECT_EQ(*read_api_key(write("key", " sk-123 \n")), "sk-123");
  EXPECT_EQ(named_file_error(FileUse::api_key, path("key")), std::nullopt);

  EXPECT_THAT(read_api_key(write("empty", "\n")).error().detail, HasSubstr("holds no key"));
  EXPECT_THAT(read_api_key(write("two", "a b")).error().detail, HasSubstr("holds no key"));
  EXPECT_EQ(read_api_key(path("none")).error().detail, "cannot be read: No such file or directory");
  EXPECT_EQ(read_api_key(path("")).error().detail, "cannot be read: Is a directory");
}

TEST_F(NamedFiles, ATokenHasAtLeastSixteenBytes) {
  EXPECT_EQ(*read_admin_token(write("token", "0123456789abcdef\n")), "0123456789abcdef");

  EXPECT_EQ(read_admin_token(write("short", "0123456789abcde\n")).error().detail,
            "holds 15 bytes, a token has 16 to 4096");
  EXPECT_THAT(read_admin_token(write("long", std::string(5000, 'x'))).error().detail,
              HasSubstr("cannot be read"));
  EXPECT_THAT(read_admin_token(write("longer", std::string(4100, 'x'))).error().detail,
              HasSubstr("4100 bytes"));
}

TEST_F(NamedFiles, AnErrorPageIsAFileOfAtMost64KiB) {
  Config config;
  config.routes.resize(2);
  config.routes[0].name = "a";
  config.routes[0].error_pages = {{.status = {503}, .file = write("page", " <p>\n")}};
  config.routes[1].error_pages = {{.status = {502}, .file = path("page")},
                                  {.status = {503}, .file = write("other", "")}};
  EXPECT_EQ(*read_error_pages(config),
            (ErrorPageTexts{{path("page"), " <p>\n"}, {path("other"), ""}}));
  EXPECT_EQ(named_file_error(FileUse::error_page, path("page")), std::nullopt);

  config.routes[0].error_pages[0].file = write("long", std::string(64UL * 1024 + 1, 'x'));
  EXPECT_THAT(read_error_pages(config).error().detail,
              testing::StartsWith("route a: error_pages: '" + path("long") + "' cannot be read"));
  EXPECT_THAT(named_file_error(FileUse::error_page, path("none")),
              Optional(HasSubstr("No such file")));
}

TEST_F(NamedFiles, AnAccessLogNeedsAFolderAndIsNotCreated) {
  const auto error = [](const std::string& path) {
    return named_file_error(FileUse::access_log, path);
  };
  for (const char* word : {"stdout", "stderr", "off"}) EXPECT_EQ(error(word), std::nullopt);
  EXPECT_EQ(error(path("new.log")), std::nullopt);
  EXPECT_FALSE(std::filesystem::exists(path("new.log")));
  EXPECT_EQ(error(write("old.log", "line\n")), std::nullopt);

  EXPECT_THAT(error(path("")), Optional(HasSubstr("Is a directory")));
  EXPECT_THAT(error(path("none/new.log")), Optional(HasSubstr("No such file")));
  EXPECT_THAT(error(path("old.log/new.log")), Optional(HasSubstr("Not a directory")));
}

TEST_F(NamedFiles, UsageRecordsNeedAFile) {
  const auto error = [](const std::string& path) { return named_file_error(FileUse::usage, path); };
  EXPECT_EQ(error(path("new.jsonl")), std::nullopt);
  EXPECT_EQ(error(write("old.jsonl", "line\n")), std::nullopt);

  EXPECT_THAT(error(path("none/new.jsonl")), Optional(HasSubstr("No such file")));
  EXPECT_THAT(error(path("")), Optional(HasSubstr("Is a directory")));
  EXPECT_THAT(error("/dev/null"), Optional(HasSubstr("is not a regular file")));
}

TEST_F(NamedFiles, AuditLogNeedsAFileAndItsKeyASecret) {
  const auto error = [](const std::string& path) { return named_file_error(FileUse::audit, path); };
  EXPECT_EQ(error(path("new.jsonl")), std::nullopt);
  EXPECT_EQ(error(write("old.jsonl", "line\n")), std::nullopt);
  EXPECT_THAT(error("/dev/null"), Optional(HasSubstr("is not a regular file")));

  const auto key = [](const std::string& path) {
    return named_file_error(FileUse::audit_key, path);
  };
  EXPECT_EQ(key(write("key", "0123456789abcdef\n")), std::nullopt);
  EXPECT_THAT(key(write("short", "secret")), Optional(HasSubstr("6 bytes, a key has 16 to 4096")));
  EXPECT_THAT(key(path("none")), Optional(HasSubstr("cannot be read")));
}

TEST_F(NamedFiles, APipeIsNotOpened) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);

  EXPECT_EQ(named_file_error(FileUse::access_log, path("pipe")), std::nullopt);
  EXPECT_THAT(named_file_error(FileUse::api_key, path("pipe")),
              Optional(HasSubstr("not a regular file")));
}

TEST_F(NamedFiles, ASyslogMayComeLaterButIsASocket) {
  const std::string none = "syslog:" + path("none");
  EXPECT_EQ(named_file_error(FileUse::access_log, none), std::nullopt);
  EXPECT_THAT(named_file_error(FileUse::syslog, none),
              Optional(HasSubstr("cannot be reached: No such file")));
  EXPECT_THAT(named_file_error(FileUse::access_log, "syslog:" + write("file", "")),
              Optional(HasSubstr("is not a socket")));
}

}  // namespace
}  // namespace evenkeel
