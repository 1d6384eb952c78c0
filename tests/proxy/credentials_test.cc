// Which credentials the backends of one request get.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "proxy/attempt_progress.h"

namespace evenkeel {
namespace {

std::vector<std::string> lines_of(const Request& request) {
  std::vector<std::string> lines;
  for (const Field& field : request.fields) {
    lines.push_back(std::string(field.name()) + ": " + std::string(field.value()));
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

TEST(CredentialsTest, AreReplacedByEachBackendsOwnAndComeBack) {
  Request request;
  request.fields.add("accept", "*/*");
  request.fields.add("Authorization", "Bearer mine");
  request.fields.add("X-Api-Key", "mine", FieldId::other, true);
  request.fields.add("Proxy-Authorization", "Basic mine");
  request.fields.add("idempotency-key", "1");
  const std::vector<std::string> before = lines_of(request);
  Credentials credentials;

  credentials.apply_to(request, "");
  EXPECT_EQ(lines_of(request), before);
  for (const char* key : {"Bearer first", "Bearer second"}) {
    credentials.apply_to(request, key);
    EXPECT_EQ(lines_of(request),
              (std::vector<std::string>{"accept: */*", std::string("authorization: ") + key,
                                        "idempotency-key: 1"}));
  }
  credentials.apply_to(request, "");
  EXPECT_EQ(lines_of(request), before);
  EXPECT_TRUE(request.fields.find("x-api-key")->never_indexed);
  credentials.apply_to(request, "Bearer third");
  credentials.restore(request);
  EXPECT_EQ(lines_of(request), before);
}

}  // namespace
}  // namespace evenkeel
