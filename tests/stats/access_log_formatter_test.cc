#include "evenkeel/stats/access_log_formatter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <simdjson.h>

#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "stats/temporary_directory.h"

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;
using namespace std::string_view_literals;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const AttemptRecord answered{.backend = "gpu1.internal:8000", .connect = 250us};

AccessLogEntry ordinary() {
  return {.time = std::chrono::system_clock::time_point(1'795'260'631s + 4'205us),
          .request_id = "01939a1c-7d3e-7abc-8def-0123456789ab",
          .client = "203.0.113.9",
          .listener = "public",
          .protocol = "HTTP/1.1",
          .method = "POST",
          .host = "api.example.com",
          .path = "/v1/chat/completions",
          .route = "/v1/**",
          .pool = "llama-70b",
          .backend = "gpu1.internal:8000",
          .status = 200,
          .attempts = {&answered, 1},
          .bytes_in = 412,
          .bytes_out = 18'230,
          .duration = 2'345'678us,
          .head = 300us,
          .connect = 250us,
          .overhead = 127us,
          .backend_time = 2'345'001us,
          .first_byte = 87'654us};
}

std::string line_of(const AccessLogEntry& entry) {
  auto buffer = std::make_unique<AccessLogBuffer>();  // on the heap, where ASan sees every overrun
  return std::string(AccessLogFormatter().format(entry, *buffer));
}

/// The value of a string member; the whole line must be valid JSON, which implies valid UTF-8.
std::string parsed(const std::string& line, const char* key) {
  simdjson::dom::parser parser;
  simdjson::dom::element document;
  const auto error = parser.parse(line).get(document);
  EXPECT_FALSE(error) << simdjson::error_message(error) << "\n" << line;
  if (error) return {};
  std::string_view value;
  EXPECT_FALSE(document[key].get(value)) << line;
  return std::string(value);
}

TEST(AccessLogFormatter, IsOneObjectOfTypedFields) {
  EXPECT_EQ(line_of(ordinary()),
            R"({"time":"2026-11-21T11:30:31.004205Z",)"
            R"("request_id":"01939a1c-7d3e-7abc-8def-0123456789ab","client":"203.0.113.9",)"
            R"("listener":"public","protocol":"HTTP/1.1","method":"POST",)"
            R"("host":"api.example.com","path":"/v1/chat/completions","route":"/v1/**",)"
            R"("pool":"llama-70b","backend":"gpu1.internal:8000","status":200,"reason":null,)"
            R"("attempts":[{"backend":"gpu1.internal:8000","outcome":"answered",)"
            R"("connect_ms":0.250}],"bytes_in":412,"bytes_out":18230,"duration_ms":2345.678,)"
            R"("head_ms":0.300,"wait_ms":0.000,"connect_ms":0.250,"retry_ms":0.000,)"
            R"("overhead_ms":0.127,"backend_ms":2345.001,"ttfb_ms":87.654,"aborted":false})"
            "\n");
}

TEST(AccessLogFormatter, IncludesTheGrpcStatusBesideTheHttpStatus) {
  AccessLogEntry entry = ordinary();
  entry.grpc_status = 14;
  EXPECT_THAT(line_of(entry), HasSubstr(R"("status":200,"grpc_status":14,"reason":null,)"));
}

TEST(AccessLogFormatter, IncludesThePeerWhereItIsNotTheClient) {
  AccessLogEntry entry = ordinary();
  entry.peer = "10.0.0.1";
  EXPECT_THAT(line_of(entry), HasSubstr(R"("client":"203.0.113.9","peer":"10.0.0.1","listener":)"));
}

TEST(AccessLogFormatter, WritesAPriorityThatIsGiven) {
  AccessLogEntry entry = ordinary();
  EXPECT_THAT(line_of(entry), ::testing::Not(HasSubstr("priority")));
  entry.priority = "batch";
  EXPECT_THAT(line_of(entry), HasSubstr(R"(,"priority":"batch","status":200,)"));
  EXPECT_THAT(line_of(entry), ::testing::Not(HasSubstr("tenant")));
  entry.tenant = "acme";
  EXPECT_THAT(line_of(entry), HasSubstr(R"(,"priority":"batch","tenant":"acme","status":200,)"));
}

TEST(AccessLogFormatter, GivesEveryAttemptItsOutcomeAndTheLastOneTheReason) {
  const AttemptRecord attempts[] = {
      {.backend = "a:1", .connect = 3s, .fault = Fault::connect_timeout},
      {.backend = "b:1", .fault = Fault::connect_failed},
      {.backend = "c:1"},
  };
  AccessLogEntry entry = ordinary();
  entry.attempts = attempts;

  EXPECT_THAT(line_of(entry),
              HasSubstr(R"("attempts":[{"backend":"a:1","outcome":"connect_timeout",)"
                        R"("connect_ms":3000.000},{"backend":"b:1","outcome":"connect_failed",)"
                        R"("connect_ms":0.000},{"backend":"c:1","outcome":"answered",)"
                        R"("connect_ms":0.000}],)"));
  entry.reason = "client_gone";
  EXPECT_THAT(line_of(entry), HasSubstr(R"({"backend":"c:1","outcome":"client_gone",)"));
}

TEST(AccessLogFormatter, WritesNullForUnknownValues) {
  EXPECT_EQ(line_of({.time = std::chrono::system_clock::time_point(), .aborted = true}),
            R"({"time":"1970-01-01T00:00:00.000000Z","request_id":null,"client":null,)"
            R"("listener":null,"protocol":null,"method":null,"host":null,"path":null,)"
            R"("route":null,"pool":null,"backend":null,"status":null,"reason":null,)"
            R"("attempts":[],"bytes_in":0,"bytes_out":0,"duration_ms":0.000,"head_ms":0.000,)"
            R"("wait_ms":0.000,"connect_ms":0.000,"retry_ms":0.000,"overhead_ms":0.000,)"
            R"("backend_ms":null,"ttfb_ms":null,"aborted":true})"
            "\n");
}

TEST(AccessLogFormatter, WritesTheTimeOfEveryEntryThoughItCachesTheDate) {
  AccessLogFormatter line;
  AccessLogBuffer buffer;
  const auto at = [&](std::chrono::system_clock::duration time) {
    return std::string(
        line.format({.time = std::chrono::system_clock::time_point(time)}, buffer).substr(9, 27));
  };

  EXPECT_EQ(at(1'709'164'799s + 999'999us), "2024-02-28T23:59:59.999999Z");
  EXPECT_EQ(at(1'709'164'800s), "2024-02-29T00:00:00.000000Z");
  EXPECT_EQ(at(1'709'164'799s + 1us), "2024-02-28T23:59:59.000001Z");
}

TEST(AccessLogFormatter, EscapesJsonAndTerminalControlCharacters) {
  AccessLogEntry entry = ordinary();

  entry.path = "/a\"b\\c\n\x1b[2J\x7f\xc2\x9b";

  EXPECT_THAT(line_of(entry), HasSubstr(R"("path":"/a\"b\\c\n\u001b[2J\u007f\u009b")"));
}

TEST(AccessLogFormatter, KeepsWellFormedUtf8AndShowsOtherBytesAsLatin1) {
  AccessLogEntry entry = ordinary();

  entry.path = "/caf\u00e9/\u4e2d\u6587/\U0001f680/\xe9\xff/\xed\xa0\x80/\xc0\xaf/\xf4\x90\x80\x80";

  EXPECT_EQ(parsed(line_of(entry), "path"),
            "/caf\u00e9/\u4e2d\u6587/\U0001f680/\u00e9\u00ff/\u00ed\u00a0\u0080/\u00c0\u00af/"
            "\u00f4\u0090\u0080\u0080");
}

TEST(AccessLogFormatter, TruncatesLongValuesAtACharacterWithAnEllipsis) {
  AccessLogEntry plain = ordinary();
  AccessLogEntry escaped = ordinary();
  AccessLogEntry wide = ordinary();
  const std::string letters(5'000, 'x');
  const std::string quotes(5'000, '"');
  std::string rockets;
  for (int i = 0; i < 2'000; ++i) rockets += "\U0001f680";
  plain.path = letters;
  escaped.path = quotes;
  wide.path = rockets;

  EXPECT_EQ(parsed(line_of(plain), "path"), letters.substr(0, 2'045) + "...");
  EXPECT_EQ(parsed(line_of(escaped), "path"), quotes.substr(0, 1'022) + "...");
  EXPECT_EQ(parsed(line_of(wide), "path"), rockets.substr(0, 511 * 4) + "...");
}

TEST(AccessLogFormatter, KeepsAValueThatJustFits) {
  AccessLogEntry entry = ordinary();
  const std::string path = "/" + std::string(2'045, 'x') + "\"";
  entry.path = path;

  EXPECT_EQ(parsed(line_of(entry), "path"), path);
}

/// An entry whose every value is as long as can be.
AccessLogInference generation() {
  return {.model = "llama",
          .task = "chat",
          .stream = true,
          .max_tokens = 256,
          .prompt_bytes = 4096,
          .prompt_tokens = 1000,
          .completion_tokens = 20,
          .cached_tokens = 960,
          .finish_reason = "stop",
          .awaited_body = 20'125us,
          .first_token = 87'654us,
          .per_output_token = 20ms,
          .max_gap = 31ms};
}

TEST(AccessLogFormatter, IncludesWhatIsKnownOfARequestToAModel) {
  AccessLogEntry entry = ordinary();
  AccessLogInference inference = generation();
  entry.inference = &inference;

  EXPECT_THAT(line_of(entry),
              EndsWith(R"("ttfb_ms":87.654,"model":"llama","task":"chat","stream":true,)"
                       R"("max_tokens":256,"prompt_bytes":4096,"prompt_tokens":1000,)"
                       R"("completion_tokens":20,"cached_tokens":960,"finish_reason":"stop",)"
                       R"("body_ms":20.125,"ttft_ms":87.654,"tpot_ms":20.000,"max_gap_ms":31.000,)"
                       R"("aborted":false})"
                       "\n"));

  inference = {.task = "other"};
  EXPECT_THAT(
      line_of(entry),
      HasSubstr(R"("model":null,"task":"other","stream":false,"max_tokens":null,)"
                R"("prompt_bytes":0,"prompt_tokens":null,"completion_tokens":null,)"
                R"("cached_tokens":null,"finish_reason":null,"body_ms":0.000,"ttft_ms":null,)"
                R"("tpot_ms":null,"max_gap_ms":null,)"));
}

AccessLogInference inference_filled_with(std::string_view bytes) {
  constexpr auto most = ~std::uint64_t{0};
  return {.model = bytes,
          .task = bytes,
          .max_tokens = ~std::uint32_t{0},
          .prompt_bytes = most,
          .prompt_tokens = most,
          .completion_tokens = most,
          .cached_tokens = most,
          .finish_reason = bytes,
          .awaited_body = Duration::max(),
          .first_token = Duration::max(),
          .per_output_token = Duration::max(),
          .max_gap = Duration::max()};
}

AccessLogEntry filled_with(std::string_view bytes, std::span<const AttemptRecord> attempts) {
  return {.time = std::chrono::system_clock::time_point(9'223'372'036s),
          .request_id = bytes,
          .client = bytes,
          .peer = bytes,
          .listener = bytes,
          .protocol = bytes,
          .method = bytes,
          .host = bytes,
          .path = bytes,
          .route = bytes,
          .pool = bytes,
          .backend = bytes,
          .status = 2'147'483'647,
          .grpc_status = std::uint8_t{255},
          .reason = bytes,
          .attempts = attempts,
          .bytes_in = ~std::uint64_t{0},
          .bytes_out = ~std::uint64_t{0},
          .duration = Duration::max(),
          .head = Duration::max(),
          .waited = Duration::max(),
          .connect = Duration::max(),
          .retry = Duration::max(),
          .overhead = Duration::min(),
          .backend_time = Duration::max(),
          .first_byte = Duration::max()};
}

TEST(AccessLogFormatter, FitsItsBufferWhateverItIsGiven) {
  for (const char byte : {'x', '"', '\x01', '\xff'}) {
    const std::string bytes(70'000, byte);

    const std::vector<AttemptRecord> attempts(
        AttemptList::capacity, AttemptRecord{.backend = bytes, .connect = Duration::max()});

    const AccessLogInference inference = inference_filled_with(bytes);
    AccessLogEntry entry = filled_with(bytes, attempts);
    entry.inference = &inference;
    const std::string line = line_of(entry);

    EXPECT_LE(line.size(), std::tuple_size_v<AccessLogBuffer>);
    EXPECT_THAT(line, EndsWith("}\n"));
    EXPECT_THAT(parsed(line, "path"), EndsWith("..."));
  }
}

TEST(AccessLogFormatter, IsOneLineOfValidJsonForAnyBytes) {
  std::mt19937 chance(11);
  // Special bytes are as frequent as all others together.
  constexpr auto telling = "\"\\\n\r\t\x00\x1f\x7f\x80\xbf\xc0\xc2\xe0\xed\xf0\xf4\xff u/"sv;
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes(chance() % 40, '\0');
    for (char& byte : bytes) {
      byte = chance() % 2 ? telling[chance() % telling.size()] : static_cast<char>(chance());
    }

    const std::vector<AttemptRecord> attempts(
        AttemptList::capacity, AttemptRecord{.backend = bytes, .connect = Duration::max()});

    const AccessLogInference inference = inference_filled_with(bytes);
    AccessLogEntry entry = filled_with(bytes, attempts);
    entry.inference = &inference;
    const std::string line = line_of(entry);

    simdjson::dom::parser parser;
    ASSERT_FALSE(parser.parse(line).error()) << line;
    ASSERT_EQ(line.find('\n'), line.size() - 1);
  }
}

TEST(AccessLogFormatter, GivesPlainBytesBackUnchangedAtEveryLength) {
  for (std::size_t size = 1; size < 100; ++size) {
    std::string path;
    for (std::size_t i = 0; i < size; ++i) path += static_cast<char>('#' + i % 50);
    AccessLogEntry entry = ordinary();
    entry.path = path;

    ASSERT_EQ(parsed(line_of(entry), "path"), path);
  }
}

TEST(AccessLogFormatter, FindsASpecialByteAtEveryPosition) {
  for (const char special : {'"', '\\', '\x1f', '\0', '\x7f', '\x80', '\xff'}) {
    for (std::size_t size = 1; size < 40; ++size) {
      for (std::size_t place = 0; place < size; ++place) {
        std::string path(size, '~');
        path[place] = special;
        AccessLogEntry entry = ordinary();
        entry.path = path;

        const std::string line = line_of(entry);
        const std::string value = parsed(line, "path");

        ASSERT_EQ(line.find('\x7f'), std::string::npos);
        ASSERT_EQ(value.substr(0, place), path.substr(0, place));
        ASSERT_THAT(value, EndsWith(path.substr(place + 1)));
      }
    }
  }
}

TEST(AccessLogFormatter, IsDescribedFieldByField) {
  std::string documentation = contents_of(EVENKEEL_SOURCE_DIR "/docs/observability.md");
  documentation.erase(0, documentation.find("\n## Access log\n"));
  simdjson::dom::parser parser;
  AccessLogEntry entry = ordinary();
  const AccessLogInference inference = generation();
  entry.inference = &inference;
  const std::string line = line_of(entry);
  const simdjson::dom::object object = parser.parse(line);

  for (const auto field : object) {
    EXPECT_THAT(documentation, HasSubstr("| `" + std::string(field.key) + "` |"));
  }
}

Instant fake_monotonic;
std::chrono::system_clock::time_point fake_wall;

TEST(WallClock, FollowsTheWallClockOnceASecond) {
  const auto epoch = std::chrono::system_clock::time_point();
  WallClock wall_time([] { return fake_wall; }, [] { return fake_monotonic; });
  fake_monotonic = Instant(10s);
  fake_wall = epoch + 1000s;

  EXPECT_EQ(wall_time.at(Instant(9s)), epoch + 999s);

  fake_monotonic = Instant(12s);
  fake_wall = epoch + 2002s;  // the wall clock was set
  EXPECT_EQ(wall_time.at(Instant(10s) + 900ms), epoch + 1000s + 900ms);
  EXPECT_EQ(wall_time.at(Instant(12s)), epoch + 2002s);
}

}  // namespace
}  // namespace evenkeel::testing
