// Which parameters of a query no log shows.
#include "evenkeel/http/credentials.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace evenkeel {
namespace {

using Pairs = std::vector<std::pair<std::string_view, std::string_view>>;

void expect_hidden(const Pairs& cases) {
  for (const auto& [target, shown] : cases) {
    EXPECT_TRUE(target_holds_secret(target)) << target;
    EXPECT_EQ(target_with_hidden_secrets(target), shown);
  }
}

TEST(Secrets, AreKeysSignaturesAndPasswords) {
  expect_hidden({
      {"/a?b=1&api_key=mine&c=2", "/a?b=1&api_key=***&c=2"},
      {"/a?%6bey=mine", "/a?%6bey=***"},
      {"/a?+key=mine;x", "/a?+key=***;x"},
      {"/a?key%3Dmine", "/a?=***"},
      {"/a?x&key[]=mine#key=mine", "/a?x&key[]=***#key=***"},
      {"/a?sv=1&sig=mine", "/a?sv=1&sig=***"},
      {"/a?X-Amz-Credential=mine&X-Amz-Date=1", "/a?X-Amz-Credential=***&X-Amz-Date=1"},
      {"/a?X-Amz-Signature=mine", "/a?X-Amz-Signature=***"},
      {"/a?db_passwd=mine&Pass%57ord=mine", "/a?db_passwd=***&Pass%57ord=***"},
      {"/a?pwd=mine&secret=mine&app_secret=mine", "/a?pwd=***&secret=***&app_secret=***"},
      {"/a?refresh_token=mine&id_token=mine", "/a?refresh_token=***&id_token=***"},
  });
}

TEST(Secrets, AreHiddenWithTheEncodedUrlThatHoldsThem) {
  expect_hidden({
      {"/a?url=https%3A%2F%2Fb.s3%2Fo%3FX-Amz-Signature%3Dmine&b=2", "/a?url=***&b=2"},
      {"/a?url=https://b/o%3Fa%3D1%26sig%3dmine", "/a?url=***"},
      {"/a?next=/b%23access_token=mine", "/a?next=***"},
      {"/a?u=%252Fb%253Fkey%253Dmine", "/a?u=***"},
      {"/a?u=%25252Fb%25253Fkey%25253Dmine", "/a?u=***"},
      {"/a?u=%3F%6bey=mine", "/a?u=***"},
      {"/a?u%3D%3Fkey%3Dmine", "/a?=***"},
      {"/a?u%253D%253Fkey%253Dmine", "/a?=***"},
      {"/a?u%3Fkey%3Dmine=1", "/a?=***"},
      {"/a?query=token%3Dmine", "/a?query=***"},
  });
}

TEST(Secrets, AreNotWhatOnlyResemblesThem) {
  for (const char* target : {
           "/a",
           "/key=1/a",
           "/a?",
           "/a?monkey=1&keys=2&sigma=3&design=4&signatures=5&max_tokens=6",
           "/a?page_token=1",
           "/a?text=is+this+the%3F+key%26",
           "/a?url=https%3A%2F%2Fb%2Fo%3Fa%3D1%26b%3D2",
           "/a?x=100%&y=%zz%",
       }) {
    EXPECT_FALSE(target_holds_secret(target)) << target;
    EXPECT_EQ(target_with_hidden_secrets(target), target);
  }
}

TEST(Secrets, AreSoughtInTimeThatGrowsWithTheLengthOfTheQuery) {
  const auto repeated = [](std::string_view piece) {
    std::string target = "/a?u=";
    while (target.size() < (1u << 20)) target += piece;
    return target;
  };
  const auto began = std::chrono::steady_clock::now();
  for (const char* piece : {"%25", "%3D", "=", "%3F%26", "&", "%2525", "%253Dke"}) {
    EXPECT_FALSE(target_holds_secret(repeated(piece))) << piece;
  }
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(10));
}

}  // namespace
}  // namespace evenkeel
