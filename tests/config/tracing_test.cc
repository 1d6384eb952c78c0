#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/test_environment.h"

namespace evenkeel {
namespace {

using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string pools = "pools: [{name: a, backends: [127.0.0.1:1]}]\n";

TracingConfig read_tracing(const std::string& text,
                           std::map<std::string, std::string> variables = {}) {
  const LoadResult loaded = TestEnvironment{std::move(variables), {}}.read(pools + text);
  EXPECT_TRUE(loaded.ok()) << testing::PrintToString(lines_of(loaded.problems));
  return loaded.config.tracing;
}

TEST(ConfigOfTracing, IsOffUnlessACollectorIsNamed) {
  EXPECT_FALSE(read_tracing("").is_on());
  EXPECT_FALSE(read_tracing("tracing: {otlp: off, sample: 1%}").is_on());
  EXPECT_TRUE(read_tracing("tracing: {otlp: 'http://c:4318'}").is_on());
}

TEST(ConfigOfTracing, AUrlWithoutAPathGetsThatOfTraces) {
  EXPECT_EQ(read_tracing("tracing: {otlp: 'http://c:4318'}").otlp, "http://c:4318/v1/traces");
  EXPECT_EQ(read_tracing("tracing: {otlp: 'https://c/'}").otlp, "https://c/v1/traces");
  EXPECT_EQ(read_tracing("tracing: {otlp: 'https://c/own/path'}").otlp, "https://c/own/path");
}

TEST(ConfigOfTracing, RefusesWhatIsNoUrl) {
  for (const char* bad : {"c:4318", "http://", "grpc://c:4317", "http://u:p@c/", "http://c:0"}) {
    EXPECT_THAT(problems_of(pools + "tracing: {otlp: '" + bad + "'}"),
                ElementsAre(HasSubstr("tracing.otlp: ")))
        << bad;
  }
}

TEST(ConfigOfTracing, TakesTheVariablesOfOpenTelemetryWhereTheFileIsSilent) {
  const std::map<std::string, std::string> variables{
      {"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318/base/"},
      {"OTEL_EXPORTER_OTLP_HEADERS", "k=v"},
      {"OTEL_TRACES_SAMPLER", "parentbased_traceidratio"},
      {"OTEL_TRACES_SAMPLER_ARG", "0.25"},
      {"OTEL_SERVICE_NAME", "edge"}};
  const TracingConfig tracing = read_tracing("", variables);
  EXPECT_EQ(tracing.otlp, "http://c:4318/base/v1/traces");
  EXPECT_EQ(tracing.sample, 0.25);
  EXPECT_EQ(tracing.headers, "k=v");
  EXPECT_EQ(tracing.service_name, "edge");

  const TracingConfig given = read_tracing("tracing: {otlp: 'http://d', sample: 1}", variables);
  EXPECT_EQ(given.otlp, "http://d/v1/traces");
  EXPECT_EQ(given.sample, 1);
  EXPECT_FALSE(read_tracing("tracing: {otlp: 'off'}", variables).is_on());

  auto others = variables;
  others["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] = "http://e/as/it/is";
  EXPECT_EQ(read_tracing("", others).otlp, "http://e/as/it/is");
  others["OTEL_SDK_DISABLED"] = "TRUE";
  EXPECT_FALSE(read_tracing("", others).is_on());
}

TEST(ConfigOfTracing, NamesTheVariableThatCannotBeUsed) {
  const auto problems_with = [](std::map<std::string, std::string> variables) {
    variables.emplace("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318");
    const TestEnvironment environment{std::move(variables), {}};
    // A platform's variable does not keep a file without `tracing` from being served.
    const LoadResult silent = environment.read(pools);
    EXPECT_TRUE(silent.ok());
    EXPECT_THAT(lines_of(silent.warnings),
                ElementsAre(AnyOf(HasSubstr("not traced"), HasSubstr("it is ignored"))));
    return lines_of(environment.read(pools + "tracing: {slow: 10s}").problems);
  };
  EXPECT_THAT(problems_with({{"OTEL_EXPORTER_OTLP_ENDPOINT", "c:4318"}}),
              ElementsAre(HasSubstr("OTEL_EXPORTER_OTLP_ENDPOINT is not a URL")));
  EXPECT_THAT(problems_with({{"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"}}),
              ElementsAre(HasSubstr("asks for gRPC")));
  EXPECT_THAT(problems_with({{"OTEL_TRACES_SAMPLER", "xray"}}),
              ElementsAre(HasSubstr("OTEL_TRACES_SAMPLER names a sampler")));
  for (const char* bad : {"-1", "1.5", "1%", "nan"}) {
    EXPECT_THAT(
        problems_with({{"OTEL_TRACES_SAMPLER", "traceidratio"}, {"OTEL_TRACES_SAMPLER_ARG", bad}}),
        ElementsAre(HasSubstr("OTEL_TRACES_SAMPLER_ARG is not a number")));
  }
}

}  // namespace
}  // namespace evenkeel
