#include "evenkeel/http/status.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace evenkeel {
namespace {

struct Answer {
  int status = 0;
  std::string fields;
  std::string body;
};

Answer answer_to(const Error& error, std::string_view path) {
  Response response = error_response(error, error_format_of(path));
  Answer answer{.status = response.status};
  for (const Field& field : response.fields) {
    answer.fields.append(field.name()).append(": ").append(field.value()).append("\n");
  }
  auto chunk = response.body->read();
  EXPECT_TRUE(chunk.ready());
  answer.body = chunk.take()->bytes;
  EXPECT_EQ(response.body->length(), answer.body.size());
  return answer;
}

TEST(ErrorResponse, NamesTheBackendWhoseFaultItIs) {
  const auto text = [](Fault fault, Side side, std::string detail) {
    Response response = error_response({.fault = fault, .side = side, .detail = std::move(detail)},
                                       ErrorFormat::plain);
    auto chunk = response.body->read();
    return std::string(chunk.take()->bytes);
  };
  EXPECT_EQ(text(Fault::connect_failed, Side::backend, "Connection refused"),
            "cannot connect to the backend: Connection refused\n");
  EXPECT_EQ(text(Fault::tls_failed, Side::backend, "unknown ca"),
            "no TLS with the backend: unknown ca\n");
  EXPECT_EQ(text(Fault::backend_protocol, Side::backend, "invalid status"),
            "the backend failed: invalid status\n");
  EXPECT_EQ(text(Fault::backend_closed, Side::backend, "the backend closed the connection"),
            "the backend closed the connection\n");
  EXPECT_EQ(text(Fault::bad_request, Side::client, "no"), "no\n");
}

TEST(Status, OfEveryFaultIsAnErrorWithADistinctReason) {
  std::set<std::string> words;
  for (int i = 0; i < fault_count; ++i) {
    const auto fault = static_cast<Fault>(i);
    EXPECT_GE(status_of(fault), 400);
    EXPECT_LE(status_of(fault), 599);
    words.insert(to_string(fault));
    EXPECT_EQ(std::string(to_string(fault)).find_first_not_of("abcdefghijklmnopqrstuvwxyz_"),
              std::string::npos);
  }
  EXPECT_EQ(words.size(), static_cast<std::size_t>(fault_count));
}

TEST(Status, IsTheStandardOneForTheFault) {
  EXPECT_EQ(status_of(Fault::bad_request), 400);
  EXPECT_EQ(status_of(Fault::no_route), 404);
  EXPECT_EQ(status_of(Fault::model_not_found), 404);
  EXPECT_EQ(status_of(Fault::unauthorized), 401);
  EXPECT_EQ(status_of(Fault::model_not_allowed), 403);
  EXPECT_EQ(grpc_status_of(Fault::unauthorized), GrpcStatus::unauthenticated);
  EXPECT_EQ(grpc_status_of(Fault::model_not_allowed), GrpcStatus::permission_denied);
  EXPECT_EQ(status_of(Fault::method_not_allowed), 405);
  EXPECT_EQ(status_of(Fault::header_timeout), 408);
  EXPECT_EQ(status_of(Fault::body_timeout), 408);
  EXPECT_EQ(status_of(Fault::body_too_large), 413);
  EXPECT_EQ(status_of(Fault::uri_too_long), 414);
  EXPECT_EQ(status_of(Fault::expectation_failed), 417);
  EXPECT_EQ(status_of(Fault::queue_full), 429);
  EXPECT_EQ(status_of(Fault::header_too_large), 431);
  EXPECT_EQ(status_of(Fault::not_implemented), 501);
  EXPECT_EQ(status_of(Fault::backend_protocol), 502);
  EXPECT_EQ(status_of(Fault::backend_closed), 502);
  EXPECT_EQ(status_of(Fault::connect_failed), 502);
  EXPECT_EQ(status_of(Fault::queue_timeout), 503);
  EXPECT_EQ(status_of(Fault::first_byte_timeout), 504);
  EXPECT_EQ(status_of(Fault::deadline_exceeded), 504);
  EXPECT_EQ(status_of(Fault::version_not_supported), 505);
}

TEST(Phrase, IsThereForEveryStatusThatWeSend) {
  for (int i = 0; i < fault_count; ++i) {
    const int status = status_of(static_cast<Fault>(i));
    if (status == 499) continue;  // never sent
    EXPECT_NE(phrase_of(status), "") << status;
  }
  EXPECT_EQ(phrase_of(299), "");
}

TEST(ErrorResponse, UsesTheErrorFormatOfThePath) {
  const Error error{.fault = Fault::backend_closed, .detail = "it \"closed\"\n"};

  const Answer openai = answer_to(error, "/v1/chat/completions");
  EXPECT_EQ(openai.status, 502);
  EXPECT_EQ(
      openai.body,
      R"({"error":{"message":"it \"closed\"\n","type":"upstream_error","param":null,"code":"backend_closed"}})");
  EXPECT_EQ(openai.fields, "content-type: application/json\nx-evenkeel-reason: backend_closed\n");

  EXPECT_EQ(answer_to(error, "/v2/models/m/infer").body, R"({"error":"it \"closed\"\n"})");

  const Answer plain = answer_to(error, "/v10");
  EXPECT_EQ(plain.body, "it \"closed\"\n\n");
  EXPECT_EQ(plain.fields,
            "content-type: text/plain; charset=utf-8\nx-evenkeel-reason: backend_closed\n");
}

TEST(ErrorResponse, HasAnthropicsShapeOnMessages) {
  const auto body = [](Fault fault) {
    return answer_to({.fault = fault, .detail = "why"}, "/v1/messages").body;
  };
  const auto expected = [](std::string_view type) {
    return R"({"type":"error","error":{"type":")" + std::string(type) + R"(","message":"why"}})";
  };
  EXPECT_EQ(body(Fault::bad_request), expected("invalid_request_error"));
  EXPECT_EQ(body(Fault::no_route), expected("not_found_error"));
  EXPECT_EQ(body(Fault::body_too_large), expected("request_too_large"));
  EXPECT_EQ(body(Fault::queue_full), expected("rate_limit_error"));
  EXPECT_EQ(body(Fault::no_backend), expected("overloaded_error"));
  EXPECT_EQ(body(Fault::first_byte_timeout), expected("timeout_error"));
  EXPECT_EQ(body(Fault::backend_closed), expected("api_error"));
  EXPECT_EQ(body(Fault::internal), expected("api_error"));
}

TEST(ErrorResponse, SaysThatAKeyIsWrongAsTheApiDoes) {
  const Error error{.fault = Fault::unauthorized, .detail = "No key."};
  EXPECT_EQ(
      answer_to(error, "/v1/chat/completions").body,
      R"({"error":{"message":"No key.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}})");
  EXPECT_EQ(answer_to(error, "/v1/messages").body,
            R"({"type":"error","error":{"type":"authentication_error","message":"No key."}})");
  EXPECT_EQ(answer_to(error, "/v2/models/x/infer").body, R"({"error":"No key."})");
  EXPECT_EQ(error_response(error, ErrorFormat::openai).fields.value("www-authenticate"), "Bearer");
}

TEST(ErrorResponse, SaysThatAModelIsNotAllowedAsTheApiDoes) {
  const Error error{.fault = Fault::model_not_allowed, .detail = "Not yours."};
  EXPECT_EQ(
      answer_to(error, "/v1/chat/completions").body,
      R"({"error":{"message":"Not yours.","type":"permission_error","param":"model","code":"model_not_allowed"}})");
  EXPECT_EQ(answer_to(error, "/v1/messages").body,
            R"({"type":"error","error":{"type":"permission_error","message":"Not yours."}})");
}

TEST(ErrorResponse, SaysThatAModelDoesNotExistAsTheApiDoes) {
  const Error error{.fault = Fault::model_not_found, .detail = "The model `x` does not exist."};
  EXPECT_EQ(
      answer_to(error, "/v1/chat/completions").body,
      R"({"error":{"message":"The model `x` does not exist.","type":"invalid_request_error","param":"model","code":"model_not_found"}})");
  EXPECT_EQ(
      answer_to(error, "/v1/messages").body,
      R"({"type":"error","error":{"type":"not_found_error","message":"The model `x` does not exist."}})");
  EXPECT_EQ(answer_to(error, "/v2/models/x/infer").body,
            R"({"error":"The model `x` does not exist."})");
  EXPECT_EQ(error_response(error, ErrorFormat::grpc).fields.value("grpc-status"), "5");
}

TEST(ErrorFormat, OfAListOfModelsFollowsTheClient) {
  Request request{.method = "GET", .path = "/v1/models/x?beta=true"};
  EXPECT_EQ(error_format_of(request), ErrorFormat::openai);
  request.fields.add("anthropic-version", "2023-06-01");
  EXPECT_EQ(error_format_of(request), ErrorFormat::anthropic);
  request.path = "/v1/modelsX";
  EXPECT_EQ(error_format_of(request), ErrorFormat::openai);
}

TEST(ErrorFormat, FollowsThePath) {
  EXPECT_EQ(error_format_of("/v1/messages"), ErrorFormat::anthropic);
  EXPECT_EQ(error_format_of("/v1/messages?beta=true"), ErrorFormat::anthropic);
  EXPECT_EQ(error_format_of("/v1/messages/count_tokens"), ErrorFormat::anthropic);
  EXPECT_EQ(error_format_of("/v1/messagesX"), ErrorFormat::openai);
  EXPECT_EQ(error_format_of("/v1"), ErrorFormat::openai);
  EXPECT_EQ(error_format_of("/v2"), ErrorFormat::kserve);
  EXPECT_EQ(error_format_of("/v3/x"), ErrorFormat::openai);
  EXPECT_EQ(error_format_of("/v4/x"), ErrorFormat::plain);
  EXPECT_EQ(error_format_of("/chat/completions"), ErrorFormat::openai);
  EXPECT_EQ(error_format_of("*"), ErrorFormat::plain);
}

TEST(ErrorFormat, FollowsThePathBehindAPrefix) {
  EXPECT_EQ(error_format_of("/a/v1/messages/count_tokens"), ErrorFormat::anthropic);
  EXPECT_EQ(error_format_of("/openai/v1/chat/completions"), ErrorFormat::openai);
  EXPECT_EQ(error_format_of("/api/v1/chat/completions"), ErrorFormat::openai);
  EXPECT_EQ(error_format_of("/a/v2/models/v1/infer"), ErrorFormat::kserve);
  EXPECT_EQ(error_format_of("/v1/models/v2/messages"), ErrorFormat::openai);
  EXPECT_EQ(error_format_of("/a?b=/v1/messages"), ErrorFormat::plain);
}

TEST(ErrorFormat, OfOllamasApiIsItsOwn) {
  EXPECT_EQ(error_format_of("/api/chat"), ErrorFormat::ollama);
  EXPECT_EQ(error_format_of("/a/api/show?x"), ErrorFormat::ollama);
  EXPECT_EQ(error_format_of("/apix"), ErrorFormat::plain);
  const auto answer = answer_to({.fault = Fault::no_route, .detail = "none"}, "/api/chat");
  EXPECT_EQ(answer.body, R"({"error":"none"})");
}

TEST(ErrorResponse, HasAMessageWithoutDetail) {
  EXPECT_EQ(answer_to({.fault = Fault::no_route}, "/").body, "Not Found\n");
  EXPECT_EQ(answer_to({.fault = Fault::no_route}, "").body, "Not Found\n");
}

TEST(ErrorResponse, SetsRetryAfter) {
  for (const Fault fault :
       {Fault::queue_full, Fault::queue_timeout, Fault::no_backend, Fault::draining}) {
    const std::string fields = answer_to({.fault = fault}, "/v1/x").fields;
    EXPECT_NE(fields.find("retry-after: 1\nretry-after-ms: 1000\nx-should-retry: true\n"),
              std::string::npos);
  }
  EXPECT_EQ(answer_to({.fault = Fault::backend_closed}, "/v1/x").fields.find("retry"),
            std::string::npos);
}

TEST(ErrorResponse, SaysWhenToComeBack) {
  const std::string fields =
      answer_to({.fault = Fault::queue_full, .retry_after_ms = 2300, .detail = {}}, "/v1/x").fields;
  EXPECT_NE(fields.find("retry-after: 3\nretry-after-ms: 2300\nx-should-retry: true\n"),
            std::string::npos);
  const Response call = error_response(
      {.fault = Fault::queue_full, .retry_after_ms = 2300, .detail = {}}, ErrorFormat::grpc);
  EXPECT_EQ(call.fields.value("grpc-retry-pushback-ms"), "2300");
}

TEST(ErrorEvent, HasTheShapeThatTheClientParses) {
  const Error error{.fault = Fault::backend_closed, .detail = "it closed"};
  EXPECT_EQ(
      error_event(error, ErrorFormat::openai),
      R"(data: {"error":{"message":"it closed","type":"upstream_error","param":null,"code":"backend_closed"}})"
      "\n\n");
  EXPECT_EQ(error_event(error, ErrorFormat::anthropic),
            "event: error\n"
            R"(data: {"type":"error","error":{"type":"api_error","message":"it closed"}})"
            "\n\n");
  EXPECT_EQ(error_event(error, ErrorFormat::kserve), "data: {\"error\":\"it closed\"}\n\n");
  EXPECT_EQ(error_line(error), "{\"error\":\"it closed\"}\n");
}

TEST(ErrorFormat, OfAGrpcRequestIsGrpcWhateverItsPath) {
  for (const std::string_view type :
       {"application/grpc", "application/grpc+proto", "Application/GRPC; charset=utf-8"}) {
    Request request{.method = "POST", .path = "/v2/x"};
    request.fields.add("content-type", type);
    EXPECT_EQ(error_format_of(request), ErrorFormat::grpc) << type;
  }
  for (const std::string_view type : {"application/grpc-web", "application/grpcx", "text/plain"}) {
    Request request{.method = "POST", .path = "/v2/x"};
    request.fields.add("content-type", type);
    EXPECT_EQ(error_format_of(request), ErrorFormat::kserve) << type;
  }
}

TEST(ErrorFormat, OfAnExtendedConnectIsNeverGrpcWhoseStatusWouldBeATunnel) {
  Request request{.method = "GET", .path = "/v2/x", .is_extended_connect = true};
  request.fields.add("content-type", "application/grpc");
  EXPECT_EQ(error_format_of(request), ErrorFormat::kserve);
}

TEST(GrpcErrorResponse, IsTrailersOnly) {
  const Response response = error_response(
      {.fault = Fault::backend_closed, .detail = "100 % gone: gr\u00fcn"}, ErrorFormat::grpc);

  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.body, nullptr);
  EXPECT_EQ(response.fields.value(FieldId::content_type), "application/grpc");
  EXPECT_EQ(response.fields.value("grpc-status"), "14");
  EXPECT_EQ(response.fields.value("grpc-message"), "100 %25 gone: gr%C3%BCn");
  EXPECT_EQ(response.fields.value("x-evenkeel-reason"), "backend_closed");
  EXPECT_EQ(response.fields.value("grpc-retry-pushback-ms"), std::nullopt);
}

TEST(GrpcErrorResponse, SetsRetryAfter) {
  const Response response = error_response({.fault = Fault::queue_full}, ErrorFormat::grpc);
  EXPECT_EQ(response.fields.value("grpc-status"), "14");
  EXPECT_EQ(response.fields.value("grpc-message"), "Too Many Requests");
  EXPECT_EQ(response.fields.value("grpc-retry-pushback-ms"), "1000");
}

TEST(GrpcStatus, OfAFaultIsTheOneThatGrpcClientsExpect) {
  EXPECT_EQ(grpc_status_of(Fault::bad_request), GrpcStatus::invalid_argument);
  EXPECT_EQ(grpc_status_of(Fault::no_route), GrpcStatus::unimplemented);
  EXPECT_EQ(grpc_status_of(Fault::body_too_large), GrpcStatus::resource_exhausted);
  EXPECT_EQ(grpc_status_of(Fault::queue_full), GrpcStatus::unavailable);
  EXPECT_EQ(grpc_status_of(Fault::queue_timeout), GrpcStatus::unavailable);
  EXPECT_EQ(grpc_status_of(Fault::first_byte_timeout), GrpcStatus::unavailable);
  EXPECT_EQ(grpc_status_of(Error{.fault = Fault::backend_closed}), GrpcStatus::unavailable);
  EXPECT_EQ(grpc_status_of(Error{.fault = Fault::backend_closed, .reset_code = 8}),
            GrpcStatus::cancelled);
  EXPECT_EQ(grpc_status_of(Error{.fault = Fault::backend_closed, .reset_code = 2}),
            GrpcStatus::internal);
  EXPECT_EQ(grpc_status_of(Error{.fault = Fault::backend_closed, .reset_code = 11}),
            GrpcStatus::resource_exhausted);
  EXPECT_EQ(grpc_status_of(Fault::deadline_exceeded), GrpcStatus::deadline_exceeded);
  EXPECT_EQ(grpc_status_of(Fault::client_gone), GrpcStatus::cancelled);
  EXPECT_EQ(grpc_status_of(Fault::internal), GrpcStatus::internal);
  for (int i = 0; i < fault_count; ++i) {
    EXPECT_NE(grpc_status_of(static_cast<Fault>(i)), GrpcStatus::ok);
  }
}

TEST(StringBody, CanBeReadAgain) {
  const BodyPtr body = make_body("text");
  EXPECT_EQ(body->read().take()->bytes, "text");
  EXPECT_TRUE(body->rewind());
  const auto chunk = body->read().take();
  EXPECT_EQ(chunk->bytes, "text");
  EXPECT_TRUE(chunk->last);
  EXPECT_EQ(make_body(""), nullptr);
}

}  // namespace
}  // namespace evenkeel
