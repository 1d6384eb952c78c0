#include "evenkeel/load/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <cstdlib>
#include <fstream>

namespace evenkeel {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* mooncake =
    R"({"timestamp":0,"input_length":6758,"output_length":500,"hash_ids":[0,1,2]})"
    "\n"
    R"({"timestamp": 3000, "input_length": 40, "output_length": 3, "hash_ids": []})"
    "\n";

constexpr const char* azure =
    "timestamp_ms,context_tokens,generated_tokens\n"
    "0.0,4808,10\n"
    "98.2,110,27\n";

constexpr const char* servegen =
    "timestamp_ms,client_id,input_tokens,output_tokens\r\n"
    "8.2,27,53,3\r\n"
    "16.4,14,32,2\r\n";

/// A file that is removed with the object.
class ScratchFile {
 public:
  ScratchFile() : name_(testing::TempDir() + "trace-XXXXXX") { close(mkstemp(name_.data())); }
  ~ScratchFile() { unlink(name_.c_str()); }
  const std::string& name() const { return name_; }
  void write(const std::string& bytes) { std::ofstream(name_, std::ios::binary) << bytes; }

 private:
  std::string name_;
};

std::vector<milliseconds> dues(const std::vector<TraceRow>& rows) {
  std::vector<milliseconds> result;
  for (const auto& row : rows) {
    result.push_back(std::chrono::duration_cast<milliseconds>(row.due));
  }
  return result;
}

std::string complaint_about(const std::string& text) {
  auto trace = parse_trace(text, "t");
  return trace ? "none" : trace.error().detail;
}

TEST(Trace, ReadsMooncakesJsonLines) {
  auto trace = parse_trace(mooncake, "t");

  ASSERT_TRUE(trace);
  ASSERT_EQ(trace->rows.size(), 2u);
  EXPECT_TRUE(trace->quantised);
  EXPECT_EQ(trace->rows[0].prompt_tokens, 6758u);
  EXPECT_EQ(trace->rows[0].output_tokens, 500u);
  EXPECT_THAT(trace->rows[0].block_ids, ElementsAre(0, 1, 2));
  EXPECT_EQ(trace->rows[1].due, milliseconds(3000));
  EXPECT_TRUE(trace->rows[1].block_ids.empty());
}

TEST(Trace, ReadsAzuresColumns) {
  auto trace = parse_trace(azure, "t");

  ASSERT_TRUE(trace);
  ASSERT_EQ(trace->rows.size(), 2u);
  EXPECT_FALSE(trace->quantised);
  EXPECT_EQ(trace->rows[1].due, microseconds(98'200));
  EXPECT_EQ(trace->rows[1].prompt_tokens, 110u);
  EXPECT_EQ(trace->rows[1].output_tokens, 27u);
  EXPECT_EQ(trace->rows[1].tenant, "");
}

TEST(Trace, ReadsServegensTenants) {
  auto trace = parse_trace(servegen, "t");

  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->rows[0].tenant, "27");
  EXPECT_EQ(trace->rows[0].prompt_tokens, 53u);
  EXPECT_EQ(trace->rows[1].output_tokens, 2u);
}

TEST(Trace, ReadsWhatAzurePublishes) {
  auto trace = parse_trace(
      "\xef\xbb\xbfTIMESTAMP,ContextTokens,GeneratedTokens\r\n"
      "2023-11-16 23:59:59.6805900,374,44\r\n"
      "2023-11-17 00:00:01.0000000,396,109\r\n",
      "t");
  ASSERT_TRUE(trace) << trace.error().detail;
  EXPECT_THAT(dues(trace->rows), ElementsAre(milliseconds(0), milliseconds(1319)));
  EXPECT_EQ(trace->rows[1].prompt_tokens, 396u);
  EXPECT_EQ(trace->rows[1].output_tokens, 109u);
  EXPECT_FALSE(trace->quantised);

  const std::string header = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
  auto zoned = parse_trace(header +
                               "2024-05-10 01:00:00.009930+01:00,2162,5\n"
                               "2024-05-10T00:00:02Z,1,2\n",
                           "t");
  ASSERT_TRUE(zoned) << zoned.error().detail;
  EXPECT_THAT(dues(zoned->rows), ElementsAre(milliseconds(0), milliseconds(1990)));
  for (const char* wrong : {"0.5", "2023-13-01 00:00:00", "2023-02-30 00:00:00", "2023-11-16",
                            "2023-11-16 24:00:00", "2023-11-16 00:00:00+1", ""}) {
    EXPECT_THAT(complaint_about(header + wrong + ",1,2\n"),
                HasSubstr("t:2: expected a date such as 2023-11-16 18:15:46.68"))
        << wrong;
  }
}

TEST(Trace, ReadsTheDaemonsAccessLog) {
  const std::string plain =
      R"({"time":"2026-11-27T10:00:00.000001Z","request_id":"a","path":"/v1/models","status":200,)"
      R"("attempts":[{"backend":"h:1","outcome":"answered","connect_ms":0.1}],"aborted":false})"
      "\n";
  const std::string counted =
      R"({"time":"2026-11-27T10:00:01.500000Z","path":"/a\"}b","tenant":"acme","attempts":[],)"
      R"("model":"llama","prompt_bytes":9,"prompt_tokens":31,"completion_tokens":7,)"
      R"("cached_tokens":null,"aborted":false})"
      "\n";
  const std::string uncounted =
      R"({"time":"2026-11-27T10:00:02Z","prompt_tokens":null,"completion_tokens":null})"
      "\n";
  auto trace = parse_trace(plain + counted + uncounted + counted, "t");

  ASSERT_TRUE(trace) << trace.error().detail;
  EXPECT_THAT(dues(trace->rows), ElementsAre(milliseconds(0), milliseconds(0)));
  EXPECT_EQ(trace->rows[0].prompt_tokens, 31u);
  EXPECT_EQ(trace->rows[0].output_tokens, 7u);
  EXPECT_EQ(trace->rows[0].tenant, "acme");
  EXPECT_FALSE(trace->quantised);
  EXPECT_EQ(trace->left_out, 2u);
  EXPECT_THAT(complaint_about(plain), HasSubstr("no line has prompt_tokens"));
}

TEST(Trace, ReadsTheOneThatComesWithThePackage) {
  auto trace = read_trace(EVENKEEL_SOURCE_DIR "/config/traces/agents.jsonl.gz");

  ASSERT_TRUE(trace) << trace.error().detail;
  EXPECT_EQ(trace->rows.size(), 721u);
  EXPECT_LT(trace->rows.back().due, std::chrono::minutes(1));
  EXPECT_FALSE(trace->rows.front().block_ids.empty());
}

TEST(Trace, IsSortedByTime) {
  auto trace = parse_trace("timestamp_ms,input_tokens,output_tokens\n9,1,1\n3,2,2\n9,3,3\n", "t");

  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->rows[0].prompt_tokens, 2u);
  EXPECT_EQ(trace->rows[1].prompt_tokens, 1u);
  EXPECT_EQ(trace->rows[2].prompt_tokens, 3u);
}

TEST(Trace, ErrorsNameTheLineAndTheProblem) {
  EXPECT_EQ(complaint_about(""), "t: empty");
  EXPECT_THAT(complaint_about("a,b\n1,2\n"), HasSubstr("t:1: expected a header with timestamp_ms"));
  EXPECT_THAT(complaint_about(std::string(azure) + "\n1,2\n"),
              HasSubstr("t:5: expected 3 columns"));
  EXPECT_THAT(complaint_about(std::string(azure) + "x,1,2\n"), HasSubstr("t:4: "));
  EXPECT_THAT(complaint_about(std::string(azure) + "nan,1,2\n"), HasSubstr("t:4: "));
  EXPECT_THAT(complaint_about(std::string(azure) + "1,-1,2\n"), HasSubstr("t:4: "));
  EXPECT_THAT(complaint_about(R"({"timestamp":1,"input_length":2})"),
              HasSubstr("t:1: expected timestamp, input_length and output_length"));
  EXPECT_THAT(complaint_about(std::string(mooncake) + "{\"timestamp\":"),
              HasSubstr("t:3: not a JSON object"));
  EXPECT_THAT(
      complaint_about(R"({"timestamp":1,"input_length":2,"output_length":3,"hash_ids":[1,-2]})"),
      HasSubstr("hash_ids"));
  EXPECT_THAT(complaint_about("timestamp_ms,input_tokens,output_tokens\n"),
              HasSubstr("no requests"));
}

TEST(Trace, OfAFileMayBePlainOrGzip) {
  ScratchFile plain;
  plain.write(azure);
  ScratchFile packed;
  gzFile out = gzopen(packed.name().c_str(), "wb");
  gzputs(out, azure);
  gzclose(out);

  auto from_plain = read_trace(plain.name());
  auto from_packed = read_trace(packed.name());

  ASSERT_TRUE(from_plain);
  ASSERT_TRUE(from_packed);
  EXPECT_EQ(from_plain->rows.size(), 2u);
  EXPECT_EQ(from_packed->rows.size(), 2u);
}

TEST(Trace, OfAFileThatIsMissingOrTruncatedIsAnError) {
  ScratchFile packed;
  gzFile out = gzopen(packed.name().c_str(), "wb");
  for (int i = 0; i < 1000; ++i) gzputs(out, azure);
  gzclose(out);
  std::ifstream whole(packed.name(), std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(whole), {});
  ScratchFile cut;
  cut.write(bytes.substr(0, bytes.size() / 2));

  auto missing = read_trace(cut.name() + ".not-there");
  auto cut_short = read_trace(cut.name());

  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().detail, HasSubstr("No such file"));
  ASSERT_FALSE(cut_short);
  EXPECT_THAT(cut_short.error().detail, HasSubstr("truncated"));
}

TEST(SpreadBursts, SpreadsABatchEvenlyUpToTheNextTimestamp) {
  std::vector<TraceRow> rows(7);
  for (int i : {4, 5, 6}) rows[static_cast<std::size_t>(i)].due = milliseconds(3000);
  rows[6].due = milliseconds(4000);

  spread_bursts(rows);

  EXPECT_THAT(dues(rows), ElementsAre(milliseconds(0), milliseconds(750), milliseconds(1500),
                                      milliseconds(2250), milliseconds(3000), milliseconds(3500),
                                      milliseconds(4000)));
}

TEST(SpreadBursts, GivesTheLastBatchTheTimeOfTheOneBefore) {
  std::vector<TraceRow> rows(3);
  rows[1].due = rows[2].due = milliseconds(100);

  spread_bursts(rows);

  EXPECT_THAT(dues(rows), ElementsAre(milliseconds(0), milliseconds(100), milliseconds(150)));
}

TEST(Trace, ReadsThePublicTracesWhereTheyAreAvailable) {
  const char* folder = std::getenv("EVENKEEL_TRACES");
  if (folder == nullptr) GTEST_SKIP() << "EVENKEEL_TRACES names no folder";

  auto conversation = read_trace(std::string(folder) + "/mooncake_conversation_first60.jsonl.gz");
  auto code = read_trace(std::string(folder) + "/azure2023_code_first60.csv.gz");
  auto tenants = read_trace(std::string(folder) + "/servegen_m-small_tenants_1h.csv.gz");

  ASSERT_TRUE(conversation) << conversation.error().detail;
  EXPECT_EQ(conversation->rows.size(), 6848u);
  ASSERT_TRUE(code) << code.error().detail;
  EXPECT_EQ(code->rows.size(), 6521u);
  ASSERT_TRUE(tenants) << tenants.error().detail;
  EXPECT_EQ(tenants->rows.size(), 28802u);
}

}  // namespace
}  // namespace evenkeel
