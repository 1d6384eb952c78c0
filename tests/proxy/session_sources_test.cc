#include "proxy/session_sources.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <set>
#include <string>

#include "evenkeel/base/hash.h"

namespace evenkeel {
namespace {

void inspect(Request& request, InferenceTask task, std::string session, std::string model = {}) {
  request.info.inference = std::make_unique<InferenceInfo>();
  request.info.inference->request.task = task;
  request.info.inference->request.session = std::move(session);
  request.info.inference->request.model = std::move(model);
}

std::optional<std::uint64_t> key_of(const SessionSources& sources, const Request& request) {
  const auto session = sources.find(request);
  return session ? std::optional(session->key) : std::nullopt;
}

TEST(SessionSources, TakeTheFirstThatTheRequestHas) {
  const SessionSources sources({"header:x-chat", "cookie:user", "session_id"});
  Request request;
  EXPECT_EQ(key_of(sources, request), std::nullopt);

  inspect(request, InferenceTask::chat, "c");
  EXPECT_EQ(key_of(sources, request), hash_of("c"));
  request.fields.add("Cookie", "user=b");
  EXPECT_EQ(key_of(sources, request), hash_of("b"));
  request.fields.add("X-Chat", "a");
  EXPECT_EQ(key_of(sources, request), hash_of("a"));
}

TEST(SessionSources, IgnoreEmptyValues) {
  const SessionSources sources({"header:x-chat", "cookie:user", "session_id", "sequence_id"});
  Request request;
  request.fields.add("x-chat", "");
  request.fields.add("cookie", "user=");
  inspect(request, InferenceTask::chat, "");

  EXPECT_EQ(key_of(sources, request), std::nullopt);
}

TEST(SessionSources, TellSequencesFromSessions) {
  const SessionSources sessions({"session_id"});
  const SessionSources sequences({"sequence_id"});
  Request chat;
  inspect(chat, InferenceTask::chat, "7");
  Request infer;
  inspect(infer, InferenceTask::infer, "7", "resnet");

  EXPECT_FALSE(sessions.find(chat)->is_sequence);
  EXPECT_FALSE(sessions.find(infer));
  EXPECT_FALSE(sequences.find(chat));
  EXPECT_TRUE(sequences.find(infer)->is_sequence);
}

TEST(SessionSources, TellTheStartOfASequence) {
  const SessionSources sequences({"sequence_id"});
  Request infer;
  inspect(infer, InferenceTask::infer, "7", "resnet");
  EXPECT_FALSE(sequences.find(infer)->starts);

  infer.info.inference->request.starts_sequence = true;
  EXPECT_TRUE(sequences.find(infer)->starts);
}

TEST(SessionSources, KeepTheSequencesOfModelsApart) {
  const SessionSources sources({"sequence_id"});
  std::set<std::uint64_t> keys;
  for (const char* model : {"a", "b"}) {
    for (const char* sequence : {"1", "2"}) {
      Request request;
      inspect(request, InferenceTask::infer, sequence, model);
      keys.insert(sources.find(request)->key);
    }
  }
  EXPECT_EQ(keys.size(), 4u);
}

TEST(SessionSources, SetACookieOnlyIfTheFileSaysSo) {
  EXPECT_TRUE(SessionSources({"header:x-chat", "cookie"}).sets_cookie());
  EXPECT_FALSE(SessionSources({"header:x-chat", "cookie:user"}).sets_cookie());

  Request request;
  request.fields.add("cookie", "evenkeel-session=abc");
  EXPECT_EQ(key_of(SessionSources({"cookie"}), request), hash_of("abc"));
}

std::string cookie_in(std::string_view field, std::string_view name = "user") {
  Fields fields;
  fields.add("cookie", field);
  return std::string(cookie_value(fields, name));
}

TEST(CookieValue, IsThatOfTheNameAmongOthers) {
  EXPECT_EQ(cookie_in("user=a"), "a");
  EXPECT_EQ(cookie_in("x=1; user=a; y=2"), "a");
  EXPECT_EQ(cookie_in("x=1;user=a"), "a");
  EXPECT_EQ(cookie_in("user=a=b; x=1"), "a=b");
  EXPECT_EQ(cookie_in("user=\"a\""), "\"a\"");
  EXPECT_EQ(cookie_in("myuser=a; user2=b"), "");
  EXPECT_EQ(cookie_in("x=user=a"), "");
  EXPECT_EQ(cookie_in("USER=a"), "");
  EXPECT_EQ(cookie_in("user"), "");
  EXPECT_EQ(cookie_in(";; ;user"), "");
  EXPECT_EQ(cookie_in(""), "");
}

TEST(CookieValue, MayBeInAnyOfSeveralFields) {
  Fields fields;
  fields.add("cookie", "a=1");
  fields.add("cookie", "user=x");
  EXPECT_EQ(cookie_value(fields, "user"), "x");
}

TEST(SessionCookie, IsSecureForClientsThatUseTls) {
  EXPECT_EQ(session_cookie("ab", false), "evenkeel-session=ab; Path=/; HttpOnly; SameSite=Lax");
  EXPECT_EQ(session_cookie("ab", true),
            "evenkeel-session=ab; Path=/; HttpOnly; SameSite=Lax; Secure");
}

}  // namespace
}  // namespace evenkeel
