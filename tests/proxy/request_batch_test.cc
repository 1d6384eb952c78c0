#include "proxy/request_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace evenkeel {
namespace {

using testing::HasSubstr;

/// A request of a batch.
struct Client {
  explicit Client(Loop& loop, const std::string& body)
      : read(*BatchBody::read(BatchApi::embeddings, body)), settled(loop) {
    request.method = "POST";
    request.path = "/v1/embeddings";
    request.fields.add("accept-encoding", "gzip");
    request.info.inference = std::make_unique<InferenceInfo>();
    request.info.inference->request.estimated_prompt_tokens = 2;
  }
  Request request;
  BatchBody read;
  Signal settled;
};

class Batches : public testing::Test {
 protected:
  Batches() {
    for (const char* const body :
         {R"({"input":"a"})", R"({"input":["b","c"]})", R"({"input":"d"})"})
      clients_.emplace_back(loop_, body);
  }
  /// Counts a backend that is asked.
  struct Asked {
    explicit Asked(int& all) : count(all) { ++count; }
    Asked(const Asked&) = delete;
    Asked& operator=(const Asked&) = delete;
    ~Asked() { --count; }
    int& count;
  };
  Task<Result<Response>> answer(int status, std::string body, bool fails) {
    const Asked asked(asked_);
    co_await head_.wait();
    if (fails) co_return Error{.fault = Fault::no_backend, .detail = "none"};
    Response response{.status = status};
    response.fields.add("x-by", "gpu");
    response.fields.add("set-cookie", "a=b");
    response.body = make_body(std::move(body));
    co_return response;
  }
  void begin(int status, std::string body, bool fails = false) {
    std::vector<RequestBatch::Member> members;
    for (Client& each : clients_) {
      members.push_back({.request = &each.request,
                         .body = &each.read,
                         .weight = {.tokens = each.read.rows()},
                         .joined = loop_.now(),
                         .settled = &each.settled});
    }
    flight_ = std::make_shared<int>();
    in_flight_ = flight_;
    batch_ = std::make_unique<RequestBatch>(loop_, BatchApi::embeddings, std::move(members),
                                            std::move(flight_));
    batch_->request().info.outcome.backend = "b:1";
    batch_->start(answer(status, std::move(body), fails));
  }
  void finish() {
    head_.raise();
    loop_.run_until([&] { return in_flight_.expired(); });
  }
  static std::string body_of(Result<Response>& response) {
    return std::string(response->body->read().take()->bytes);
  }

  Loop loop_;
  int asked_ = 0;
  Signal head_{loop_};
  std::deque<Client> clients_;
  std::shared_ptr<const void> flight_;
  std::weak_ptr<const void> in_flight_;
  std::unique_ptr<RequestBatch> batch_;
};

constexpr const char* four =
    R"({"data":[{"index":0,"x":"a"},{"index":1,"x":"b"},{"index":2,"x":"c"},{"index":3,"x":"d"}],"usage":{"prompt_tokens":40}})";

TEST_F(Batches, AskForTheInputsOfAll) {
  begin(200, four);
  Request& sent = batch_->request();
  EXPECT_EQ(sent.body->read().take()->bytes, R"({"input":["a","b","c","d"]})");
  EXPECT_EQ(sent.info.inference->request.estimated_prompt_tokens, 6U);
  EXPECT_EQ(sent.fields.find("accept-encoding"), nullptr);
  finish();
}

TEST_F(Batches, GiveEachRequestItsPart) {
  begin(200, four);
  finish();
  for (const Client& each : clients_) EXPECT_TRUE(each.settled.raised());
  ASSERT_FALSE(batch_->must_split());
  auto second = batch_->answer_of(1);
  ASSERT_TRUE(second);
  EXPECT_EQ(body_of(second),
            R"({"data":[{"index":0,"x":"b"},{"index":1,"x":"c"}],"usage":{"prompt_tokens":20}})");
  EXPECT_EQ(second->fields.value("x-by"), "gpu");
  EXPECT_EQ(second->fields.find("set-cookie"), nullptr);
  auto last = batch_->answer_of(2);
  EXPECT_EQ(body_of(last), R"({"data":[{"index":0,"x":"d"}],"usage":{"prompt_tokens":10}})");
  batch_->leave(2);
  EXPECT_EQ(clients_[2].request.info.outcome.backend, "b:1");
}

TEST_F(Batches, OutliveAClientThatLeaves) {
  begin(200, four);
  batch_->leave(0);
  finish();
  auto last = batch_->answer_of(2);
  EXPECT_THAT(body_of(last), HasSubstr(R"("d")"));
  EXPECT_FALSE(clients_[0].settled.raised());
}

TEST_F(Batches, AreSplitIfOneOfThemMayBeToBlame) {
  for (const int status : {400, 413, 422}) {
    begin(status, "no");
    finish();
    EXPECT_TRUE(batch_->must_split()) << status;
  }
  for (const char* const answer : {R"({"data":[]})", "[]", ""}) {
    begin(200, answer);
    finish();
    EXPECT_TRUE(batch_->must_split()) << answer;
  }
}

TEST_F(Batches, TellAllOfAnErrorThatIsNotOfTheInputs) {
  for (const int status : {307, 401, 404, 429, 500, 503}) {
    begin(status, "no");
    finish();
    ASSERT_FALSE(batch_->must_split()) << status;
    for (std::size_t i = 0; i < clients_.size(); ++i) {
      auto response = batch_->answer_of(i);
      EXPECT_EQ(response->status, status);
      EXPECT_EQ(body_of(response), "no");
    }
  }
  begin(0, "", true);
  finish();
  for (std::size_t i = 0; i < clients_.size(); ++i)
    EXPECT_EQ(batch_->answer_of(i).error().fault, Fault::no_backend);
}

TEST_F(Batches, StopWithTheirLastRequest) {
  begin(200, four);
  EXPECT_EQ(asked_, 1);
  batch_.reset();
  EXPECT_EQ(asked_, 0) << "the backend stops";
}

}  // namespace
}  // namespace evenkeel
