#include "upstream/model_lister.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "upstream/test_server.h"
#include "wire/peer.h"

namespace evenkeel {
namespace {

using testing::ElementsAre;

constexpr const char* two_models =
    R"({"object":"list","data":[{"id":"base","created":7,"max_model_len":4096},{"id":"sql-lora","parent":"base"},{"id":"base"},{"id":""}]})";

class ModelListers : public testing::Test {
 protected:
  ModelLister& list(const Endpoint& endpoint) {
    lister.emplace(loop, 1, ServerAccess{.addresses = {endpoint}, .authority = endpoint.text()},
                   [this] { ++connects; });
    return *lister;
  }
  bool sees(std::size_t requests, const TestServer& server) {
    return eventually(loop, [&] { return server.requests().size() >= requests; });
  }

  Loop loop;
  int connects = 0;
  std::optional<ModelLister> lister;
};

TEST_F(ModelListers, ListEachModelOnceInTheOrderOfTheServer) {
  TestServer server(loop, {{"/v1/models", {.body = two_models}}});
  const ModelLister& listed = list(server.endpoint());
  EXPECT_EQ(listed.cards(), nullptr);

  ASSERT_TRUE(eventually(loop, [&] { return listed.cards() != nullptr; }));

  EXPECT_THAT(*listed.models(), ElementsAre("base", "sql-lora"));
  EXPECT_EQ(listed.cards()->front().details, "\"max_model_len\":4096");
  EXPECT_EQ(connects, 1);
}

TEST_F(ModelListers, KeepAListThatHasNotChanged) {
  TestServer server(loop, {{"/v1/models", {.body = R"({"data":[{"id":"a","created":1}]})"}}});
  ModelLister& listed = list(server.endpoint());
  ASSERT_TRUE(eventually(loop, [&] { return listed.cards() != nullptr; }));
  const ModelCards first = listed.cards();

  server.set_answer("/v1/models", {.body = R"({"data":[{"id":"a","created":2}]})"});
  listed.list_now();
  ASSERT_TRUE(eventually(loop, [&] { return connects == 2; }));
  EXPECT_EQ(listed.cards(), first);

  server.set_answer("/v1/models", {.body = R"({"data":[{"id":"a"},{"id":"lora"}]})"});
  listed.list_now();
  ASSERT_TRUE(eventually(loop, [&] { return listed.models()->size() == 2; }));
}

TEST_F(ModelListers, TryAgainSoonAfterAFailureAndKeepWhatIsKnown) {
  TestServer server(loop, {{"/v1/models", {.body = R"({"data":[{"id":"a"}]})"}}});
  ModelLister& listed = list(server.endpoint());
  ASSERT_TRUE(eventually(loop, [&] { return listed.cards() != nullptr; }));

  server.set_answer("/v1/models", {.status = 503, .body = ""});
  listed.list_now();
  ASSERT_TRUE(sees(3, server));  // without being told to
  EXPECT_THAT(*listed.models(), ElementsAre("a"));
}

TEST_F(ModelListers, ForgetTheModelsOfAServerThatIsGoneOrHasNoSuchList) {
  std::optional<TestServer> server;
  server.emplace(loop, TestServer::Answers{{"/v1/models", {.body = two_models}}});
  ModelLister& listed = list(server->endpoint());
  ASSERT_TRUE(eventually(loop, [&] { return listed.cards() != nullptr; }));

  server->set_answer("/v1/models", {.status = 404, .body = ""});
  listed.list_now();
  ASSERT_TRUE(eventually(loop, [&] { return listed.cards() == nullptr; }));
  server->set_answer("/v1/models", {.body = two_models});
  listed.list_now();
  ASSERT_TRUE(eventually(loop, [&] { return listed.cards() != nullptr; }));

  server.reset();
  listed.list_now();
  EXPECT_TRUE(eventually(loop, [&] { return listed.cards() == nullptr; }));
}

TEST_F(ModelListers, SayWhyAListIsNotKnownOrNotAllOfIt) {
  TestServer server(loop, {{"/v1/models", {.body = two_models}}});
  ModelLister& listed = list(server.endpoint());
  const auto says = [&](const std::string& problem) {
    listed.list_now();
    return eventually(loop, [&] { return listed.problem() == problem; });
  };
  ASSERT_TRUE(eventually(loop, [&] { return listed.cards() != nullptr; }));
  EXPECT_TRUE(says("1 of its entries name no model"));

  std::string many = R"({"data":[{"id":"m"})";
  for (std::size_t i = 0; i < 1000; ++i) many += R"(,{"id":")" + std::to_string(i) + R"("})";
  const std::string large = "{\"x\":\"" + std::string(std::size_t{1} << 20, 'x') + "\"}";
  const std::pair<TestServer::Answer, std::string> answers[] = {
      {{.status = 401, .body = ""}, "status 401"},
      {{.status = 500, .body = ""}, "status 500"},
      {{.status = 302, .body = "", .location = "https://id.test/"},
       "status 302, Location https://id.test/"},
      {{.body = "<html>"}, "not a list of models"},
      {{.body = R"({"data":[{"id":7}]})"}, "not a list of models"},
      {{.body = large}, "longer than 1 MiB"},
      {{.body = many + "]}"}, "only the first 1000 of its models are taken"},
      {{.body = R"({"data":[{"id":"a"},7]})"}, "1 of its entries name no model"},
      {{.body = R"({"data":[{"id":"a"}]})"}, ""},
      {{.status = 401, .body = ""}, "status 401"},
      {{.status = 404, .body = ""}, ""}};
  for (const auto& [answer, problem] : answers) {
    server.set_answer("/v1/models", answer);
    EXPECT_TRUE(says(problem)) << problem << " but " << listed.problem();
  }
}

TEST_F(ModelListers, ReadNothingIntoAnythingButAList) {
  TestServer server(loop, {{"/v1/models", {.body = "<html>"}}});
  const ModelLister& listed = list(server.endpoint());
  ASSERT_TRUE(eventually(loop, [&] { return connects == 1; }));
  EXPECT_EQ(listed.cards(), nullptr);
}

}  // namespace
}  // namespace evenkeel
