// Which credentials the backends of one request get.
#include "proxy/credentials.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace evenkeel {
namespace {

const std::vector<BackendCredential> own_keys{{.value = "Bearer first"},
                                              {.value = "Bearer second"}};

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

  credentials.restore(request);
  EXPECT_EQ(lines_of(request), before);
  for (const BackendCredential& key : own_keys) {
    credentials.apply_to(request, &key);
    EXPECT_EQ(lines_of(request),
              (std::vector<std::string>{"accept: */*", "authorization: " + key.value,
                                        "idempotency-key: 1"}));
  }
  credentials.restore(request);
  EXPECT_EQ(lines_of(request), before);
  EXPECT_TRUE(request.fields.find("x-api-key")->never_indexed);
  credentials.apply_to(request, &own_keys[0]);
  credentials.restore(request);
  EXPECT_EQ(lines_of(request), before);
}

TEST(CredentialsTest, AreNoSubprotocolsWhateverTheLengthOfTheirName) {
  Request request;
  request.fields.add("x-subscription-api-key", "mine");
  ASSERT_EQ(request.fields.begin()->name_size, subprotocol_field.size());
  Credentials credentials;

  credentials.apply_to(request, &own_keys[0]);

  EXPECT_EQ(lines_of(request), std::vector<std::string>{"authorization: Bearer first"});
}

TEST(CredentialsTest, InTheQueryAreReplacedToo) {
  const char* const targets[][2] = {
      {"/v1/models?key=mine", "/v1/models"},
      {"/a?b=1&api_key=mine&c=2", "/a?b=1&c=2"},
      {"/a?api-key=mine&b=key%3Dx", "/a?b=key%3Dx"},
      {"/a?%6bey=mine&x", "/a?x"},
      {"/a?API%5FKEY=mine", "/a"},
      {"/a?x=1;key=mine", "/a?x=1"},
      {"/a?+key=mine&y=a;b", "/a?y=a;b"},
      {"/a?key%3Dmine", "/a"},
      {"/a?x?token=mine", "/a?x"},
      {"/a?x&key[]=mine#key=mine", "/a?x"},
      {"/a?access_token=mine&&b", "/a?&b"},
      {"/a?key", "/a"},
      {"/a?monkey=1&keys=2", "/a?monkey=1&keys=2"},
      {"/a?refresh_token=mine&id_token=mine&page_token=1", "/a?page_token=1"},
      {"/a?password=p&secret=s&pwd=p&key=mine", "/a?password=p&secret=s&pwd=p"},
      {"/a?sv=1&sig=abc&X-Amz-Signature=abc", "/a?sv=1&sig=abc&X-Amz-Signature=abc"},
      {"/a?X-Goog-Credential=me&audio_signature=a", "/a?X-Goog-Credential=me&audio_signature=a"},
      {"/a?url=https%3A%2F%2Fb%2F%3Fkey%3Dx", "/a?url=https%3A%2F%2Fb%2F%3Fkey%3Dx"},
      {"/a?sigma=1&design=2&signatures=3", "/a?sigma=1&design=2&signatures=3"},
      {"/key=1/a", "/key=1/a"},
      {"/a?", "/a?"},
      {"/v1/chat/completions?key=mine", "/v1/chat/completions"},
      {"/0123456789abcd?key", "/0123456789abcd"},
      {"/0123456789abcdefg?api_key=mine", "/0123456789abcdefg"},
      {"/0123456789abcdef", "/0123456789abcdef"},
  };
  for (const auto& [target, rest] : targets) {
    Request request;
    request.path = target;
    Credentials credentials;
    credentials.restore(request);
    EXPECT_EQ(request.path, target);
    for (const BackendCredential& key : own_keys) {
      credentials.apply_to(request, &key);
      EXPECT_EQ(request.path, rest);
    }
    credentials.restore(request);
    EXPECT_EQ(request.path, target);
  }
}

TEST(CredentialsTest, AmongTheSubprotocolsAreReplacedToo) {
  Request request;
  const std::string key = "openai-insecure-api-key.mine";
  const std::string list = "realtime, " + key + ",openai-beta.realtime-v1";
  request.fields.add("Sec-WebSocket-Protocol", list);
  request.fields.add("sec-websocket-protocol", key);
  request.fields.add("sec-websocket-protocol", "chat");
  const std::vector<std::string> before = lines_of(request);
  Credentials credentials;

  for (const BackendCredential& own : own_keys) {
    credentials.apply_to(request, &own);
    EXPECT_EQ(lines_of(request), (std::vector<std::string>{
                                     "authorization: " + own.value, "sec-websocket-protocol: chat",
                                     "sec-websocket-protocol: realtime, openai-beta.realtime-v1"}));
  }
  credentials.restore(request);
  EXPECT_EQ(lines_of(request), before);
}

TEST(CredentialsTest, OfProxiesInFrontReachNoHostedService) {
  Request request;
  for (const std::string_view name :
       {"cf-access-jwt-assertion", "X-Goog-IAP-JWT-Assertion", "x-amzn-oidc-data",
        "x-auth-request-email", "Remote-User", "x-original-forwarded-for", "sentry-trace"})
    request.fields.add(name, "mine");
  request.fields.add("openai-beta", "x");
  const std::vector<std::string> before = lines_of(request);
  Credentials credentials;

  credentials.apply_to(request, own_keys.data(), true);
  EXPECT_EQ(lines_of(request),
            (std::vector<std::string>{"authorization: " + own_keys[0].value, "openai-beta: x"}));
  credentials.restore(request);
  EXPECT_EQ(lines_of(request), before);
}

TEST(CredentialsTest, OfABackendMayBeInAFieldOfAnyName) {
  Request request;
  request.fields.add("Authorization", "Bearer mine");
  request.fields.add("x-secret", "mine");
  const std::vector<std::string> before = lines_of(request);
  const std::vector<BackendCredential> keys{{.field = "x-secret", .value = "a"},
                                            {.field = "api-key", .value = "b"}};
  Credentials credentials;

  for (const BackendCredential& key : keys) {
    credentials.apply_to(request, &key);
    EXPECT_EQ(lines_of(request), std::vector<std::string>{key.field + ": " + key.value});
    EXPECT_TRUE(request.fields.begin()->never_indexed);
  }
  credentials.restore(request);
  EXPECT_EQ(lines_of(request), before);
}

TEST(CredentialsTest, AHostedServiceLearnsNothingOfTheClient) {
  const std::vector<std::string> tenants{"x-team"};
  Request request;
  request.info.identity.reserved_fields = &tenants;
  for (const char* name :
       {"x-forwarded-for", "X-Forwarded-Prefix", "forwarded", "via", "cookie", "traceparent",
        "tracestate", "baggage", "x-real-ip", "CF-Connecting-IP", "x-evenkeel-explain", "X_Team"})
    request.fields.add(name, "1");
  for (const char* name : {"accept", "anthropic-version", "x-request-id", "user-agent"})
    request.fields.add(name, "1");
  const std::vector<std::string> before = lines_of(request);
  Credentials credentials;

  credentials.apply_to(request, &own_keys[0], true);

  EXPECT_EQ(lines_of(request), (std::vector<std::string>{"accept: 1", "anthropic-version: 1",
                                                         "authorization: Bearer first",
                                                         "user-agent: 1", "x-request-id: 1"}));
  credentials.restore(request);
  EXPECT_EQ(lines_of(request), before);
}

}  // namespace
}  // namespace evenkeel
