#include "admin/change_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

namespace evenkeel {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ChangeRecordTest : public ::testing::Test {
 protected:
  ChangeRecordTest() {
    std::string name = ::testing::TempDir() + "changesXXXXXX";
    folder_ = mkdtemp(name.data());
    std::ofstream(folder_ + "/token") << "0123456789abcdef";
    config_->admin.token_file = folder_ + "/token";
  }
  ~ChangeRecordTest() override { std::filesystem::remove_all(folder_); }

  /// What the log has of a request. `status`: nothing: its answer was cancelled.
  std::string recorded(const AdminRequest& request, std::optional<int> status) {
    const std::string path = folder_ + "/audit.jsonl";
    std::filesystem::remove(path);
    auto log = AuditLog::open(path, "");
    EXPECT_TRUE(log);
    {
      ChangeRecord record(log->get(), request, config_);
      if (status) record.answered(*status);
    }
    log->reset();
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  static AdminRequest request(std::string_view method, std::string_view target,
                              std::string_view authorization = {}) {
    AdminRequest made{.method = method, .target = target, .body = "{}", .client = "127.0.0.1"};
    if (!authorization.empty()) made.fields.emplace_back("authorization", authorization);
    return made;
  }

  std::string folder_;
  std::shared_ptr<Config> config_ = std::make_shared<Config>();
};

TEST_F(ChangeRecordTest, TellsOfAChangeWhoseAnswerWasCancelled) {
  EXPECT_THAT(recorded(request("POST", "/api/v1/reload"), std::nullopt),
              AllOf(HasSubstr(R"("event":"admin")"), HasSubstr(R"("outcome":"cancelled")"),
                    HasSubstr(R"("body":"{}")"), Not(HasSubstr("status"))));
  EXPECT_EQ(recorded(request("GET", "/api/v1/status"), std::nullopt), "");
}

TEST_F(ChangeRecordTest, HasTheBodyOfAChangeThatMayHaveHappened) {
  EXPECT_THAT(recorded(request("POST", "/api/v1/log"), 200), HasSubstr(R"("body":"{}")"));
  EXPECT_THAT(recorded(request("POST", "/api/v1/log"), 503), HasSubstr(R"("body":"{}")"));
  EXPECT_THAT(recorded(request("POST", "/api/v1/log"), 422), Not(HasSubstr("body")));
}

TEST_F(ChangeRecordTest, TellsOfEachWrongToken) {
  constexpr std::string_view wrong = "Bearer 0123456789abcdeX";
  for (const auto& [method, target] :
       {std::pair{"GET", "/api/v1/access"}, {"POST", "/api/v1/check"}, {"GET", "/no"}}) {
    EXPECT_THAT(recorded(request(method, target, wrong), 200),
                AllOf(HasSubstr(R"("event":"admin_refused")"), HasSubstr(R"("token":"wrong")"),
                      Not(HasSubstr("0123456789abcde")), Not(HasSubstr("body"))))
        << target;
    EXPECT_EQ(recorded(request(method, target, "Bearer 0123456789abcdef"), 200), "") << target;
    EXPECT_EQ(recorded(request(method, target), 200), "") << target;
  }
  config_->admin.token_file.clear();
  EXPECT_EQ(recorded(request("GET", "/metrics", "Basic of a proxy"), 200), "");
}

}  // namespace
}  // namespace evenkeel
