#include "evenkeel/proxy/retry_policy.h"

#include <gtest/gtest.h>

namespace evenkeel {
namespace {

bool retries(int status, std::string_view engine, bool idempotent = false, bool early = true,
             std::vector<RetryOn> on = {}) {
  const RetryPolicy policy(RetryRules{.on = std::move(on)});
  return policy.retries(ErrorAnswer{.status = status, .early = early},
                        engine_named(engine).refusals, idempotent);
}

TEST(RetryPolicy, KnowsWhichAnswersOfAnEngineMeanThatItHasNotBegun) {
  for (const std::string_view engine : {"vllm", "sglang", "trtllm"}) {
    EXPECT_TRUE(retries(500, engine)) << engine;
    EXPECT_TRUE(retries(502, engine)) << engine;
    EXPECT_FALSE(retries(500, engine, false, false)) << engine << ": it may have begun";
  }
  for (const std::string_view engine : {"vllm", "sglang", "trtllm", "tgi", "triton", "llamacpp",
                                        "ollama", "ray", "torchserve", "tfserving"}) {
    EXPECT_TRUE(retries(429, engine)) << engine;
    EXPECT_TRUE(retries(503, engine, false, false)) << engine;
    EXPECT_FALSE(retries(504, engine)) << engine;
    EXPECT_FALSE(retries(400, engine)) << engine;
  }
  for (const std::string_view engine : {"llamacpp", "triton", "ollama"}) {
    EXPECT_FALSE(retries(500, engine)) << engine;
  }
  for (const std::string_view engine : {"generic", "mlserver"}) {
    for (const int status : {429, 500, 502, 503, 504}) EXPECT_FALSE(retries(status, engine));
  }
}

TEST(RetryPolicy, RetriesIdempotentRequestsAfterAGatewaysErrors) {
  for (const int status : {502, 503, 504}) EXPECT_TRUE(retries(status, "generic", true));
  for (const int status : {429, 500, 501, 404}) EXPECT_FALSE(retries(status, "generic", true));
}

TEST(RetryPolicy, ExtendsToEveryMethodWhereTheFileSaysSo) {
  const auto with = [](RetryOn cause, int status) {
    return retries(status, "generic", false, false, {cause});
  };
  EXPECT_TRUE(with(RetryOn::overload, 429));
  EXPECT_TRUE(with(RetryOn::overload, 503));
  EXPECT_FALSE(with(RetryOn::overload, 502));
  EXPECT_TRUE(with(RetryOn::gateway_error, 504));
  EXPECT_FALSE(with(RetryOn::gateway_error, 500));
  EXPECT_TRUE(with(RetryOn::server_error, 500));
  EXPECT_TRUE(with(RetryOn::server_error, 503));
  EXPECT_FALSE(with(RetryOn::server_error, 429));
}

TEST(RetryPolicy, RetriesBreakageOfIdempotentRequestsOnly) {
  const Error reset{.fault = Fault::backend_closed, .side = Side::backend, .detail = {}};
  const Error timeout{.fault = Fault::first_byte_timeout, .side = Side::backend, .detail = {}};
  const Error malformed{.fault = Fault::backend_protocol, .side = Side::backend, .detail = {}};
  const Error gone{.fault = Fault::client_gone, .side = Side::client, .detail = {}};
  const RetryPolicy plain(RetryRules{});

  EXPECT_TRUE(plain.retries(reset, true));
  EXPECT_TRUE(plain.retries(timeout, true));
  EXPECT_FALSE(plain.retries(reset, false));
  EXPECT_FALSE(plain.retries(timeout, false));
  EXPECT_FALSE(plain.retries(malformed, true));
  EXPECT_FALSE(plain.retries(gone, true));
  EXPECT_TRUE(RetryPolicy(RetryRules{.on = {RetryOn::reset}}).retries(reset, false));
  EXPECT_TRUE(RetryPolicy(RetryRules{.on = {RetryOn::timeout}}).retries(timeout, false));
}

TEST(RetryPolicy, TakesAnIdempotencyKeyOnlyByOptIn) {
  Request request{.method = "POST"};
  request.fields.add("Idempotency-Key", "1");
  EXPECT_FALSE(RetryPolicy(RetryRules{}).is_idempotent(request));
  EXPECT_TRUE(RetryPolicy(RetryRules{.idempotency_key = true}).is_idempotent(request));
  request.method = "DELETE";
  EXPECT_TRUE(RetryPolicy(RetryRules{}).is_idempotent(request));
}

TEST(RetryPolicy, TakesAGrpcCodeForTheStatusThatItStandsFor) {
  const auto status = [](std::string_view code, bool grpc) {
    Request request;
    if (grpc) request.info.outcome.grpc_status = 1;
    Response response;
    response.fields.add("grpc-status", code);
    return status_of_answer(request, response);
  };
  EXPECT_EQ(status("14", true), 503);
  EXPECT_EQ(status("8", true), 429);
  EXPECT_EQ(status("13", true), 200);
  EXPECT_EQ(status("14", false), 200);
}

}  // namespace
}  // namespace evenkeel
