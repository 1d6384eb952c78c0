#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/test_environment.h"

namespace evenkeel {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;
using std::chrono_literals::operator""min;
using testing::AllOf;
using testing::AnyOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

// A file with one right pool, and what is given before it.
std::string with_pool(const std::string& text) {
  return text + "pools: [{name: llama, backends: [127.0.0.1:8000]}]\n";
}

// A pool with these further lines, each indented by four spaces.
std::string pool_with(const std::string& lines) {
  return "pools:\n  - name: llama\n    backends: [127.0.0.1:8000]\n" + lines;
}

TEST(ConfigReader, ReadsAMinimalFile) {
  const auto result = read("pools: [{name: llama, backends: [http://127.0.0.1:8000]}]\n");

  ASSERT_THAT(lines_of(result.problems), IsEmpty());
  ASSERT_EQ(result.config.pools.size(), 1u);
  EXPECT_EQ(result.config.pools[0].backends[0].address, (Address{"127.0.0.1", 8000}));
  ASSERT_EQ(result.config.listeners.size(), 1u);
  EXPECT_EQ(result.config.listeners[0].name, "public");
  EXPECT_EQ(result.config.listeners[0].address, (Address{"0.0.0.0", 8080}));
  ASSERT_EQ(result.config.routes.size(), 1u);
  EXPECT_EQ(result.config.routes[0].targets, (std::vector<RouteTarget>{{"llama", 1}}));
}

TEST(ConfigReader, ReadsEveryKey) {
  const auto result = read(R"(
version: 1
listeners:
  - name: edge
    address: "[::1]:80"
    timeouts: {header: 1s, idle: 2m, body: 250ms, write: 1.5s}
    limits: {header: 16KiB, header_fields: 50, uri: 512B, body: 1GiB, body_rate: 2KiB, linger: 1MiB, response_buffer: 512KiB, max_connections: 7}
    trusted_proxies: [10.0.0.0/8, "fd00::/8"]
    half_close: wait
admin: {address: localhost:9000}
workers: 3
pools:
  - name: a
    engine: ray
    models: [m1, m2]
    picker: {name: consistent-hash, header: X-User, load_factor: 2}
    backends:
      - {address: gpu1.internal:8000, weight: 5, zone: z1, labels: {gpu: h100, slot: 3, spot: true}}
      - http://gpu2.internal
    limits: {max_in_flight: 9, queue: {size: 2, timeout: 3s}}
    timeouts: {connect: 1s, first_byte: 2s, idle: 3s, grpc_deadline: 4s}
    retry: {attempts: 3, budget: 12.5%, backoff: 1ms..2s, on: [5xx, reset], idempotency_key: true,
            attempt_timeout: 4s, within: 1m, replay: 2MiB}
    keep_alive: {idle: 7s, max_idle: 1}
    affinity: {by: [agent-session, response-id, header:X-Chat, cookie:User, cookie, session_id, sequence_id],
               mode: soft, ttl: 5m, max_sessions: 7}
    debug_headers: true
  - {name: b, engine: ray, backends: ["[::1]:1"], affinity: off}
routes:
  - {name: r, match: {host: API.example.com, path: /v1/**, header: {X-A: 1}, method: [GET, POST]}, pool: a}
  - {match: {path: /x}, split: {a: 9, b: 1}, sticky: {header: X-Chat}, retry: {attempts: 1}}
  - {match: {path: /y}, pool: a, split: {"slot=3, gpu=h100": 95, spot=true: 5}}
access_log: {path: /var/log/evenkeel.log, format: json}
limits: {memory: 1.5GiB}
shutdown: {drain: 0s, delay: 5s}
)");

  ASSERT_THAT(lines_of(result.problems), IsEmpty());
  const Config& config = result.config;
  const ListenerConfig& listener = config.listeners.at(0);
  EXPECT_EQ(listener.address, (Address{"::1", 80}));
  EXPECT_EQ(listener.timeouts, (ListenerTimeouts{1s, 2min, 250ms, 1500ms}));
  EXPECT_EQ(listener.limits, (ListenerLimits{.header_bytes = 16384,
                                             .header_fields = 50,
                                             .uri_bytes = 512,
                                             .body_bytes = 1073741824,
                                             .body_rate_bytes = 2048,
                                             .linger_bytes = 1048576,
                                             .response_buffer_bytes = 524288,
                                             .max_connections = 7}));
  EXPECT_EQ(listener.trusted_proxies.size(), 2u);
  EXPECT_EQ(listener.half_close, HalfClose::wait);
  EXPECT_EQ(config.admin.address, (Address{"localhost", 9000}));
  EXPECT_EQ(config.workers, 3u);
  const PoolConfig& a = config.pools.at(0);
  EXPECT_EQ(a.picker, (PickerConfig{{"consistent-hash", "x-user", 2.0}}));
  EXPECT_EQ(a.models, (std::vector<std::string>{"m1", "m2"}));
  EXPECT_EQ(
      a.backends.at(0),
      (BackendConfig{
          {"gpu1.internal", 8000}, 5, "z1", {{"gpu", "h100"}, {"slot", "3"}, {"spot", "true"}}}));
  EXPECT_EQ(a.backends.at(1).address, (Address{"gpu2.internal", 80}));
  EXPECT_EQ(a.limits, (PoolLimits{9, {2, 3s}}));
  EXPECT_EQ(a.timeouts, (PoolTimeouts{1s, 2s, 3s, 4s}));
  const RetryRules rules{3,    {1ms, 2s}, {RetryOn::server_error, RetryOn::reset}, true, 4s,
                         1min, 2097152};
  EXPECT_EQ(a.retry, (RetryConfig{rules, 0.125}));
  EXPECT_EQ(a.keep_alive, (KeepAliveConfig{7s, 1}));
  EXPECT_EQ(a.affinity, (AffinityConfig{{"agent-session", "response-id", "header:x-chat",
                                         "cookie:User", "cookie", "session_id", "sequence_id"},
                                        AffinityMode::soft,
                                        5min,
                                        7}));
  EXPECT_EQ(config.pools.at(1).affinity, (AffinityConfig{{}, AffinityMode::off}));
  EXPECT_TRUE(a.debug_headers);
  const RouteConfig& first = config.routes.at(0);
  EXPECT_EQ(first.match, (RouteMatch{.host = "api.example.com",
                                     .path = "/v1/**",
                                     .header = {{"x-a", "1"}},
                                     .method = {"GET", "POST"}}));
  EXPECT_EQ(first.targets, (std::vector<RouteTarget>{{"a", 1}}));
  EXPECT_EQ(config.routes.at(1).name, "/x");
  EXPECT_EQ(config.routes.at(1).targets, (std::vector<RouteTarget>{{"a", 9}, {"b", 1}}));
  EXPECT_EQ(config.routes.at(1).sticky.header, "x-chat");
  EXPECT_EQ(config.routes.at(2).targets,
            (std::vector<RouteTarget>{{"a", 95, {{"gpu", "h100"}, {"slot", "3"}}},
                                      {"a", 5, {{"spot", "true"}}}}));
  EXPECT_FALSE(config.routes.at(0).retry);
  EXPECT_EQ(config.routes.at(1).retry, RetryRules{.attempts = 1});
  EXPECT_EQ(config.access_log.path, "/var/log/evenkeel.log");
  EXPECT_EQ(config.limits.memory,
            (MemoryLimit{.kind = MemoryLimit::Kind::bytes, .bytes = 1610612736}));
  EXPECT_EQ(config.shutdown, (ShutdownConfig{0s, 5s}));
}

TEST(ConfigReader, TakesAMemoryLimitAsAWordASizeOrAShare) {
  using Kind = MemoryLimit::Kind;
  const auto limit_of = [](const std::string& text) {
    return read(pool_with("") + "limits: {memory: " + text + "}\n").config.limits.memory;
  };

  EXPECT_EQ(read(pool_with("")).config.limits.memory, MemoryLimit{});
  EXPECT_EQ(limit_of("auto").kind, Kind::automatic);
  EXPECT_EQ(limit_of("off").kind, Kind::off);
  EXPECT_EQ(limit_of("64MiB"), (MemoryLimit{.kind = Kind::bytes, .bytes = 67108864}));
  EXPECT_EQ(limit_of("80%"), (MemoryLimit{.kind = Kind::share, .share = 0.8}));
}

TEST(ConfigReader, RejectsOtherMemoryLimits) {
  for (const std::string text : {"64", "64MB", "lots", "101%", "0%", "1MiB", "[1]"}) {
    EXPECT_THAT(problems_of(pool_with("") + "limits: {memory: " + text + "}\n"), SizeIs(1)) << text;
  }
}

TEST(ConfigReader, KeepAliveIsShorterThanTheEngines) {
  const auto idle_of = [](const std::string& engine) {
    return read(pool_with("    engine: " + engine + "\n")).config.pools.at(0).keep_alive.idle;
  };

  EXPECT_EQ(idle_of("vllm"), 4s);
  EXPECT_EQ(idle_of("generic"), 4s);
  EXPECT_EQ(idle_of("ray"), 60s);
}

TEST(ConfigReader, ReportsTheLineOfAMisspeltKey) {
  EXPECT_THAT(problems_of(pool_with("    timeouts:\n      conect: 5s\n")),
              ElementsAre("5:7 pools[0].timeouts.conect: unknown key; did you mean 'connect'?"));
}

TEST(ConfigReader, ReadsAMisspeltKeyAsTheSuggestedOne) {
  EXPECT_THAT(problems_of("pools: [{nmae: llama, backends: [127.0.0.1:1]}]\n"),
              ElementsAre("1:10 pools[0].nmae: unknown key; did you mean 'name'?"));
  EXPECT_THAT(
      problems_of(pool_with("    limit: {max_in_flight: many}\n")),
      ElementsAre("4:5 pools[0].limit: unknown key; did you mean 'limits'?",
                  "4:28 pools[0].limits.max_in_flight: expected a whole number, found 'many'"));
}

TEST(ConfigReader, ListsTheKnownKeysWhenNoneIsSimilar) {
  EXPECT_THAT(problems_of(with_pool("admin: {colour: red}\n")),
              ElementsAre("1:9 admin.colour: unknown key; known keys: address, token_file, "
                          "token_for, hosts, readyz, tls"));
}

TEST(ConfigReader, NamesThePlaceOfAKeyThatStandsInAnother) {
  const auto help_for = [](const std::string& text) {
    const auto problems = read(text).problems;
    return problems.empty() ? "" : problems.front().help;
  };
  EXPECT_EQ(help_for(pool_with("    max_in_flight: 8\n")), "did you mean 'limits.max_in_flight'?");
  EXPECT_EQ(help_for(pool_with("    queue: {size: 8}\n")), "did you mean 'limits.queue'?");
  EXPECT_EQ(help_for(pool_with("    interval: 2s\n")),
            "did you mean 'discover.interval' or 'health.interval' or 'metrics.interval'?");
  EXPECT_EQ(help_for(pool_with("    timeout: 2s\n")), "did you mean 'timeouts.first_byte'?");
  EXPECT_EQ(help_for(with_pool("limits: {body: 64MiB}\n")),
            "did you mean 'listeners[].limits.body'?");
  EXPECT_EQ(help_for(pool_with("    maxconn: 8\n")), "did you mean 'limits.max_in_flight'?")
      << "what HAProxy calls it";
  EXPECT_EQ(help_for(pool_with("    health: {max_in_flight: 8}\n")),
            "did you mean 'pools[].limits.max_in_flight'?");
  EXPECT_EQ(help_for(with_pool("max_in_flight: 8\n")),
            "did you mean 'pools[].limits.max_in_flight'?");
  EXPECT_EQ(help_for(with_pool("routes: [{model: llama, pool: llama}]\n")),
            "did you mean 'match.model'?");
  EXPECT_EQ(help_for(with_pool("routes: [{match: {split: {llama: 1}}, pool: llama}]\n")),
            "did you mean 'routes[].split'?");
}

TEST(ConfigReader, SuggestsNothingThatWouldBeWrongToo) {
  EXPECT_THAT(problems_of(pool_with("    health: {interval: 0}\n")),
              ElementsAre(HasSubstr("found the number 0; `check: off` turns the checks off")));
  EXPECT_THAT(problems_of(pool_with("    metrics: {interval: 0s}\n")),
              ElementsAre(HasSubstr("50ms to 1h; `scrape: off` turns the polling off")));
  EXPECT_THAT(problems_of(pool_with("    timeouts: {connect: 0}\n")),
              ElementsAre(Not(HasSubstr("did you mean"))));
  EXPECT_THAT(problems_of(pool_with("    affinity: {by: [x-session-id]}\n")),
              ElementsAre(HasSubstr("did you mean 'header:x-session-id'?")));
  EXPECT_THAT(problems_of(pool_with("    affinity: {by: [agent_session]}\n")),
              ElementsAre(HasSubstr("did you mean 'agent-session'?")));
  EXPECT_THAT(problems_of("model_list: [{model_name: a}]\n"),
              Contains(HasSubstr("model_list: unknown key; did you mean 'pools'?")));
}

TEST(ConfigReader, SuggestsAKeyForItsLongerName) {
  EXPECT_THAT(problems_of(pool_with("    timeouts: {connect_timeout: 5s}\n")),
              ElementsAre(HasSubstr("did you mean 'connect'?")));
  EXPECT_THAT(problems_of(with_pool("listeners: [{limits: {body_bytes: 1MiB}}]\n")),
              ElementsAre(HasSubstr("did you mean 'body'?")));
  EXPECT_THAT(problems_of(pool_with("    keepAlive: {idle: 1s}\n")),
              ElementsAre(HasSubstr("did you mean 'keep_alive'?")));
}

TEST(ConfigReader, RefusesADuplicateKey) {
  EXPECT_THAT(problems_of("workers: 1\nworkers: 2\n" + with_pool("")),
              ElementsAre("2:1 workers: duplicate key; the first is in line 1"));
  EXPECT_EQ(read("workers: 1\nworkers: 2\n" + with_pool("")).config.workers, 1u);
}

TEST(ConfigReader, ManyDuplicateKeysTakeTimeInProportion) {
  const auto fastest_of = [](int keys) {
    std::string text = with_pool("");
    for (int i = 0; i < 2 * keys; ++i) text += fmt::format("x{}: 1\n", i % keys);
    auto fastest = std::chrono::steady_clock::duration::max();
    for (int i = 0; i < 3; ++i) {
      const auto began = std::chrono::steady_clock::now();
      EXPECT_EQ(problems_of(text).size(), 101u);
      fastest = std::min(fastest, std::chrono::steady_clock::now() - began);
    }
    return fastest;
  };
  // Searching all keys for the first took 64 times as long.
  EXPECT_LT(fastest_of(24'000), 20 * fastest_of(3'000));
}

TEST(ConfigReader, ReportsAMissingKey) {
  EXPECT_THAT(problems_of("pools:\n  - backends: [127.0.0.1:1]\n"),
              ElementsAre("2:5 pools[0].name: missing key 'name'"));
  EXPECT_THAT(problems_of("workers: 1\n"), ElementsAre("1:1 pools: missing key 'pools'"));
}

TEST(ConfigReader, RequiresAUnitForADuration) {
  const auto problem = [](const std::string& value) {
    const auto problems = problems_of(with_pool("shutdown: {drain: " + value + "}\n"));
    return problems.empty() ? "" : problems.front();
  };

  EXPECT_EQ(problem("30"),
            "1:19 shutdown.drain: expected a duration such as 30s or 500ms, found "
            "the number 30; did you mean '30s'?");
  EXPECT_THAT(problem("30 s"), HasSubstr("found '30 s'; did you mean '30s'?"));
  EXPECT_THAT(problem("5min"), HasSubstr("did you mean '5m'?"));
  EXPECT_THAT(problem("2 hours"), HasSubstr("did you mean '2h'?"));
  EXPECT_THAT(problem("100MS"), HasSubstr("did you mean '100ms'?"));
  EXPECT_THAT(problem("64KiB"), HasSubstr("found '64KiB'"));
  EXPECT_THAT(problem("soon"), HasSubstr("found 'soon'"));
  EXPECT_THAT(problem("-5s"), HasSubstr("found '-5s'"));
  EXPECT_THAT(problem("1.2.3s"), HasSubstr("expected a duration"));
  EXPECT_THAT(problem("25h"), HasSubstr("25h is out of range, expected 0s to 24h"));
  EXPECT_THAT(problem("99999999999999999999999h"), HasSubstr("out of range"));
  EXPECT_THAT(problem("[1s]"), HasSubstr("found a list"));
  EXPECT_THAT(problem("\"\""), HasSubstr("expected a duration"));
  EXPECT_EQ(problem("1.5m"), "");
  EXPECT_EQ(problem("\"30s\""), "");
  EXPECT_THAT(
      problems_of(pool_with("    picker: {name: expected-time, slo: {ttft: 2000, tpot: 50}}\n"
                            "    metrics: {interval: 250}\n")),
      ElementsAre(HasSubstr("slo.ttft: expected a duration such as 30s or 500ms, found the "
                            "number 2000; did you mean '2000ms'?"),
                  HasSubstr("found the number 50; did you mean '50ms'?"),
                  HasSubstr("found the number 250; did you mean '250ms'?")));
}

TEST(ConfigReader, RequiresAUnitForASize) {
  const auto problem = [](const std::string& value) {
    const auto problems =
        problems_of(with_pool("listeners: [{limits: {header: " + value + "}}]\n"));
    return problems.empty() ? "" : problems.front();
  };

  EXPECT_THAT(problem("32768"), HasSubstr("found the number 32768; did you mean '32768B'?"));
  EXPECT_THAT(problem("32k"), HasSubstr("did you mean '32KiB'?"));
  EXPECT_THAT(problem("1MB"), HasSubstr("did you mean '1MiB'?"));
  EXPECT_THAT(problem("10B"), HasSubstr("10B is out of range, expected 1KiB to 64KiB"));
  EXPECT_EQ(problem("64KiB"), "");
}

TEST(ConfigReader, DistinguishesTextFromNumbersAndFlags) {
  EXPECT_THAT(problems_of(pool_with("    models: [70]\n")),
              ElementsAre("4:14 pools[0].models[0]: expected the name of a model, found the number "
                          "70; a text that looks like this needs quotes"));
  EXPECT_THAT(problems_of(pool_with("    models: [\"70\"]\n")), IsEmpty());
  EXPECT_THAT(
      problems_of(with_pool("workers: \"3\"\n")),
      ElementsAre(HasSubstr("expected a whole number, found the text '3'; remove the quotes")));
  EXPECT_THAT(problems_of(with_pool("workers: 2.5\n")),
              ElementsAre(HasSubstr("expected a whole number, found the number 2.5")));
  EXPECT_THAT(problems_of(pool_with("    debug_headers: yes\n")),
              ElementsAre(HasSubstr("expected true or false, found 'yes'; did you mean 'true'?")));
  EXPECT_THAT(problems_of(with_pool("access_log:\n")),
              ElementsAre("1:1 access_log: expected a mapping of path, format, fields, sample, "
                          "slow, found nothing"));
}

TEST(ConfigReader, RequiresAListWhereOneIsExpected) {
  EXPECT_THAT(problems_of("pools: [{name: a, backends: 127.0.0.1:1}]\n"),
              ElementsAre(HasSubstr("expected a list of backends, found '127.0.0.1:1'; a list is "
                                    "written [a, b]")));
  EXPECT_THAT(problems_of("pools: {name: a, backends: [127.0.0.1:1]}\n"),
              ElementsAre("1:8 pools: expected a list of pools, found a mapping; write '- ' before "
                          "'name', or [ ] around the mapping"));
  EXPECT_THAT(problems_of("pools:\n  chat:\n    backends: [127.0.0.1:1]\n"),
              ElementsAre("2:3 pools: expected a list of pools, found a mapping; each begins with "
                          "its name: '- name: chat'"));
  EXPECT_THAT(problems_of("pools: [{name: a, backends: {address: 127.0.0.1:1}}]\n"),
              ElementsAre(HasSubstr("write '- ' before 'address', or [ ] around the mapping")));
  EXPECT_THAT(problems_of("pools: [{name: a, backends: {gpu1: 127.0.0.1:1}}]\n"),
              ElementsAre(HasSubstr("found a mapping; a list is written [a, b]")));
  EXPECT_THAT(problems_of("pools: []\n"),
              ElementsAre("1:8 pools: is empty, at least one is needed"));
}

TEST(ConfigReader, FindsTheKeyOfAColonWithoutSpace) {
  EXPECT_THAT(problems_of("pools:\n- name: a\n  picker: weighted\n  backends:[127.0.0.1:1]\n"),
              ElementsAre("4:3 pools[0].backends: unknown key; did you mean 'backends: "
                          "[127.0.0.1:1]'? a ':' needs a space behind it"));
  EXPECT_THAT(problems_of("pools:\n- {name:a, backends: [127.0.0.1:1]}\n"),
              ElementsAre(HasSubstr("pools[0].name: unknown key; did you mean 'name: a'?")));
  EXPECT_THAT(problems_of("pools:\n- name:a\n"),
              ElementsAre(HasSubstr("found 'name:a'; did you mean 'name: a'?")));
}

TEST(ConfigReader, ReadsWhatIsComparedWithExpectedTime) {
  const auto plain = read(pool_with("    picker: expected-time\n"));
  EXPECT_EQ(plain.config.pools.at(0).picker, PickerConfig{{.name = "expected-time"}});

  const auto compared =
      read(pool_with("    picker:\n"
                     "      name: expected-time\n"
                     "      shadow_picker: {name: gpu, memory_guard: 0.9}\n"
                     "      explain_one_in: 1\n"));
  EXPECT_THAT(lines_of(compared.problems), IsEmpty());
  const PickerConfig& picker = compared.config.pools.at(0).picker;
  EXPECT_EQ(picker.shadow_picker, (PickerChoice{.name = "gpu", .memory_guard = 0.9}));
  EXPECT_EQ(picker.explain_one_in, 1u);
}

TEST(ConfigReader, TellsTheNewPlaceOfAKeyThatHasMoved) {
  EXPECT_THAT(problems_of(pool_with("    hash: {header: x-user, load_factor: 2}\n"
                                    "    gpu: {memory_guard: 0.9}\n"
                                    "    slo: {ttft: 2s}\n"
                                    "    expected_time: {shed: 1, index_memory: 1GiB}\n"
                                    "    shadow_picker: gpu\n"
                                    "    weights: observed\n"
                                    "    spares: {dwell: 1s}\n")),
              ElementsAre("4:12 pools[0].hash.header: is now 'pools[0].picker.header'",
                          "4:28 pools[0].hash.load_factor: is now 'pools[0].picker.load_factor'",
                          "5:11 pools[0].gpu.memory_guard: is now 'pools[0].picker.memory_guard'",
                          "6:5 pools[0].slo: is now 'pools[0].picker.slo'",
                          "7:21 pools[0].expected_time.shed: is now 'pools[0].picker.shed'",
                          "7:30 pools[0].expected_time.index_memory: is now "
                          "'pools[0].picker.index_memory'",
                          "8:5 pools[0].shadow_picker: is now 'pools[0].picker.shadow_picker'",
                          "9:5 pools[0].weights: is now 'pools[0].picker.weights'",
                          "10:5 pools[0].spares: is now 'pools[0].standby'"));
}

TEST(ConfigReader, ListsTheValuesOfAnEnum) {
  EXPECT_THAT(
      problems_of(pool_with("    picker: fastest\n")),
      ElementsAre(fmt::format("4:13 pools[0].picker: unknown picker 'fastest', available: {}",
                              fmt::join(picker_names(), ", "))));
  EXPECT_THAT(problems_of(pool_with("    engine: vlm\n")),
              ElementsAre(HasSubstr("did you mean 'vllm'?")));
}

TEST(ConfigReader, ReportsTheRangeOfANumber) {
  EXPECT_THAT(problems_of("pools: [{name: a, backends: [{address: 127.0.0.1:1, weight: 0}]}]\n"),
              ElementsAre(HasSubstr("weight: 0 is out of range, expected 1 to 1000")));
  EXPECT_THAT(problems_of(with_pool("version: 2\n")),
              ElementsAre("1:10 version: 2 is out of range, expected 1"));
  EXPECT_THAT(problems_of(with_pool("workers: 99999999999999999999\n")),
              ElementsAre(HasSubstr("out of range, expected 1 to 1024")));
  EXPECT_THAT(problems_of(pool_with("    picker: {name: consistent-hash, load_factor: .nan}\n")),
              ElementsAre(HasSubstr("expected a number")));
}

TEST(ConfigReader, ExplainsAnInvalidAddress) {
  const auto problem = [](const std::string& address) {
    const auto problems = problems_of("pools: [{name: a, backends: [" + address + "]}]\n");
    return problems.empty() ? "" : problems.front();
  };

  EXPECT_THAT(problem("gpu1"),
              HasSubstr("the port is missing; add the port, such as in 'gpu1:8000'"));
  EXPECT_THAT(problem("8000"), HasSubstr("did you mean '127.0.0.1:8000'?"));
  EXPECT_THAT(problem("gpu1:0"), HasSubstr("cannot have port 0"));
  EXPECT_THAT(problem("gpu1:65536"), HasSubstr("not a port"));
  EXPECT_THAT(problem("300.1.1.1:80"), HasSubstr("not an IPv4 address"));
  EXPECT_THAT(problem("ftp://gpu1:443"), HasSubstr("only http and https are"));
  EXPECT_THAT(problem("http://gpu1:80/v1"),
              HasSubstr("it has a path; requests keep their own; did you mean 'http://gpu1:80'?"));
  EXPECT_THAT(problems_of(with_pool("listeners: [{address: http://0.0.0.0:80}]\n")),
              ElementsAre(HasSubstr("it has no scheme; did you mean '0.0.0.0:80'?")));
  EXPECT_THAT(problem("gpu 1:80"), HasSubstr("not a host name"));
  EXPECT_THAT(problem("[::1]:80"), HasSubstr("needs quotes"));
  EXPECT_THAT(problem("\"::1:80\""), HasSubstr("needs brackets"));
  EXPECT_EQ(problem("\"[::1]:80\""), "");
  EXPECT_EQ(problem("http://gpu1/"), "");
}

TEST(ConfigReader, ReadsTlsSettings) {
  const auto loaded = read(R"(
listeners:
  - name: public
    proxy_protocol: [10.0.0.0/8]
    timeouts: {handshake: 3s}
    tls:
      certificates: [{cert: a.pem, key: a.key}, {cert: b.pem, key: b.key}]
      client_ca: ca.pem
      client_auth: request
      min_version: "1.3"
pools:
  - name: a
    backends: [https://gpu1, "https://gpu2:8443", {address: "https://[::1]:8443", weight: 2}]
    tls: {verify: false, ca: own.pem, server_name: gpu.test, cert: c.pem, key: c.key}
)");
  ASSERT_TRUE(loaded.ok()) << render_problems(loaded.problems, loaded.text);
  const ListenerConfig& listener = loaded.config.listeners[0];
  ASSERT_TRUE(listener.tls);
  EXPECT_EQ(*listener.tls,
            (ListenerTlsConfig{.certificates = {{"a.pem", "a.key"}, {"b.pem", "b.key"}},
                               .client_ca = "ca.pem",
                               .client_auth = ClientAuth::request,
                               .min_version = TlsVersion::tls1_3}));
  EXPECT_EQ(listener.timeouts.handshake, 3s);
  EXPECT_EQ(listener.proxy_protocol.size(), 1u);
  const PoolConfig& pool = loaded.config.pools[0];
  EXPECT_EQ(pool.backends[0].address, (Address{"gpu1", 443, true}));
  EXPECT_EQ(pool.backends[2].address, (Address{"::1", 8443, true}));
  EXPECT_EQ(pool.tls, (PoolTlsConfig{false, "own.pem", "gpu.test", "c.pem", "c.key"}));

  const auto again = read(print_config(loaded.config, false));
  EXPECT_EQ(again.config, loaded.config) << again.text;
  EXPECT_TRUE(read("pools: [{name: a, backends: [h:1], tls: {}}]\n").config.pools[0].tls);
  EXPECT_FALSE(read("pools: [{name: a, backends: [h:1]}]\n").config.pools[0].tls);
}

TEST(ConfigReader, ReportsIncompleteTlsSettings) {
  const auto problem = [](const std::string& tls) {
    const auto problems = problems_of(with_pool("listeners: [{tls: " + tls + "}]\n"));
    return problems.empty() ? "" : problems.front();
  };
  EXPECT_THAT(problem("{}"), HasSubstr("certificates"));
  EXPECT_THAT(problem("{certificates: []}"), HasSubstr("at least one is needed"));
  EXPECT_THAT(problem("{certificates: [{cert: a.pem}]}"), HasSubstr("key"));
  EXPECT_THAT(problem("{certificates: [{cert: a, key: b}], client_auth: request}"),
              HasSubstr("has no effect without 'client_ca'"));
  EXPECT_THAT(problem("{certificates: [{cert: a, key: b}], min_version: '1.1'}"), HasSubstr("1.2"));
  EXPECT_EQ(problem("{certificates: [{cert: a, key: b}], min_version: 1.2}"), "");
  EXPECT_THAT(problems_of("pools: [{name: a, backends: [h:1], tls: {cert: a.pem}}]\n"),
              ElementsAre(HasSubstr("'cert' needs 'key'")));
}

TEST(ConfigReader, ExplainsAnInvalidPattern) {
  const auto problem = [](const std::string& match) {
    const auto problems =
        problems_of(with_pool("routes: [{match: {" + match + "}, pool: llama}]\n"));
    return problems.empty() ? "" : problems.front();
  };

  EXPECT_THAT(problem("path: v1/**"), HasSubstr("it starts with '/'; did you mean '/v1/**'?"));
  EXPECT_THAT(problem("path: ^/v1"), HasSubstr("'^/v1' is not a path, which starts with '/' and "
                                               "is no regular expression; did you mean '/v1/**'?"));
  EXPECT_THAT(problem("path: \"~ ^/v1/(a|b)\""), HasSubstr("no regular expression; write /v1/*"));
  EXPECT_THAT(problem("path: \"= /v1\""), HasSubstr("did you mean '/v1'?"));
  EXPECT_THAT(problem("path: https://h/v1"), HasSubstr("write the path alone"));
  EXPECT_THAT(problem("path: /v1/**/x"), HasSubstr("'**' can only be the last segment"));
  EXPECT_THAT(problem("path: /v1*"), HasSubstr("'*' matches a whole segment only"));
  EXPECT_THAT(problem("path: /50%/x"), HasSubstr("'%' begins no encoding such as %20"));
  EXPECT_THAT(problem("path: /50%00/x"), HasSubstr("an encoded zero byte"));
  EXPECT_THAT(problem("path: /../v1"), HasSubstr("climbs above its root"));
  EXPECT_THAT(problem("path: \"/v1?x=1\""), HasSubstr("not the query"));
  EXPECT_THAT(problem("host: \"a:80\""), HasSubstr("without scheme and port"));
  EXPECT_THAT(problem("method: get"), HasSubstr("did you mean 'GET'?"));
  EXPECT_THAT(problem("header: {\"a b\": c}"), HasSubstr("not the name of a header field"));
  EXPECT_EQ(problem("host: \"*.example.com\", path: /a/*/b/**, method: GET"), "");
}

TEST(ConfigReader, ReadsPathsInTheirNormalForm) {
  const auto path = [](const std::string& pattern) {
    const auto result =
        read(with_pool("routes: [{match: {path: \"" + pattern + "\"}, pool: llama}]\n"));
    return result.problems.empty() ? result.config.routes[0].match.path : "";
  };
  EXPECT_EQ(path("/%7Eteam/**"), "/~team/**");
  EXPECT_EQ(path("/v1/%6dodels"), "/v1/models");
  EXPECT_EQ(path("/v1//models"), "/v1/models");
  EXPECT_EQ(path("/a%2fb/*"), "/a%2Fb/*");
  EXPECT_EQ(path("/a%2Fb"), "/a%2Fb");
  EXPECT_EQ(path("/%2561"), "/%2561");  // decoded once, not twice
  EXPECT_EQ(path("/x/./../v1/**"), "/v1/**");
  EXPECT_EQ(path("/x/%2E%2e/v1/"), "/v1/");
}

TEST(ConfigReader, ReadsGrpcServicesAndMethods) {
  const auto result =
      read(with_pool("routes:\n"
                     "  - {match: {grpc: a.b.Service/Method_2}, pool: llama}\n"
                     "  - {match: {host: x, grpc: [a.b.Service, Plain]}, pool: llama}\n"));
  ASSERT_THAT(lines_of(result.problems), IsEmpty());
  EXPECT_EQ(result.config.routes[0].match.grpc, (std::vector<std::string>{"a.b.Service/Method_2"}));
  EXPECT_EQ(result.config.routes[0].name, "/a.b.Service/Method_2");
  EXPECT_EQ(result.config.routes[1].name, "x/a.b.Service/*,/Plain/*");

  const auto problem = [](const std::string& name) {
    const auto problems =
        problems_of(with_pool("routes: [{match: {grpc: \"" + name + "\"}, pool: llama}]\n"));
    return problems.empty() ? "" : problems.front();
  };
  EXPECT_THAT(problem("/a.B/C"), HasSubstr("is a path, not the name of a gRPC service; did you "
                                           "mean 'a.B/C'?"));
  EXPECT_THAT(problem("a.B/*"), HasSubstr("it is the whole service; did you mean 'a.B'?"));
  for (const std::string name :
       {"", "a..B", ".a", "a.", "a.B/", "a.B/C/D", "a b", "1a", "a.B/C.D"}) {
    EXPECT_THAT(problem(name), HasSubstr("is not the name of a gRPC service, nor of a method; "
                                         "write package.Service, or package.Service/Method"))
        << name;
  }
}

TEST(ConfigReader, RefusesAMatchOfNothing) {
  for (const std::string key : {"method", "grpc", "model", "task"}) {
    EXPECT_THAT(problems_of(with_pool("routes: [{match: {" + key + ": []}, pool: llama}]\n")),
                ElementsAre(HasSubstr("1:" + std::to_string(21 + key.size()) + " routes[0].match." +
                                      key + ": is empty, at least one is needed")));
  }
}

TEST(ConfigReader, SubstitutesEnvironmentVariables) {
  TestEnvironment held;
  held.variables = {{"HOST", "gpu7"}, {"COUNT", "12"}, {"EMPTY", ""}};

  const auto result = held.read(R"(
workers: ${COUNT}
pools:
  - name: a
    models: ["cost $$5", "a$b", "${EMPTY:-full}", "${NONE:-}x"]
    backends: ["${HOST}:${PORT:-8000}"]
)");

  ASSERT_THAT(lines_of(result.problems), IsEmpty());
  EXPECT_EQ(result.config.workers, 12u);
  EXPECT_EQ(result.config.pools[0].backends[0].address, (Address{"gpu7", 8000}));
  EXPECT_THAT(result.config.pools[0].models, ElementsAre("cost $5", "a$b", "full", "x"));
}

TEST(ConfigReader, ReportsAnUnsetVariable) {
  EXPECT_THAT(problems_of(with_pool("access_log: {path: \"${LOGS}\"}\n")),
              ElementsAre("1:20 access_log.path: the environment variable LOGS is not set; set it, "
                          "or give a default: ${LOGS:-value}"));
  EXPECT_THAT(problems_of(with_pool("access_log: {path: \"${LOGS\"}\n")),
              ElementsAre(HasSubstr("'${' without '}'")));
  EXPECT_THAT(problems_of(with_pool("access_log: {path: \"${A B}\"}\n")),
              ElementsAre(HasSubstr("'A B' is not the name of an environment variable")));
}

TEST(ConfigReader, CountsColumnsInCharacters) {
  EXPECT_THAT(problems_of(with_pool("access_log: {path: \"/tmp/\u00e9\u00e9\", frmat: json}\n")),
              ElementsAre(StartsWith("1:31 access_log.frmat: unknown key")));
}

TEST(ConfigReader, ReadsAFileWithAByteOrderMarkAndWindowsLineEnds) {
  EXPECT_THAT(problems_of("\xef\xbb\xbfworkers: 2\r\npools:\r\n- name: a\r\n  backends:\r\n"
                          "  - 127.0.0.1:1\r\n"),
              IsEmpty());
}

TEST(ConfigReader, HashesTheFilesText) {
  const std::string text = with_pool("");

  EXPECT_EQ(read(text).hash.size(), 16u);
  EXPECT_EQ(read(text).hash, read(text).hash);
  EXPECT_NE(read(text).hash, read(text + "# a comment\n").hash);
}

TEST(ConfigReader, MessagesShowNoValueFromTheEnvironment) {
  const TestEnvironment secret{.variables = {{"S", "hunter2secret"},
                                             {"URL", "http://hidden-host:8000"},
                                             {"UPPER", "HIDDEN-NAME.Example"},
                                             {"N", "987654321"},
                                             {"LONG", std::string(300, 'q')}},
                               .unknown_hosts = {"hidden-host"}};
  const char* const wrong[] = {
      "workers: ${S}\n",
      "workers: ${N}\n",
      "busy_polling: ${S}\n",
      "state_file: {a: b}\nworkers: '${S}0'\n",
      "shutdown: {drain: '${S}s'}\n",
      "shutdown: {drain: '${N}h'}\n",
      "shutdown: {drain: '${N}'}\n",
      "limits: {memory: '${S}'}\n",
      "limits: {memory: '${N}'}\n",
      "limits: {held_bodies: '${N}TiB'}\n",
      "admin: {address: '${S}'}\n",
      "admin: {address: '${UPPER}:x'}\n",
      "admin: {readyz: '${S}'}\n",
      "dns: {servers: ['${S}']}\n",
      "listeners: [{name: '${S} ', trusted_proxies: ['${S}']}]\n",
      "listeners: [{name: '${S}', address: '127.0.0.1:1'}, {name: '${S}', address: "
      "'127.0.0.1:2'}]\n",
      "tenants: [{name: '${S}'}, {name: '${LONG}'}]\n",
      "routes: [{match: {host: '${UPPER}/x'}, pool: llama}]\n",
      "routes: [{match: {host: '${UPPER}'}, pool: llama}, {match: {host: '${UPPER}'}, pool: "
      "llama}]\n",
      "routes: [{match: {path: '${S}'}, pool: llama}]\n",
      "routes: [{match: {method: ['${S} ']}, pool: '${S}'}]\n",
      "routes: [{match: {task: ['${S}'], grpc: ['/${S}/']}, pool: llama}]\n",
      "retry: 1\nroutes: [{retry: {backoff: '${S}'}, pool: llama}]\n",
  };
  const auto check = [&](const std::string& text) {
    const LoadResult result = secret.read(text);
    auto lines = lines_of(result.problems);
    for (const std::string& warning : lines_of(result.warnings)) lines.push_back(warning);
    EXPECT_THAT(lines, Not(IsEmpty())) << text;
    for (const std::string& line : lines) {
      EXPECT_THAT(
          line, Not(AnyOf(HasSubstr("hunter2"), HasSubstr("hidden-host"), HasSubstr("HIDDEN-NAME"),
                          HasSubstr("hidden-name"), HasSubstr("987654321"), HasSubstr("qqqq"))))
          << text;
    }
  };

  for (const char* text : wrong) check(with_pool(text));
  check("pools: [{name: llama, backends: ['${URL}', '${URL}']}]\n");
  check("pools: [{name: llama, backends: ['${URL}']}]\nroutes: [{pool: x}]\n");
  check("pools: [{name: '${S}', picker: '${S}', engine: '${S}', backends: ['${URL}/p']}]\n");
  check("pools: [{name: '${S}', metrics: {gpu: '${S}'}, fallback: '${S}', backends: ['a:1']}]\n");
}

TEST(ConfigReader, MessagesShowNoKeyThatIsWrittenInPlaceOfAFile) {
  Environment environment = TestEnvironment{}.environment();
  environment.file_error = [](FileUse, const std::string&) -> std::optional<std::string> {
    return "cannot be read: No such file or directory";
  };
  const char* const backends[] = {
      "{address: 'h:1', api_key: sk-hunter2}",
      "{address: 'h:1', api_key_file: sk-hunter2}",
      "{address: 'h:1', apikey: [sk-hunter2]}",
      "{address: 'h:1', api_key_file:sk-hunter2}",
      "{address: 'h:1', authorization: sk-hunter2}",
      "{adress: 'h:1', api_key: sk-hunter2}",
      "{address: 'h:1', api_key_file: [sk-hunter2]}",
      "{address: 'h:1', api_key_file: {k: sk-hunter2}}",
      "{address: 'h:1', api_key_file: sk-hunter2: x}",
      "{address: 'h:1', api_key_file: @sk-hunter2}",
      "{address: 'h:1', api_key_file: [sk-hunter2}",
      "{address: 'h:1', api_key_file: \"sk-hunter2}",
      "{address: 'http://u:sk-hunter2@h:1'}",
      "{address: 'sk-hunter2@h:1'}",
      "{address: 'http://h:1/?key=sk-hunter2'}",
  };
  const auto check = [&](const std::string& text) {
    const LoadResult loaded = read_config(text, "test.yaml", environment);
    ASSERT_THAT(loaded.problems, Not(IsEmpty())) << text;
    EXPECT_THAT(render_problems(loaded.problems, loaded.text), Not(HasSubstr("hunter2"))) << text;
    for (const std::string& line : lines_of(loaded.problems))
      EXPECT_THAT(line, Not(HasSubstr("hunter2")));
  };
  for (const std::string backend : backends)
    check("pools:\n  - {name: a, backends: [" + backend + "]}\n");
  check("pools: [{name: a, api_key: sk-hunter2, backends: ['h:1']}]\n");
  check("pools: [{name: a, metrics: 'http://h:1/m?key=sk-hunter2', backends: ['h:1']}]\n");
  check(with_pool("admin: {token_file: sk-hunter2}\n"));
  check(with_pool("admin: {token: sk-hunter2}\n"));
  check(with_pool("tenants: [{name: t, keys: [sk-hunter2]}]\n"));
  check(with_pool("tenants: [{name: t, keys_sha256: [sk-hunter2]}]\n"));

  const LoadResult path =
      read_config(with_pool("admin: {token_file: ./token}\n"), "test.yaml", environment);
  EXPECT_THAT(lines_of(path.problems), Contains(HasSubstr("'./token' cannot be read")));
}

TEST(ConfigReader, ValuesOfVariablesAreHiddenInEachOfTheirForms) {
  const TestEnvironment secret{.variables = {{"N", "00017"}, {"T", "119000ms"}, {"R", "0.130"}},
                               .unknown_hosts = {}};

  const LoadResult loaded =
      secret.read(with_pool("workers: ${N}\nshutdown: {drain: '${T}'}\n"
                            "tenants: [{name: t, weight: '${R}'}]\nlimits: {memory: '${N}GiB'}\n"));

  EXPECT_EQ(loaded.variables.hide("workers: auto -> 17"), "workers: auto -> ${N}");
  EXPECT_EQ(loaded.variables.hide("drain: 60s -> 119s"), "drain: 60s -> ${T}");
  EXPECT_EQ(loaded.variables.hide("weight: 1 -> 0.13"), "weight: 1 -> ${R}");
  EXPECT_EQ(loaded.variables.hide("memory: auto -> 17GiB"), "memory: auto -> ${N}GiB");
}

TEST(ConfigReader, MessagesNameTheVariableInPlaceOfItsValue) {
  const TestEnvironment secret{.variables = {{"S", "hunter2"}, {"P", "80"}}, .unknown_hosts = {}};

  EXPECT_THAT(lines_of(secret.read(with_pool("workers: ${S}\n")).problems),
              ElementsAre(HasSubstr("workers: expected auto or a whole number, found the value of "
                                    "'${S}'")));
  EXPECT_THAT(
      lines_of(secret.read("pools: [{name: a, backends: ['h:${P}', 'h:${P}']}]\n").problems),
      ElementsAre(AllOf(HasSubstr("h:${P}"), Not(HasSubstr("h:80")))));
}

}  // namespace
}  // namespace evenkeel
