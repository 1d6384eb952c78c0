// The keys of `access_log` and `log`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "config/test_environment.h"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

const std::string pools = "pools: [{name: a, backends: [127.0.0.1:1]}]\n";

Config config_of(const std::string& text) {
  const LoadResult loaded = read(pools + text);
  EXPECT_TRUE(loaded.ok()) << testing::PrintToString(lines_of(loaded.problems));
  return loaded.config;
}

TEST(ConfigOfAccessLog, TakesFormatsFieldsAndTemplates) {
  EXPECT_EQ(config_of("access_log: {format: combined}").access_log.format, "combined");
  const Config chosen =
      config_of("access_log: {format: logfmt, fields: [status, user_agent], sample: 1%, slow: 5s}");
  EXPECT_EQ(chosen.access_log.fields, (std::vector<std::string>{"status", "user_agent"}));
  EXPECT_EQ(chosen.access_log.sample, 0.01);
  EXPECT_EQ(chosen.access_log.slow, milliseconds(5'000));
  EXPECT_EQ(
      config_of("access_log: {format: '$client \"$request\" $${duration_ms}ms'}").access_log.format,
      "$client \"$request\" ${duration_ms}ms");
  EXPECT_THAT(problems_of(pools + "access_log: {path: 'syslog:/dev/log'}"), IsEmpty());
}

TEST(ConfigOfAccessLog, RefusesWhatNamesNoSyslog) {
  const auto refused = [](const std::string& path) {
    const auto problems = problems_of(pools + "access_log: {path: '" + path + "'}");
    return problems.size() == 1 ? problems[0] : testing::PrintToString(problems);
  };
  EXPECT_THAT(refused("syslog:"), HasSubstr("access_log.path: 'syslog:' names no socket of a local "
                                            "syslog by its absolute path; write 'syslog' for "
                                            "/dev/log, or syslog:PATH"));
  EXPECT_THAT(refused("syslog:run/log"), HasSubstr("write 'syslog' for /dev/log"));
  EXPECT_THAT(refused("syslog:server=unix:/run/log,nohostname"),
              HasSubstr("did you mean 'syslog:/run/log'?"));
  EXPECT_THAT(refused("syslog:server=10.0.0.1"), HasSubstr("a syslog of this machine"));
}

TEST(ConfigOfAccessLog, SuggestsWhatAWrongNameMeans) {
  const auto refused = [](const std::string& keys) {
    const auto problems = problems_of(pools + "access_log: {" + keys + "}");
    return problems.size() == 1 ? problems[0] : testing::PrintToString(problems);
  };
  EXPECT_THAT(refused("format: jsn"), HasSubstr("access_log.format: unknown format 'jsn', "
                                                "available: json, logfmt, combined, or a template "
                                                "with $FIELD; did you mean 'json'?"));
  EXPECT_THAT(refused("fields: [staus]"),
              HasSubstr("access_log.fields[0]: unknown field 'staus'; did you mean 'status'?"));
  EXPECT_THAT(refused("fields: [remote_addr]"), HasSubstr("did you mean 'client'?"));
  EXPECT_THAT(refused("fields: [qqqqqqqqq]"), HasSubstr("available: time, request_id, "));
  EXPECT_THAT(refused("format: '$http_user_agent'"),
              HasSubstr("unknown field 'http_user_agent'; did you mean 'user_agent'?"));
  EXPECT_THAT(refused("format: '$request_time'"), HasSubstr("did you mean 'duration_ms'?"));
  EXPECT_THAT(refused("format: '$status $'"), HasSubstr("has a '$' without a name behind it"));
  EXPECT_THAT(refused("format: '$status $status'"), HasSubstr("has $status twice"));
  EXPECT_THAT(refused("format: \"$status\\n$client\""), HasSubstr("has a control character"));
  EXPECT_THAT(refused("format: '$status " + std::string(2000, 'x') + "'"),
              HasSubstr("a template has at most 1024"));
  EXPECT_THAT(refused("fields: [status, status]"), HasSubstr("'fields' has status twice"));
  EXPECT_THAT(refused("format: combined, fields: [status]"),
              HasSubstr("'fields' is only for the formats json and logfmt"));
}

TEST(ConfigOfLog, HasLevelsOfSubsystems) {
  const Config config = config_of("log: {level: warning, levels: {health: debug, dns: error}}");
  EXPECT_EQ(config.log.levels,
            (std::map<log::Subsystem, log::Level>{{log::Subsystem::health, log::Level::debug},
                                                  {log::Subsystem::dns, log::Level::error}}));
  EXPECT_THAT(problems_of(pools + "log: {levels: {helth: debug, dns: loud}}"),
              testing::UnorderedElementsAre(
                  HasSubstr("log.levels.helth: unknown subsystem 'helth', available: access_log, "
                            "admin, "),
                  HasSubstr("log.levels.dns: unknown level 'loud'")));
}

}  // namespace
}  // namespace evenkeel
