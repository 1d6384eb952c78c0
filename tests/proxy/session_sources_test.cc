#include "proxy/session_sources.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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

  EXPECT_FALSE(sessions.find(chat)->has_state);
  EXPECT_FALSE(sessions.find(infer));
  EXPECT_FALSE(sequences.find(chat));
  EXPECT_TRUE(sequences.find(infer)->has_state);
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

std::optional<SessionHint> agent_session_of(
    const std::vector<std::pair<std::string_view, std::string_view>>& fields) {
  Request request;
  for (const auto& [name, value] : fields) request.fields.add(name, value);
  return SessionSources({"agent-session"}, AffinityMode::soft).find(request);
}

TEST(AgentSession, IsWhatCodingAgentsSend) {
  for (const std::string_view name :
       {"X-Claude-Code-Session-Id", "x-claude-code-agent-id", "thread-id", "session-id",
        "session_id", "x-session-affinity", "x-dynamo-session-id", "x-smg-routing-key",
        "x-session-id", "x-session-token"}) {
    const auto session = agent_session_of({{"accept", "*/*"}, {name, "one"}});
    ASSERT_TRUE(session) << name;
    EXPECT_EQ(session->key, hash_of("one")) << name;
    EXPECT_TRUE(session->is_soft) << name;
  }
  EXPECT_FALSE(agent_session_of({{"x-request-id", "one"}, {"x-session-id", ""}}));
}

TEST(AgentSession, OfAChildNamesItsParent) {
  const auto child =
      agent_session_of({{"x-claude-code-session-id", "main"}, {"x-claude-code-agent-id", "child"}});
  EXPECT_EQ(child->key, hash_of("child"));
  EXPECT_EQ(child->parent, hash_of("main"));
  const auto grandchild = agent_session_of({{"x-claude-code-session-id", "main"},
                                            {"x-claude-code-agent-id", "grandchild"},
                                            {"x-claude-code-parent-agent-id", "child"}});
  EXPECT_EQ(grandchild->parent, hash_of("child"));
  const auto codex = agent_session_of({{"thread-id", "two"}, {"x-codex-parent-thread-id", "one"}});
  EXPECT_EQ(codex->key, hash_of("two"));
  EXPECT_EQ(codex->parent, hash_of("one"));
}

TEST(AgentSession, EndsWhenTheClientSaysSo) {
  EXPECT_TRUE(
      agent_session_of({{"x-dynamo-session-id", "one"}, {"x-dynamo-session-final", "true"}})->ends);
  EXPECT_FALSE(agent_session_of({{"x-dynamo-session-id", "one"}})->ends);
}

TEST(AgentSession, IsInTheBodyOtherwise) {
  const SessionSources sources({"agent-session"}, AffinityMode::soft);
  Request request;
  inspect(request, InferenceTask::chat, "");
  request.info.inference->request.user = "ann";
  EXPECT_EQ(key_of(sources, request), hash_of("ann"));
  request.info.inference->request.conversation_id = "conv_1";
  EXPECT_EQ(key_of(sources, request), hash_of("conv_1"));
  request.info.inference->request.session = "key";
  EXPECT_EQ(key_of(sources, request), hash_of("key"));
}

std::optional<std::uint64_t> response_id_of(std::string_view method, std::string_view path) {
  Request request;
  request.method = method;
  request.path = path;
  return SessionSources({"header:x-chat", "response-id"}).find_response_id(request);
}

TEST(SessionSources, KnowTheIdInAPath) {
  for (const std::string_view path :
       {"/v1/responses/resp_1", "/v1/responses/resp_1?stream=true", "/v1/conversations/resp_1",
        "/v1/responses/resp_1/input_items?limit=2", "/v1//responses/resp%5F1",
        "/openai/v1/responses/resp_1", "/%761/%72esponses/resp_1"}) {
    EXPECT_EQ(response_id_of("GET", path), hash_of("resp_1")) << path;
  }
  EXPECT_EQ(response_id_of("DELETE", "/v1/responses/resp_1"), hash_of("resp_1"));
  EXPECT_EQ(response_id_of("POST", "/v1/responses/resp_1/cancel"), hash_of("resp_1"));
  EXPECT_EQ(response_id_of("POST", "/v1/responses"), std::nullopt);
  EXPECT_EQ(response_id_of("POST", "/v1/responses/compact"), std::nullopt);
  EXPECT_EQ(response_id_of("GET", "/v1/models/resp_1"), std::nullopt);
}

TEST(SessionSources, KnowTheIdThatARequestGoesOnFrom) {
  const SessionSources sources({"response-id"});
  Request request;
  request.method = "POST";
  request.path = "/v1/responses";
  inspect(request, InferenceTask::chat, "");
  request.info.inference->request.conversation_id = "conv_1";
  EXPECT_EQ(sources.find_response_id(request), hash_of("conv_1"));
  request.info.inference->request.previous_response = "resp_1";
  EXPECT_EQ(sources.find_response_id(request), hash_of("resp_1"));
  for (const std::string_view path : {"/v1/responses?x=1", "/v1/%72esponses", "/v1//responses"}) {
    request.path = path;
    EXPECT_TRUE(sources.reads_answer(request)) << path;
  }
  EXPECT_FALSE(SessionSources({"header:x-chat"}).find_response_id(request));
}

}  // namespace
}  // namespace evenkeel
