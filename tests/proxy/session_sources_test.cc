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
#include "proxy/agent_session.h"

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

TEST(SessionSources, TakeTheSessionOfTheTenantForRequestsThatNameNone) {
  const auto of_tenants =
      sessions_of({{.name = "a"}, {.name = "b", .session = "desk"}, {.name = "c"}});
  const SessionSources sources({"header:x-chat"}, AffinityMode::soft, of_tenants);
  Request request;
  for (const char* const other : {"", "a", "c", "bb"}) {
    request.info.identity.tenant.name = other;
    EXPECT_EQ(key_of(sources, request), std::nullopt) << other;
  }
  request.info.identity.tenant.name = "b";
  EXPECT_EQ(key_of(sources, request), hash_of("desk"));
  EXPECT_TRUE(sources.find(request)->is_soft);
  request.fields.add("x-chat", "own");
  EXPECT_EQ(key_of(sources, request), hash_of("own"));
}

TEST(SessionSources, KnowThatNoTenantHasASession) {
  EXPECT_EQ(sessions_of({{.name = "a"}, {.name = "b"}}), nullptr);
  EXPECT_EQ(sessions_of({}), nullptr);
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
    EXPECT_EQ(session->key, agent_session_key("one")) << name;
    EXPECT_TRUE(session->is_soft) << name;
  }
  EXPECT_FALSE(agent_session_of({{"x-request-id", "one"}, {"x-session-id", ""}}));
}

TEST(AgentSession, OfAChildNamesItsParent) {
  const auto child =
      agent_session_of({{"x-claude-code-session-id", "main"}, {"x-claude-code-agent-id", "child"}});
  EXPECT_EQ(child->key, agent_session_key("child"));
  EXPECT_EQ(child->parent, agent_session_key("main"));
  const auto grandchild = agent_session_of({{"x-claude-code-session-id", "main"},
                                            {"x-claude-code-agent-id", "grandchild"},
                                            {"x-claude-code-parent-agent-id", "child"}});
  EXPECT_EQ(grandchild->parent, agent_session_key("child"));
  const auto codex = agent_session_of({{"thread-id", "two"}, {"x-codex-parent-thread-id", "one"}});
  EXPECT_EQ(codex->key, agent_session_key("two"));
  EXPECT_EQ(codex->parent, agent_session_key("one"));
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
  EXPECT_EQ(key_of(sources, request), agent_session_key("ann"));
  request.info.inference->request.conversation_id = "conv_1";
  EXPECT_EQ(key_of(sources, request), agent_session_key("conv_1"));
  request.info.inference->request.session = "key";
  EXPECT_EQ(key_of(sources, request), agent_session_key("key"));
}

TEST(AgentSession, IsNoneThatAnotherSourceNames) {
  const std::vector<std::string> others = {"header:x-chat", "cookie:user", "response-id"};
  const SessionSources sources({"agent-session", others[0], others[1], others[2]},
                               AffinityMode::soft);
  const std::string_view name = "resp_1";
  Request agent;
  agent.fields.add("x-session-id", name);
  Request header;
  header.fields.add("x-chat", name);
  Request cookie;
  cookie.fields.add("cookie", "user=resp_1");

  EXPECT_NE(key_of(sources, agent), key_of(sources, header));
  EXPECT_NE(key_of(sources, agent), key_of(sources, cookie));
  EXPECT_NE(key_of(sources, agent), AnswerPins::key_of_id(name));
  EXPECT_NE(key_of(sources, header), AnswerPins::key_of_id(name));
}

TEST(AgentSession, IsTheOneThatItsFieldNames) {
  Request request;
  request.fields.add("X-Session-Id", "one");
  EXPECT_EQ(key_of(SessionSources({"header:x-session-id", "agent-session"}), request),
            key_of(SessionSources({"agent-session", "header:x-session-id"}), request));
}

std::optional<std::uint64_t> response_id_of(std::string_view method, std::string_view path) {
  Request request;
  request.method = method;
  request.path = path;
  return find_response_id(request);
}

TEST(SessionSources, KnowTheIdInAPath) {
  for (const std::string_view path :
       {"/v1/responses/resp_1", "/v1/responses/resp_1?stream=true", "/v1/conversations/resp_1",
        "/v1/responses/resp_1/input_items?limit=2", "/v1//responses/resp%5F1",
        "/openai/v1/responses/resp_1", "/%761/%72esponses/resp_1"}) {
    EXPECT_EQ(response_id_of("GET", path), AnswerPins::key_of_id("resp_1")) << path;
  }
  EXPECT_EQ(response_id_of("DELETE", "/v1/responses/resp_1"), AnswerPins::key_of_id("resp_1"));
  EXPECT_EQ(response_id_of("POST", "/v1/responses/resp_1/cancel"), AnswerPins::key_of_id("resp_1"));
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
  EXPECT_EQ(find_response_id(request), AnswerPins::key_of_id("conv_1"));
  request.info.inference->request.previous_response = "resp_1";
  EXPECT_EQ(find_response_id(request), AnswerPins::key_of_id("resp_1"));
  for (const std::string_view path : {"/v1/responses?x=1", "/v1/%72esponses", "/v1//responses"}) {
    request.path = path;
    EXPECT_TRUE(sources.reads_answer(request)) << path;
  }
  EXPECT_FALSE(SessionSources({"header:x-chat"}).reads_answer(request));
}

bool awaits_name(const SessionSources& sources, std::string_view path, InferenceTask task) {
  Request request;
  request.method = "POST";
  request.path = path;
  inspect(request, task, "");
  return sources.awaits_name(request);
}

TEST(SessionSources, AwaitTheNamesThatTheFileLists) {
  constexpr auto chat = InferenceTask::chat;
  constexpr auto infer = InferenceTask::infer;
  const SessionSources ids({"response-id"});
  EXPECT_TRUE(awaits_name(ids, "/v1/responses", chat));
  EXPECT_FALSE(awaits_name(ids, "/v1/chat/completions", chat));
  const SessionSources sessions({"session_id", "sequence_id"});
  EXPECT_TRUE(awaits_name(sessions, "/v1/chat/completions", chat));
  EXPECT_TRUE(awaits_name(sessions, "/v2/models/m/infer", infer));
  EXPECT_FALSE(awaits_name(sessions, "/v1/audio/speech", InferenceTask::audio));
  EXPECT_FALSE(awaits_name(SessionSources({"session_id"}), "/v2/models/m/infer", infer));
  EXPECT_FALSE(awaits_name(SessionSources({"agent-session"}), "/v1/chat/completions", chat));
}

TEST(SessionSources, DoNotAwaitAllOfAGrpcMessage) {
  Request request;
  request.method = "POST";
  request.path = "/inference.GRPCInferenceService/ModelInfer";
  request.fields.add("content-type", "application/grpc");
  inspect(request, InferenceTask::infer, "");
  EXPECT_FALSE(SessionSources({"sequence_id"}).awaits_name(request));
}

TEST(SessionSources, AwaitNothingBehindTheOneThatCounts) {
  Request request;
  request.method = "POST";
  request.path = "/v1/responses";
  inspect(request, InferenceTask::chat, "");
  request.fields.add("x-chat", "a");
  EXPECT_FALSE(SessionSources({"header:x-chat", "session_id"}).awaits_name(request));
  EXPECT_TRUE(SessionSources({"session_id", "header:x-chat"}).awaits_name(request));
  const SessionSources ids({"header:x-chat", "response-id"});
  EXPECT_TRUE(ids.awaits_name(request));
  request.info.inference->request.previous_response = "resp_1";
  EXPECT_FALSE(ids.awaits_name(request));
}

}  // namespace
}  // namespace evenkeel
