#include "sim/simulated_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "evenkeel/net/socket.h"
#include "evenkeel/wire/link.h"

namespace evenkeel {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

/// A response as the client received it.
struct Reply {
  bool done = false;
  bool refused = false;  ///< no connection
  bool cut = false;      ///< incomplete
  int status = 0;
  std::string body;
  std::vector<Instant> arrivals;  ///< of the pieces
};

Task<void> exchange(Loop& loop, Endpoint endpoint, std::string method, std::string path,
                    std::string body, Reply& reply) {
  auto fd = co_await dial(loop, endpoint, loop.now() + std::chrono::seconds(5));
  if (!fd) {
    reply.refused = reply.done = true;
    co_return;
  }
  const LinkOptions options;
  auto link = make_http1_link(std::make_unique<Socket>(loop, *fd), options);
  Request request;
  request.method = method;
  request.authority = "sim";
  request.path = path;
  request.body = make_body(std::move(body));
  auto response = co_await link->send(request);
  if (!response) {
    reply.cut = reply.done = true;
    co_return;
  }
  reply.status = response->status;
  while (response->body != nullptr) {
    auto chunk = co_await response->body->read();
    if (!chunk) {
      reply.cut = true;
      break;
    }
    reply.body += chunk->bytes;
    reply.arrivals.push_back(loop.read_clock());
    if (chunk->last) break;
  }
  reply.done = true;
}

/// A client on the server's own loop.
class Client {
 public:
  Client(Loop& loop, Endpoint endpoint, std::string method, std::string path, std::string body = {})
      : task_(exchange(loop, endpoint, std::move(method), std::move(path), std::move(body),
                       reply_)) {}
  Reply& reply() { return reply_; }
  void leave() { task_.drop(); }

 private:
  Reply reply_;
  Task<void> task_;
};

class Sim : public testing::Test {
 protected:
  void start(SimulatorOptions options = {}) {
    if (options.speed == 1) options.speed = 20;
    auto fd = Listener::bind(resolve("127.0.0.1", 0)->front());
    ASSERT_TRUE(fd.ok());
    endpoint_ = Listener::local_endpoint(*fd);
    server_ = std::make_unique<SimulatedServer>(loop_, options, *find_preset(options.preset),
                                                *find_simulated_engine(options.engine), *fd);
  }

  std::unique_ptr<Client> begin(std::string method, std::string path, std::string body = {}) {
    return std::make_unique<Client>(loop_, endpoint_, std::move(method), std::move(path),
                                    std::move(body));
  }
  bool turn_until(const std::function<bool()>& done) {
    return loop_.run_until(done, Clock::now() + std::chrono::seconds(20));
  }
  Reply ask(std::string method, std::string path, std::string body = {}) {
    auto client = begin(std::move(method), std::move(path), std::move(body));
    EXPECT_TRUE(turn_until([&] { return client->reply().done; }));
    return client->reply();
  }
  Reply chat(std::string body) { return ask("POST", "/v1/chat/completions", std::move(body)); }
  void set(std::string state) {
    auto changed = server_->control_page("/sim/v1/state", true, state);
    ASSERT_TRUE(changed.ok()) << changed.error().detail;
  }

  Loop loop_;
  Endpoint endpoint_;
  std::unique_ptr<SimulatedServer> server_;
};

std::string chat_body(std::string_view content, std::string_view more = {}) {
  return R"({"messages":[{"role":"user","content":")" + std::string(content) + "\"}]" +
         std::string(more) + "}";
}

std::string words(std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += (i == 0 ? "word" : " word");
  return text;
}

/// The concatenated text of all content deltas.
std::string streamed_text(const std::string& body) {
  constexpr std::string_view mark = R"("delta":{"content":")";
  std::string text;
  for (std::size_t at = body.find(mark); at != std::string::npos; at = body.find(mark, at)) {
    at += mark.size();
    text += body.substr(at, body.find('"', at) - at);
  }
  return text;
}

std::string text_of(const std::string& body) {
  constexpr std::string_view mark = R"("content":")";
  const std::size_t at = body.find(mark) + mark.size();
  return body.substr(at, body.find('"', at) - at);
}

// ---- OpenAI ------------------------------------------------------------------------------------

TEST_F(Sim, StreamsRoleThenWordsThenReasonThenUsageThenDone) {
  start();

  const Reply reply = chat(
      chat_body("hi", R"(,"stream":true,"stream_options":{"include_usage":true},"max_tokens":3)"));

  EXPECT_EQ(reply.status, 200);
  std::vector<std::string> events;
  for (std::size_t at = 0; at < reply.body.size();) {
    const std::size_t end = reply.body.find("\n\n", at);
    ASSERT_NE(end, std::string::npos);
    events.push_back(reply.body.substr(at, end - at));
    at = end + 2;
  }
  ASSERT_EQ(events.size(), 6u);
  for (const std::string& event : events) EXPECT_THAT(event, StartsWith("data: "));
  EXPECT_THAT(events[0], HasSubstr(R"("delta":{"role":"assistant","content":""})"));
  EXPECT_THAT(events[1], HasSubstr(R"("finish_reason":null)"));
  EXPECT_THAT(events[3], HasSubstr(R"("finish_reason":"length")"));
  EXPECT_THAT(
      events[4],
      HasSubstr(
          R"("choices":[],"usage":{"prompt_tokens":9,"total_tokens":12,"completion_tokens":3)"));
  EXPECT_EQ(events[5], "data: [DONE]");
}

TEST_F(Sim, PutsTheFingerprintIntoTheLastEventAsVllmDoes) {
  start();
  const std::string more = R"(,"stream":true,"ignore_eos":true,"max_tokens":2)";

  const std::string plain = chat(chat_body("hi", more)).body;
  const std::string asked =
      chat(chat_body("hi", more + R"(,"stream_options":{"include_usage":true})")).body;

  EXPECT_THAT(plain, HasSubstr(R"("length","stop_reason":null}],"system_fingerprint":"vllm-)"));
  EXPECT_THAT(plain, Not(HasSubstr("usage")));
  EXPECT_THAT(asked, HasSubstr(R"("length","stop_reason":null}]})"));
  EXPECT_THAT(asked, HasSubstr(R"(,"prompt_tokens_details":null},"system_fingerprint":"vllm-)"));
}

TEST_F(Sim, WritesNullUsageIntoEveryEventAsSglangDoes) {
  start({.engine = "sglang"});

  const std::string body = chat(chat_body("hi", R"(,"stream":true,"max_tokens":2)")).body;

  std::size_t events = 0;
  for (std::size_t at = body.find("data: {"); at != body.npos; at = body.find("data: {", at + 1)) {
    ++events;
    EXPECT_THAT(body.substr(at, body.find("\n\n", at) - at),
                testing::EndsWith(R"(],"usage":null})"));
  }
  EXPECT_GE(events, 3u);
}

TEST_F(Sim, WritesTheSameTextWhetherItStreamsOrNot) {
  start();

  const Reply whole = chat(chat_body("tell me", R"(,"max_tokens":40)"));
  const Reply streamed = chat(chat_body("tell me", R"(,"max_tokens":40,"stream":true)"));

  EXPECT_EQ(text_of(whole.body), streamed_text(streamed.body));
  EXPECT_GT(text_of(whole.body).size(), 40u);
}

TEST_F(Sim, TheSameRequestHasTheSameResponseBytesOnEveryServer) {
  start();
  const std::string body = chat_body(words(100), R"(,"max_tokens":20)");

  const Reply first = chat(body);
  const Reply second = chat(body);
  server_.reset();
  start({.name = "another"});
  const Reply elsewhere = chat(body);

  EXPECT_EQ(first.body, second.body);
  EXPECT_EQ(first.body, elsewhere.body);
}

TEST_F(Sim, AnotherPromptOrSeedHasAnotherResponse) {
  start();

  const Reply a = chat(chat_body("one", R"(,"max_tokens":20)"));
  const Reply b = chat(chat_body("two", R"(,"max_tokens":20)"));
  const Reply c = chat(chat_body("one", R"(,"max_tokens":20,"seed":12345678901234567890123)"));

  EXPECT_NE(text_of(a.body), text_of(b.body));
  EXPECT_NE(text_of(a.body), text_of(c.body));
}

TEST_F(Sim, StopsNaturallyUnlessIgnoreEosIsSet) {
  start({.speed = 500});

  const Reply natural = chat(chat_body("hi", R"(,"max_tokens":100000)"));
  const Reply ignoring = chat(chat_body("hi", R"(,"max_tokens":4500,"ignore_eos":true)"));
  const Reply longer = chat(chat_body("hi", R"(,"min_tokens":4200,"max_tokens":100000)"));

  EXPECT_THAT(natural.body, HasSubstr(R"("finish_reason":"stop")"));
  EXPECT_THAT(ignoring.body, HasSubstr(R"("completion_tokens":4500)"));
  EXPECT_THAT(ignoring.body, HasSubstr(R"("finish_reason":"length")"));
  EXPECT_THAT(longer.body, HasSubstr(R"("completion_tokens":4200)"));
}

TEST_F(Sim, AnswersEveryChoiceOfEveryPrompt) {
  start();

  const Reply reply =
      ask("POST", "/v1/completions", R"({"prompt":["a b","c"],"n":2,"max_tokens":2})");

  EXPECT_EQ(reply.status, 200);
  for (const char* index : {"0", "1", "2", "3"}) {
    EXPECT_THAT(reply.body, HasSubstr(std::string(R"({"index":)") + index + ","));
  }
  EXPECT_THAT(reply.body,
              HasSubstr(R"("prompt_tokens":5,"total_tokens":13,"completion_tokens":8)"));
}

TEST_F(Sim, EmbedsAsNumbersOrBase64) {
  start();

  const Reply numbers = ask("POST", "/v1/embeddings", R"({"input":["a","b"]})");
  const Reply base64 = ask("POST", "/v1/embeddings", R"({"input":"a","encoding_format":"base64"})");

  EXPECT_EQ(numbers.status, 200);
  EXPECT_THAT(numbers.body, HasSubstr(R"("index":1,"object":"embedding","embedding":[)"));
  EXPECT_EQ(base64.status, 200);
  EXPECT_THAT(base64.body, HasSubstr(R"("embedding":")"));
}

TEST_F(Sim, RejectsWithVllmErrorBodies) {
  start();

  const Reply malformed = chat(R"({"messages":)");
  const Reply unknown = chat(R"({"model":"gpt-9","messages":[{"role":"user","content":"x"}]})");
  const Reply too_long = chat(chat_body("x", R"(,"max_tokens":200000)"));
  const Reply lost = ask("POST", "/v1/nothing", "{}");

  EXPECT_EQ(malformed.status, 400);
  EXPECT_THAT(malformed.body, HasSubstr(R"("type":"BadRequestError","param":null,"code":400)"));
  EXPECT_EQ(unknown.status, 404);
  EXPECT_THAT(
      unknown.body,
      HasSubstr(R"(The model `gpt-9` does not exist.","type":"NotFoundError","param":"model")"));
  EXPECT_EQ(too_long.status, 400);
  EXPECT_THAT(too_long.body, HasSubstr("maximum context length is 131072 tokens"));
  EXPECT_EQ(lost.status, 404);
}

TEST_F(Sim, ShowsItsAdaptersAsVllmDoes) {
  start({.model = "llama", .adapters = {.names = {"sql", "chat"}, .slots = 1, .load_seconds = 0}});

  const Reply list = ask("GET", "/v1/models");
  EXPECT_THAT(list.body, HasSubstr(R"({"id":"llama",)"));
  EXPECT_THAT(list.body, HasSubstr(R"("parent":null,"max_model_len":131072)"));
  EXPECT_THAT(list.body, HasSubstr(R"({"id":"sql",)"));
  EXPECT_THAT(list.body, HasSubstr(R"("parent":"llama","max_model_len":null)"));
  EXPECT_THAT(ask("GET", "/metrics").body, Not(HasSubstr("vllm:lora_requests_info{")));

  const Reply answer =
      chat(R"({"model":"sql","messages":[{"role":"user","content":"hi"}],"max_tokens":1})");
  EXPECT_EQ(answer.status, 200);
  EXPECT_THAT(answer.body, HasSubstr(R"("model":"sql")"));
  EXPECT_EQ(chat(R"({"model":"other","messages":[{"role":"user","content":"hi"}],"max_tokens":1})")
                .status,
            404);

  const Reply page = ask("GET", "/metrics");
  EXPECT_THAT(page.body, HasSubstr(R"(vllm:lora_requests_info{max_lora="1",)"
                                   R"(running_lora_adapters="sql",waiting_lora_adapters=""} 1)"));
  EXPECT_THAT(page.body, HasSubstr(R"(running_lora_adapters="",waiting_lora_adapters=""} 1)"));
  EXPECT_THAT(ask("GET", "/sim/v1/report").body, HasSubstr(R"("adapter_loads":1)"));
}

TEST_F(Sim, AdaptersShareNoPrefixes) {
  start({.model = "llama",
         .prompt_tokens_details = true,
         .adapters = {.names = {"sql", "chat"}, .slots = 2}});
  const auto cached = [this](const std::string& model) {
    const std::string body = chat(R"({"model":")" + model + R"(","messages":[{"role":"user",)" +
                                  R"("content":")" + words(100) + R"("}],"max_tokens":1})")
                                 .body;
    return body.substr(body.find("cached_tokens"));
  };

  EXPECT_THAT(cached("sql"), StartsWith(R"(cached_tokens":0})"));
  EXPECT_THAT(cached("chat"), StartsWith(R"(cached_tokens":0})"));
  EXPECT_THAT(cached("llama"), StartsWith(R"(cached_tokens":0})"));
  EXPECT_THAT(cached("sql"), StartsWith(R"(cached_tokens":96})"));
}

TEST_F(Sim, HitsThePrefixOfAnEarlierTurnIncludingItsOutput) {
  start({.prompt_tokens_details = true});
  const std::string question = words(60);
  const Reply first = chat(chat_body(question, R"(,"max_tokens":60,"ignore_eos":true)"));

  const std::string history = R"({"messages":[{"role":"user","content":")" + question +
                              R"("},{"role":"assistant","content":")" + text_of(first.body) +
                              R"("},{"role":"user","content":"go on"}],"max_tokens":1})";
  const Reply second = chat(history);

  EXPECT_THAT(first.body, HasSubstr(R"("cached_tokens":0)"));
  // 1 + 3 + 60 + 1 marks and words of the question, 3 marks, 60 words written, of which all full
  // blocks but the last token's were computed.
  EXPECT_THAT(second.body, HasSubstr(R"("cached_tokens":112)"));
}

TEST_F(Sim, KeepsThePrefixesOfSaltsApart) {
  start({.prompt_tokens_details = true});
  chat(chat_body(words(100), R"(,"max_tokens":1,"cache_salt":"a")"));

  const Reply other = chat(chat_body(words(100), R"(,"max_tokens":1,"cache_salt":"b")"));
  const Reply same = chat(chat_body(words(100), R"(,"max_tokens":1,"cache_salt":"a")"));

  EXPECT_THAT(other.body, HasSubstr(R"("cached_tokens":0)"));
  EXPECT_THAT(same.body, HasSubstr(R"("cached_tokens":96)"));
}

TEST_F(Sim, EchoesARequestAsItCame) {
  start();

  const Reply reply = ask("PATCH", "/echo/any?q=1", "abc");

  EXPECT_EQ(reply.status, 200);
  EXPECT_THAT(
      reply.body,
      StartsWith(R"({"method":"PATCH","target":"/echo/any?q=1","authority":"sim","fields":[)"));
  EXPECT_THAT(reply.body, HasSubstr(R"("body_bytes":3)"));
  EXPECT_THAT(reply.body, EndsWith(R"("body_base64":"YWJj"})"));
}

// ---- Time --------------------------------------------------------------------------------------

TEST_F(Sim, TokensLeaveAtTheModelledPaceWithoutDrift) {
  start({.speed = 2});
  const Instant begun = Clock::now();

  const Reply reply = chat(chat_body("hi", R"(,"max_tokens":60,"ignore_eos":true,"stream":true)"));

  // Steps of 8.0 ms, twice as fast. A busy machine may bring tokens late, but never early, and the
  // last is not late by the sum of all delays.
  ASSERT_GE(reply.arrivals.size(), 2u);
  const double last = seconds_of(reply.arrivals.back() - begun);
  EXPECT_GE(last, 60 * 0.004);
  EXPECT_LE(last, 60 * 0.004 + 0.5);
}

TEST_F(Sim, RequestsThatArriveTogetherShareTheirSteps) {
  start({.speed = 20});
  std::vector<std::unique_ptr<Client>> clients;

  for (int i = 0; i < 20; ++i) {
    clients.push_back(
        begin("POST", "/v1/chat/completions",
              chat_body("hi " + std::to_string(i), R"(,"max_tokens":50,"ignore_eos":true)")));
  }
  ASSERT_TRUE(turn_until([&] {
    for (auto& client : clients) {
      if (!client->reply().done) return false;
    }
    return true;
  }));

  EXPECT_THAT(server_->report(), HasSubstr(R"("completed":20)"));
  const std::string report = server_->report();
  const int steps = std::stoi(report.substr(report.find("\"steps\":") + 8));
  EXPECT_GE(steps, 50);
  EXPECT_LE(steps, 100);  // not 20 * 50
}

/// Whether the head of a stream arrives before its first token.
TEST_F(Sim, SendsTheHeadOfAStreamWhenItsEngineDoes) {
  struct Case {
    const char* engine;
    StreamHead head;
    bool early;
  };
  for (const Case& each :
       {Case{"vllm", StreamHead::as_engine, true}, Case{"tgi", StreamHead::as_engine, true},
        Case{"sglang", StreamHead::as_engine, false},
        Case{"llamacpp", StreamHead::as_engine, false},
        Case{"vllm", StreamHead::with_first_token, false},
        Case{"sglang", StreamHead::early, true}}) {
    start({.engine = each.engine, .speed = 0.2, .stream_head = each.head});
    auto client = begin("POST", "/v1/chat/completions",
                        chat_body("hi", R"(,"max_tokens":5,"ignore_eos":true,"stream":true)"));

    ASSERT_TRUE(turn_until([&] { return client->reply().status == 200; }));

    EXPECT_EQ(client->reply().arrivals.empty(), each.early) << each.engine;
    client->leave();
    server_.reset();
  }
}

// ---- Clients that leave ------------------------------------------------------------------------

TEST_F(Sim, StopsGeneratingWhenItsClientLeavesAStream) {
  start({.speed = 1.5});
  auto client =
      begin("POST", "/v1/chat/completions",
            chat_body(words(200), R"(,"max_tokens":5000,"ignore_eos":true,"stream":true)"));
  ASSERT_TRUE(turn_until([&] { return client->reply().arrivals.size() > 2; }));

  client->leave();

  ASSERT_TRUE(
      turn_until([&] { return server_->report().find(R"("aborted":1)") != std::string::npos; }));
  EXPECT_THAT(server_->report(), HasSubstr(R"("running":0,"waiting":0,"completed":0)"));
  EXPECT_THAT(server_->report(), HasSubstr(R"("kv_cache_ratio":0,)"));
}

TEST_F(Sim, StopsGeneratingWhenItsClientLeavesBeforeTheResponse) {
  start({.speed = 1.5});
  auto client = begin("POST", "/v1/chat/completions",
                      chat_body("hi", R"(,"max_tokens":5000,"ignore_eos":true)"));
  ASSERT_TRUE(
      turn_until([&] { return server_->report().find(R"("running":1)") != std::string::npos; }));

  client->leave();

  EXPECT_TRUE(
      turn_until([&] { return server_->report().find(R"("aborted":1)") != std::string::npos; }));
  EXPECT_THAT(server_->report(), HasSubstr(R"("running":0)"));
}

// ---- Faults ------------------------------------------------------------------------------------

TEST_F(Sim, AcceptsFaultsOnItsOwnPort) {
  start();

  const Reply put = ask("PUT", "/sim/v1/state", R"({"fault":"slow","slow_factor":8})");
  const Reply get = ask("GET", "/sim/v1/state");
  const Reply wrong = ask("PUT", "/sim/v1/state", R"({"fault":"sleepy"})");
  const Reply unknown = ask("PUT", "/sim/v1/state", R"({"fautl":"none"})");

  EXPECT_EQ(put.status, 200);
  EXPECT_THAT(get.body, HasSubstr(R"("fault":"slow","slow_factor":8)"));
  EXPECT_EQ(wrong.status, 400);
  EXPECT_THAT(wrong.body, HasSubstr("stale-metrics"));
  EXPECT_EQ(unknown.status, 400);
}

TEST_F(Sim, RefusesConnectionsUntilRevivedOnTheSamePort) {
  start();
  ASSERT_EQ(ask("GET", "/health").status, 200);

  set(R"({"fault":"refuse"})");
  const Reply refused = ask("GET", "/health");
  set(R"({"fault":"none"})");
  const Reply revived = ask("GET", "/health");

  EXPECT_TRUE(refused.refused);
  EXPECT_EQ(revived.status, 200);
}

TEST_F(Sim, FinishesRequestsInFlightWhenItRefuses) {
  start();
  auto client = begin("POST", "/v1/chat/completions",
                      chat_body("hi", R"(,"max_tokens":50,"ignore_eos":true,"stream":true)"));
  ASSERT_TRUE(turn_until([&] { return !client->reply().arrivals.empty(); }));

  set(R"({"fault":"refuse"})");

  ASSERT_TRUE(turn_until([&] { return client->reply().done; }));
  EXPECT_FALSE(client->reply().cut);
  EXPECT_THAT(client->reply().body, EndsWith("data: [DONE]\n\n"));
}

TEST_F(Sim, AnswersNothingWhileItHangsAndContinuesAfterwards) {
  start();
  auto stream = begin("POST", "/v1/chat/completions",
                      chat_body("hi", R"(,"max_tokens":50,"ignore_eos":true,"stream":true)"));
  ASSERT_TRUE(turn_until([&] { return !stream->reply().arrivals.empty(); }));

  set(R"({"fault":"hang"})");
  auto health = begin("GET", "/health");
  const std::size_t seen = stream->reply().arrivals.size();
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(ask("GET", "/sim/v1/report").status, 200);  // control requests are served

  EXPECT_FALSE(health->reply().done);
  EXPECT_LE(stream->reply().arrivals.size(), seen + 1);
  set(R"({"fault":"none"})");
  EXPECT_TRUE(turn_until([&] { return health->reply().done && stream->reply().done; }));
  EXPECT_EQ(health->reply().status, 200);
  EXPECT_THAT(stream->reply().body, EndsWith("data: [DONE]\n\n"));
}

TEST_F(Sim, ErrorFaultAffectsInferenceOnly) {
  start();

  set(R"({"fault":"error","error_status":503})");
  const Reply inference = chat(chat_body("hi"));
  const Reply health = ask("GET", "/health");

  EXPECT_EQ(inference.status, 503);
  EXPECT_THAT(inference.body, HasSubstr(R"("code":503)"));
  EXPECT_EQ(health.status, 200);
}

TEST_F(Sim, DiesInTheMiddleOfItsStreamsAfterAGivenNumberOfTokens) {
  start();
  chat(chat_body(words(100), R"(,"max_tokens":1)"));

  set(R"({"fault":"die","die_after_tokens":8})");
  const Reply stream = chat(chat_body("hi", R"(,"max_tokens":50,"ignore_eos":true,"stream":true)"));
  const Reply afterwards = ask("GET", "/health");
  set(R"({"fault":"none"})");
  const Reply metrics = ask("GET", "/metrics");

  EXPECT_TRUE(stream.cut);
  EXPECT_EQ(stream.status, 200);
  EXPECT_THAT(stream.body, HasSubstr("assistant"));
  EXPECT_THAT(stream.body, Not(HasSubstr("[DONE]")));
  EXPECT_TRUE(afterwards.refused);
  EXPECT_THAT(metrics.body, HasSubstr("vllm:generation_tokens_total{engine=\"0\",model_name=\"meta-"
                                      "llama/Llama-3.1-8B-Instruct\"} 0\n"))
      << "a process that was started anew counts from zero";
  EXPECT_THAT(server_->report(), HasSubstr(R"("aborted":0)"));
  EXPECT_THAT(server_->report(), HasSubstr(R"("requests":2)"));
}

TEST_F(Sim, DiesImmediatelyAndStillAnswersTheControlRequest) {
  start();

  const Reply told = ask("PUT", "/sim/v1/state", R"({"fault":"die"})");
  const Reply afterwards = ask("GET", "/health");

  EXPECT_EQ(told.status, 200);
  EXPECT_TRUE(afterwards.refused);
}

TEST_F(Sim, LoadsAsEachEngineLoads) {
  const auto reply_while_loading = [this](const char* engine, const char* path) {
    server_.reset();
    start({.engine = engine});
    set(R"({"fault":"loading"})");
    return ask("GET", path);
  };

  EXPECT_TRUE(reply_while_loading("vllm", "/health").refused);
  EXPECT_EQ(reply_while_loading("sglang", "/health").status, 503);
  EXPECT_EQ(reply_while_loading("tgi", "/health").status, 503);
  EXPECT_EQ(reply_while_loading("triton", "/v2/health/ready").status, 400);
  EXPECT_EQ(reply_while_loading("triton", "/v2/health/live").status, 200);
  const Reply llamacpp = reply_while_loading("llamacpp", "/health");
  EXPECT_EQ(llamacpp.status, 503);
  EXPECT_EQ(llamacpp.body,
            R"({"error":{"code":503,"message":"Loading model","type":"unavailable_error"}})");
}

TEST_F(Sim, RepeatsOldMetricsWhileTheyAreStale) {
  start();
  set(R"({"fault":"stale-metrics"})");
  const std::string before = ask("GET", "/metrics").body;

  chat(chat_body("hi", R"(,"max_tokens":3)"));
  const std::string stale = ask("GET", "/metrics").body;
  set(R"({"fault":"none"})");
  const std::string fresh = ask("GET", "/metrics").body;

  EXPECT_EQ(before, stale);
  EXPECT_NE(before, fresh);
}

TEST_F(Sim, ServesOnlyTheNamedMetrics) {
  start();
  const Reply named = ask("GET",
                          "/metrics/?name%5B%5D=vllm:num_requests_waiting"
                          "&name%5B%5D=vllm:kv_cache_usage_perc&name%5B%5D=nothing");

  EXPECT_EQ(named.status, 200);
  EXPECT_THAT(named.body, StartsWith("vllm:num_requests_waiting{"));
  EXPECT_THAT(named.body, HasSubstr("\nvllm:kv_cache_usage_perc{"));
  EXPECT_EQ(std::count(named.body.begin(), named.body.end(), '\n'), 2);
}

TEST_F(Sim, ReportsFullMemoryBeforeItFails) {
  start();
  set(R"({"fault":"vram","gpu_memory_ratio":0.97,"out_of_memory_after_seconds":60})");
  EXPECT_EQ(chat(chat_body("hi", R"(,"max_tokens":1)")).status, 200);
  EXPECT_THAT(ask("GET", "/metrics").body, HasSubstr("vllm:kv_cache_usage_perc"));
  EXPECT_THAT(ask("GET", "/metrics").body, HasSubstr("} 0.97\n"));
  EXPECT_THAT(ask("GET", "/dcgm/metrics").body, HasSubstr("} 79462\n")) << "MiB of 81920";

  set(R"({"out_of_memory_after_seconds":0})");
  const Reply failed = chat(chat_body("hi"));
  EXPECT_EQ(failed.status, 500);
  EXPECT_THAT(failed.body, HasSubstr("CUDA out of memory"));
  EXPECT_EQ(ask("GET", "/health").status, 200);

  set(R"({"fault":"none"})");
  EXPECT_EQ(chat(chat_body("hi", R"(,"max_tokens":1)")).status, 200);
}

TEST_F(Sim, KeepsWorkingBelowTheMemoryLimit) {
  start();
  set(R"({"fault":"vram","gpu_memory_ratio":0.9,"out_of_memory_after_seconds":0})");

  EXPECT_EQ(chat(chat_body("hi", R"(,"max_tokens":1)")).status, 200);
}

// ---- Other engines -----------------------------------------------------------------------------

TEST_F(Sim, IsHealthyOnThePathsOfItsEngine) {
  struct Case {
    const char* engine;
    const char* path;
    const char* body;
  };
  for (const Case& c :
       {Case{"vllm", "/health", ""}, Case{"sglang", "/health", ""}, Case{"tgi", "/health", ""},
        Case{"llamacpp", "/health", R"({"status":"ok"})"}, Case{"generic", "/health", ""},
        Case{"triton", "/v2/health/live", ""}, Case{"triton", "/v2/health/ready", ""},
        Case{"triton", "/v2/models/meta-llama/Llama-3.1-8B-Instruct/ready", ""}}) {
    server_.reset();
    start({.engine = c.engine});
    const Reply reply = ask("GET", c.path);
    EXPECT_EQ(reply.status, 200) << c.engine << c.path;
    EXPECT_EQ(reply.body, c.body) << c.engine << c.path;
  }
}

TEST_F(Sim, AnswersKserveAsAnIdentityModel) {
  start({.engine = "triton", .model = "m"});

  const Reply reply = ask(
      "POST", "/v2/models/m/versions/1/infer",
      R"({"id":"7","inputs":[{"name":"INPUT0","datatype":"FP64","shape":[2],"data":[0.30000000000000004,1]}]})");
  const Reply unknown = ask("POST", "/v2/models/x/infer", "{}");
  const Reply unready = ask("GET", "/v2/models/x/ready");

  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(
      reply.body,
      R"({"id":"7","model_name":"m","model_version":"1","outputs":[{"name":"OUTPUT0","datatype":"FP64","shape":[2],"data":[0.30000000000000004,1]}]})");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(unready.status, 400);
}

TEST_F(Sim, GeneratesByTritonsExtension) {
  start({.engine = "triton", .model = "m"});

  const Reply whole = ask("POST", "/v2/models/m/generate", R"({"text_input":"hi","max_tokens":3})");
  const Reply streamed = ask("POST", "/v2/models/m/generate_stream",
                             R"({"text_input":"hi","parameters":{"max_tokens":3}})");

  EXPECT_EQ(whole.status, 200);
  EXPECT_THAT(whole.body, StartsWith(R"({"model_name":"m","model_version":"1","text_output":")"));
  EXPECT_THAT(streamed.body,
              StartsWith(R"(data: {"model_name":"m","model_version":"1","text_output":")"));
  EXPECT_THAT(streamed.body, Not(HasSubstr("[DONE]")));
}

TEST_F(Sim, SglangsGaugesAreAsOldAsItsDecodeInterval) {
  start({.engine = "sglang", .speed = 1.5});
  auto first = begin("POST", "/v1/chat/completions",
                     chat_body("hi", R"(,"max_tokens":5000,"ignore_eos":true,"stream":true)"));
  ASSERT_TRUE(turn_until([&] { return first->reply().arrivals.size() > 3; }));

  const std::string metrics = ask("GET", "/metrics").body;
  const std::string loads = ask("GET", "/v1/loads").body;

  EXPECT_THAT(metrics, HasSubstr("tp_rank=\"0\"} 1\n"));
  EXPECT_THAT(loads, HasSubstr(R"("num_running_reqs":1,"num_waiting_reqs":0)"));
  first->leave();
}

// ---- Several servers
// ------------------------------------------------------------------------------

TEST(Simulators, ControlListenerReachesServersOnTheirThreads) {
  auto simulators = Simulators::start({{.name = "a", .speed = 20}, {.name = "b", .speed = 20}}, 2,
                                      Address{"127.0.0.1", 0});
  ASSERT_TRUE(simulators.ok()) << simulators.error().detail;
  Loop loop;
  const auto ask = [&](Endpoint endpoint, const char* method, const char* path, const char* body) {
    Client client(loop, endpoint, method, path, body);
    EXPECT_TRUE(loop.run_until([&] { return client.reply().done; },
                               Clock::now() + std::chrono::seconds(20)));
    return client.reply();
  };
  const Endpoint control = *(*simulators)->control();
  const Endpoint b = (*simulators)->endpoints()[1];

  const Reply put = ask(control, "PUT", "/sim/v1/state?server=b", R"({"fault":"die"})");
  // The listener closes on its own thread; a request before that is cut off, not refused.
  Reply refused = ask(b, "GET", "/health", "");
  for (int again = 0; again < 100 && !refused.refused; ++again) {
    refused = ask(b, "GET", "/health", "");
  }
  const Reply all = ask(control, "GET", "/sim/v1/state", "");
  ask(control, "PUT", "/sim/v1/state", R"({"fault":"none"})");
  const Reply revived = ask(b, "GET", "/health", "");
  const Reply unreachable = ask(control, "GET", "/sim/v1/report?server=c", "");

  EXPECT_THAT(put.body, HasSubstr(R"("name":"b","engine":"vllm","fault":"die")"));
  EXPECT_TRUE(refused.refused);
  EXPECT_THAT(all.body, StartsWith(R"({"servers":[{"name":"a","engine":"vllm","fault":"none")"));
  EXPECT_EQ(revived.status, 200);
  EXPECT_EQ(unreachable.status, 404);
}

TEST(Simulators, ReportStartErrors) {
  auto engine = Simulators::start({{.engine = "vlm"}});
  auto preset = Simulators::start({{.preset = "llama-9"}});
  auto first = Simulators::start({SimulatorOptions{}});
  ASSERT_TRUE(first.ok());
  auto taken = Simulators::start({{.listen = {"127.0.0.1", (*first)->endpoints()[0].port()}}});

  ASSERT_FALSE(engine.ok());
  EXPECT_THAT(engine.error().detail, HasSubstr("unknown engine 'vlm', available: vllm"));
  ASSERT_FALSE(preset.ok());
  EXPECT_THAT(preset.error().detail, HasSubstr("llama-3-8b-h100"));
  ASSERT_FALSE(taken.ok());
  EXPECT_THAT(taken.error().detail, HasSubstr("in use"));
}

}  // namespace
}  // namespace evenkeel
