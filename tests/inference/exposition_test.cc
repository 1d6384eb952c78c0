#include "evenkeel/inference/exposition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "inference/plain_exposition.h"
#include "inference/recorded.h"

namespace evenkeel {
namespace {

/// Records the samples, to compare them.
struct CollectingSink final : SampleSink {
  struct One {
    std::size_t name_index;
    std::string name;
    std::string labels;
    double value;
  };
  void sample(std::size_t name_index, const Sample& sample) override {
    samples.push_back(
        {name_index, std::string(sample.name), std::string(sample.labels), sample.value});
  }
  std::vector<One> samples;
};

std::vector<CollectingSink::One> collect(const MetricNames& names, std::string_view text,
                                         std::size_t piece = 1 << 20) {
  CollectingSink sink;
  ExpositionReader reader(names, sink);
  while (!text.empty()) {
    // In its own allocation, so that sanitizers detect a read beyond its end.
    const std::string here(text.substr(0, piece));
    reader.read(here);
    text.remove_prefix(here.size());
  }
  return std::move(sink.samples);
}

std::string label_of(std::string_view labels, std::string_view name) {
  std::string scratch;
  return std::string(find_label(labels, name, scratch).value_or("(none)"));
}

// ---- Lines --------------------------------------------------------------------------------------

TEST(Sample, IsANameLabelsAndAValue) {
  const auto sample = parse_sample(R"(vllm:num_requests_running{engine="0",model_name="m"} 37.0)");

  ASSERT_TRUE(sample);
  EXPECT_EQ(sample->name, "vllm:num_requests_running");
  EXPECT_EQ(sample->labels, R"(engine="0",model_name="m")");
  EXPECT_EQ(sample->value, 37.0);
}

TEST(Sample, NeedsNoLabels) {
  EXPECT_EQ(parse_sample("llamacpp:requests_deferred 6")->value, 6);
  EXPECT_EQ(parse_sample("a{} 6")->labels, "");
}

TEST(Sample, IsReadWithBlanksAndCarriageReturnsAnywhere) {
  const auto sample = parse_sample("  a\t{ x = \"1\" , } \t 2.5e-3\r");

  ASSERT_TRUE(sample);
  EXPECT_EQ(sample->name, "a");
  EXPECT_EQ(label_of(sample->labels, "x"), "1");
  EXPECT_EQ(sample->value, 2.5e-3);
}

TEST(Sample, EndsBeforeItsTimestampAndItsExemplar) {
  EXPECT_EQ(parse_sample("a 3 1700000000000")->value, 3);
  EXPECT_EQ(parse_sample(R"(a_bucket{le="1"} 4 # {trace_id="x}"} 0.67 1.5e9)")->value, 4);
}

TEST(Sample, MayBeInfiniteOrNoNumber) {
  EXPECT_EQ(parse_sample("a +Inf")->value, INFINITY);
  EXPECT_EQ(parse_sample("a -Inf")->value, -INFINITY);
  EXPECT_TRUE(std::isnan(parse_sample("a NaN")->value));
  EXPECT_TRUE(std::isnan(parse_sample("a nan")->value));
  EXPECT_EQ(parse_sample("a 9223372036854775794")->value, 9223372036854775794.0);
  EXPECT_EQ(parse_sample("a +1")->value, 1);
}

TEST(Sample, IsNothingElse) {
  for (const char* line :
       {"",        " ",       "\r",           "# HELP a b",     "#",     "a",
        "a ",      "a x",     "a 1x",         "a 0x10",         "a --1", "a +",
        "a{",      "a{} ",    R"(a{x="1} 1)", R"(a{x="1\"} 1)", "{} 1",  R"({"a"} 1)",
        "a 1e999", "a nan(1)"}) {
    EXPECT_FALSE(parse_sample(line)) << line;
  }
}

// ---- Labels -------------------------------------------------------------------------------------

TEST(Labels, AreFoundInAnyOrder) {
  EXPECT_EQ(label_of(R"(engine="0",model_name="m")", "model_name"), "m");
  EXPECT_EQ(label_of(R"(model_name="m",engine="0")", "engine"), "0");
  EXPECT_EQ(label_of(R"(model_name="m",engine="0")", "model"), "(none)");
}

TEST(Labels, MayEndInAComma) {
  EXPECT_EQ(label_of(R"(Level="Host",Hostname="host",)", "Hostname"), "host");
  EXPECT_EQ(label_of(R"(Level="Host",Hostname="host",)", "x"), "(none)");
}

TEST(Labels, MayHoldAnythingInQuotes) {
  EXPECT_EQ(label_of(R"(a="x,b=\"1\"}",b="2")", "b"), "2");
  EXPECT_EQ(label_of(R"(a="x,b=\"1\"}",b="2")", "a"), R"(x,b="1"})");
  EXPECT_EQ(label_of(R"(path="C:\\new\n")", "path"), "C:\\new\n");
  EXPECT_EQ(label_of(R"(a="\t")", "a"), R"(\t)") << "what is no escape stays";
  EXPECT_EQ(parse_sample(R"(m{a="}{",b="\\"} 5)")->value, 5);
}

// ---- Names --------------------------------------------------------------------------------------

TEST(MetricNames, AreWholeNames) {
  const MetricNames names({"vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"});
  const auto samples = collect(names,
                               "vllm:num_requests_waiting_by_reason{reason=\"capacity\"} 9\n"
                               "vllm:num_requests_wait 8\n"
                               "vllm:num_requests_waiting{engine=\"0\"} 12\n"
                               "xvllm:kv_cache_usage_perc 1\n"
                               "vllm:kv_cache_usage_perc 0.5\n");

  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[0].name_index, 0u);
  EXPECT_EQ(samples[0].value, 12);
  EXPECT_EQ(samples[1].name_index, 1u);
  EXPECT_EQ(samples[1].value, 0.5);
}

TEST(MetricNames, MayBeShortAndPrefixesOfEachOther) {
  const MetricNames names({"a", "ab", "abcdefghijkl"});
  const auto samples = collect(names, "a 1\nab 2\nabc 3\nabcdefghijkl 4\nb 5\n");

  ASSERT_EQ(samples.size(), 3u);
  EXPECT_EQ(samples[0].name_index, 0u);
  EXPECT_EQ(samples[1].name_index, 1u);
  EXPECT_EQ(samples[2].name_index, 2u);
}

TEST(MetricNames, MayBeNone) {
  const MetricNames names({});
  EXPECT_TRUE(collect(names, "a 1\nb 2\n").empty());
}

// ---- Whole pages --------------------------------------------------------------------------

TEST(Exposition, IsTheSameInAnyPieces) {
  const MetricNames names({"a_total", "b"});
  const std::string text =
      "# TYPE a_total counter\r\na_total{x=\"1\"} 1\r\n\r\n  b 2\r\nc 3\r\na_total{x=\"2\"} 3\r\n";

  for (std::size_t piece = 1; piece <= text.size(); ++piece) {
    const auto samples = collect(names, text, piece);
    ASSERT_EQ(samples.size(), 3u) << piece;
    EXPECT_EQ(samples[0].labels, "x=\"1\"");
    EXPECT_EQ(samples[1].value, 2);
    EXPECT_EQ(samples[2].value, 3);
  }
}

TEST(Exposition, HasNoSampleInAnIncompleteLine) {
  const MetricNames names({"a"});
  CollectingSink sink;
  ExpositionReader reader(names, sink);

  reader.read("a 1\na 12");

  EXPECT_EQ(sink.samples.size(), 1u);
  EXPECT_TRUE(reader.has_partial_line());
  reader.read("3\n");
  ASSERT_EQ(sink.samples.size(), 2u);
  EXPECT_EQ(sink.samples[1].value, 123);
  EXPECT_FALSE(reader.has_partial_line());
}

TEST(Exposition, EndsAtItsEnd) {
  const MetricNames names({"a"});
  CollectingSink sink;
  ExpositionReader reader(names, sink);

  reader.read("a 1\n# EOF");
  EXPECT_FALSE(reader.ended());
  reader.read("\na 2\n");
  reader.read("a 3\n");

  EXPECT_TRUE(reader.ended());
  EXPECT_EQ(sink.samples.size(), 1u);
}

TEST(Exposition, SkipsALineWithoutEnd) {
  const MetricNames names({"a"});
  const std::string endless(3 * ExpositionReader::max_line_bytes, 'x');
  const std::string text = "a{x=\"" + endless + "\"} 1\na 2\n";

  for (const std::size_t piece : {std::size_t{1000}, std::size_t{70'000}, text.size()}) {
    const auto samples = collect(names, text, piece);
    ASSERT_EQ(samples.size(), 1u) << piece;
    EXPECT_EQ(samples[0].value, 2);
  }
}

/// Compares every name of a recording with the plain reader.
TEST(Exposition, OfRealServersMatchesThePlainReader) {
  const auto recordings = all_recorded();
  ASSERT_FALSE(recordings.empty());
  for (const auto& [file, text] : recordings) {
    const auto plain = read_plainly(text);
    std::vector<std::string_view> all;
    for (const PlainSample& sample : plain) {
      if (std::ranges::find(all, sample.name) == all.end()) all.push_back(sample.name);
    }
    ASSERT_FALSE(all.empty()) << file;
    const MetricNames names(all);
    const auto samples = collect(names, text, 4096);
    ASSERT_EQ(samples.size(), plain.size()) << file;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      EXPECT_EQ(samples[i].name, plain[i].name) << file;
      EXPECT_TRUE(samples[i].value == plain[i].value || std::isnan(plain[i].value)) << file;
      for (const auto& [label, value] : plain[i].labels) {
        EXPECT_EQ(label_of(samples[i].labels, label), value) << file << ' ' << samples[i].labels;
      }
    }
  }
}

}  // namespace
}  // namespace evenkeel
