#include "evenkeel/filter/compression.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "evenkeel/coding/decompressor.h"
#include "wire/scripted_body.h"

namespace evenkeel {
namespace {

const std::string long_text(5000, 'x');

Response response_with(std::string_view type, std::string body = long_text) {
  Response response;
  if (!type.empty()) response.fields.add_copy("content-type", type);
  response.body = make_body(std::move(body));
  return response;
}

std::string text_of(const Fields& fields) {
  std::string text;
  for (const Field& field : fields)
    text.append(field.name()).append(": ").append(field.value()).append("\n");
  return text;
}

std::string gunzipped(std::string_view bytes) {
  const auto data = make_gzip_decompressor();
  std::string text;
  std::string room(4096, '\0');
  std::size_t size = 0;
  do {
    EXPECT_EQ(data->next(bytes, room, size), Decompressor::Status::good);
    text.append(room, 0, size);
  } while (!bytes.empty() || size == room.size());
  return text;
}

// ---- which coding

TEST(CompressionRules, TakeTheCodingThatTheClientLikesBest) {
  const auto chosen = [](const char* field) {
    const CompressionRules rules(CompressionConfig{});
    const auto coding = rules.coding_for(field);
    return !coding ? "none" : *coding == ContentCoding::zstd ? "zstd" : "gzip";
  };
  const std::pair<const char*, const char*> table[] = {
      {"", "none"},
      {"gzip", "gzip"},
      {"gzip, zstd", "zstd"},
      {"gzip, deflate, br, zstd", "zstd"},
      {"gzip;q=1.0, zstd;q=0.5", "gzip"},
      {"zstd;q=0, gzip", "gzip"},
      {"GZIP", "gzip"},
      {"x-gzip", "gzip"},
      {"br", "none"},
      {"br;q=1, gzip;q=0.1", "gzip"},
      {"*", "zstd"},
      {"*;q=0", "none"},
      {"zstd;q=0, *", "gzip"},
      {"*;q=0, gzip", "gzip"},
      {"identity", "none"},
      {"identity;q=0", "none"},
      {"identity;q=0, *", "zstd"},
      {"identity, gzip;q=0.5", "none"},
      {"identity;q=0.5, gzip", "gzip"},
      {"gzip, identity", "gzip"},
      {"gzip;q=0", "none"},
      {"gzip;q=", "none"},
  };
  for (const auto& [field, coding] : table) EXPECT_STREQ(chosen(field), coding) << field;
}

TEST(CompressionRules, PreferTheFirstCodingOfTheFile) {
  const CompressionRules rules(
      CompressionConfig{.codings = {ContentCoding::gzip, ContentCoding::zstd}});
  EXPECT_EQ(rules.coding_for("zstd, gzip"), ContentCoding::gzip);
  EXPECT_EQ(rules.coding_for("zstd"), ContentCoding::zstd);
  const CompressionRules only_gzip(CompressionConfig{.codings = {ContentCoding::gzip}});
  EXPECT_EQ(only_gzip.coding_for("zstd"), std::nullopt);
}

// ---- which responses

TEST(CompressionRules, CoverTypesOfTheFile) {
  const CompressionRules rules(CompressionConfig{});
  for (const char* type : {"application/json", "Application/JSON; charset=utf-8", "text/html",
                           "text/plain;charset=utf-8", "TEXT/CSV"}) {
    EXPECT_TRUE(rules.cover(response_with(type))) << type;
  }
  for (const char* type : {"", "application/jsonx", "image/png", "text/event-stream",
                           "Text/Event-Stream; charset=utf-8", "application/x-ndjson",
                           "application/grpc", "application/octet-stream", "textual/x"}) {
    EXPECT_FALSE(rules.cover(response_with(type))) << type;
  }
}

TEST(CompressionRules, NeverCoverStreamsOfMessages) {
  const CompressionRules rules(CompressionConfig{.types = {"application/*", "text/*"}});
  EXPECT_TRUE(rules.cover(response_with("application/octet-stream")));
  for (const char* type :
       {"text/event-stream", "application/x-ndjson", "application/grpc", "application/grpc+proto"})
    EXPECT_FALSE(rules.cover(response_with(type))) << type;
}

TEST(CompressionRules, CoverSizesFromTheLeastOn) {
  const CompressionRules rules(CompressionConfig{.min_bytes = 10});
  EXPECT_FALSE(rules.cover(response_with("text/plain", "123456789")));
  EXPECT_TRUE(rules.cover(response_with("text/plain", "1234567890")));
  Loop loop;
  Response unknown = response_with("text/plain");
  unknown.body = std::make_unique<ScriptedBody>(std::make_shared<BodyFeed>(loop));
  EXPECT_TRUE(rules.cover(unknown));
}

TEST(CompressionRules, LeaveWhatMayNotBeCompressed) {
  const CompressionRules rules(CompressionConfig{});
  const auto covers = [&](int status, const char* name, const char* value) {
    Response response = response_with("application/json");
    response.status = status;
    if (*name != '\0') response.fields.add(name, value);
    return rules.cover(response);
  };
  for (const int status : {200, 201, 400, 404, 503}) EXPECT_TRUE(covers(status, "", "")) << status;
  for (const int status : {101, 204, 205, 206, 304}) EXPECT_FALSE(covers(status, "", "")) << status;
  EXPECT_FALSE(covers(200, "content-encoding", "br"));
  EXPECT_FALSE(covers(200, "content-range", "bytes 0-99/5000"));
  EXPECT_FALSE(covers(200, "Cache-Control", "max-age=5, No-Transform"));
  EXPECT_TRUE(covers(200, "cache-control", "no-store"));
}

TEST(CompressedFields, SayWhatHoldsOfTheCompressedBytes) {
  Fields fields;
  fields.add("Content-Type", "application/json");
  fields.add("ETag", "\"abc\"");
  fields.add("Accept-Ranges", "bytes");
  fields.add("Content-Digest", "sha-256=:x:");
  mark_compressed(fields, ContentCoding::gzip);
  EXPECT_EQ(text_of(fields),
            "Content-Type: application/json\nETag: W/\"abc\"\ncontent-encoding: gzip\n");
  Fields weak;
  weak.add("etag", "W/\"abc\"");
  mark_compressed(weak, ContentCoding::zstd);
  EXPECT_EQ(text_of(weak), "etag: W/\"abc\"\ncontent-encoding: zstd\n");
}

// ---- the filter

class CompressionOfRoutes : public testing::Test {
 protected:
  /// What a request gets whose response has these fields.
  Response answer(std::string_view accept_encoding, std::uint32_t route = 0,
                  std::string_view method = "GET") {
    request_.method = method;
    request_.fields.clear();
    if (!accept_encoding.empty()) request_.fields.add("accept-encoding", accept_encoding);
    request_.info.identity.route = routes_[route].name;
    request_.info.identity.routing = {.state = RouteState::routed, .route = route};
    FunctionHandler next([&](Request& request) -> Task<Result<Response>> {
      request.fields.clear();  // as a route may do
      Response response = response_with("application/json");
      response.fields.add("vary", "origin");
      return Result<Response>(std::move(response));
    });
    auto task = filter_.handle(request_, next);
    EXPECT_TRUE(task.ready());
    return std::move(*task.take());
  }

  static std::vector<RouteConfig> routes() {
    std::vector<RouteConfig> routes(2);
    routes[0].name = "compressed";
    routes[0].compression = CompressionConfig{};
    routes[1].name = "plain";
    return routes;
  }

  Loop loop_;
  const std::vector<RouteConfig> routes_ = routes();
  CompressionFilter filter_{loop_, routes_};
  Request request_;
};

TEST_F(CompressionOfRoutes, IsOfTheirs) {
  EXPECT_TRUE(filter_.is_needed());
  EXPECT_FALSE(CompressionFilter(loop_, {}).is_needed());
  Response response = answer("gzip");
  EXPECT_EQ(text_of(response.fields),
            "content-type: application/json\nvary: origin\nvary: accept-encoding\n"
            "content-encoding: gzip\n");
  EXPECT_EQ(response.body->length(), std::nullopt);
  Collected all;
  const Task<void> reading = collect(*response.body, all);
  ASSERT_TRUE(reading.ready());
  EXPECT_EQ(gunzipped(all.bytes), long_text);
  EXPECT_EQ(text_of(answer("gzip", 1).fields), "content-type: application/json\nvary: origin\n");
}

TEST_F(CompressionOfRoutes, TellsCachesWhatItDependsOn) {
  for (const auto& response : {answer(""), answer("br"), answer("gzip", 0, "HEAD")}) {
    EXPECT_EQ(text_of(response.fields),
              "content-type: application/json\nvary: origin\nvary: accept-encoding\n");
    EXPECT_EQ(response.body->length(), long_text.size());
  }
}

TEST_F(CompressionOfRoutes, EndsWhereTooManyCompressorsAreInUse) {
  std::vector<Response> responses;
  for (std::size_t i = 0; i < CompressorPool::max_in_use; ++i) responses.push_back(answer("zstd"));
  EXPECT_TRUE(responses.back().fields.has(FieldId::content_encoding));
  EXPECT_FALSE(answer("zstd").fields.has(FieldId::content_encoding));
  responses.pop_back();
  EXPECT_TRUE(answer("zstd").fields.has(FieldId::content_encoding));
}

// ---- the body

struct Compressed {
  explicit Compressed(Loop& loop)
      : feed(std::make_shared<BodyFeed>(loop)),
        body(loop, std::make_unique<ScriptedBody>(feed), pool.lend(ContentCoding::gzip), outcome) {}

  CompressorPool pool;
  RequestOutcome outcome;
  std::shared_ptr<BodyFeed> feed;
  CompressedBody body;
};

TEST(CompressedBodies, HoldNothingBackWhileTheSourceWaits) {
  Loop loop;
  Compressed compressed(loop);
  Collected all;
  const Task<void> reading = collect(compressed.body, all);
  std::string text;
  for (const char* piece : {"[1", ",2", ",3]"}) {
    text += piece;
    compressed.feed->push(piece);
    loop.run_until([&] { return gunzipped(all.bytes) == text; });
  }
  EXPECT_EQ(all.chunks, 3);
  compressed.feed->trailers.add("x-a", "b");
  compressed.feed->end();
  loop.run_until([&] { return all.done; });
  EXPECT_EQ(gunzipped(all.bytes), text);
  EXPECT_EQ(all.trailers, "x-a: b\n");
}

TEST(CompressedBodies, LetTheLoopGoOn) {
  Loop loop;
  Compressed compressed(loop);
  std::string text;
  while (text.size() < 1'000'000) text += std::to_string(text.size());
  compressed.feed->push(text);
  compressed.feed->end();
  Collected all;
  const Task<void> reading = collect(compressed.body, all);
  EXPECT_FALSE(reading.ready());
  const std::uint64_t before = loop.iterations();
  loop.run_until([&] { return all.done; });
  EXPECT_GE(loop.iterations() - before, text.size() / (64UL * 1024));
  EXPECT_EQ(gunzipped(all.bytes), text);
}

TEST(CompressedBodies, FailAsTheirSourceDoes) {
  Loop loop;
  Compressed compressed(loop);
  compressed.feed->push("begun");
  compressed.feed->fail({.fault = Fault::backend_closed, .side = Side::backend});
  Collected all;
  const Task<void> reading = collect(compressed.body, all);
  loop.run_until([&] { return all.done; });
  ASSERT_TRUE(all.error);
  EXPECT_EQ(all.error->fault, Fault::backend_closed);
}

TEST(CompressedBodies, AreSmallWhereTextRepeats) {
  Loop loop;
  Compressed compressed(loop);
  compressed.feed->push(std::string(100'000, ' '));
  compressed.feed->end();
  Collected all;
  const Task<void> reading = collect(compressed.body, all);
  loop.run_until([&] { return all.done; });
  EXPECT_LT(all.bytes.size(), 1000U);
  EXPECT_EQ(all.chunks, 1);
}

}  // namespace
}  // namespace evenkeel
