#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/test_environment.h"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

const std::string fifteen_mistakes = R"(version: 1
listeners:
  - name: public
    address: 0.0.0.0:8080
    timeouts: {header: 10}
  - name: second
    address: 127.0.0.1:8080
wrokers: 2
pools:
  - name: llama
    engine: vlm
    picker: least-connections
    backends:
      - {address: 127.0.0.1:8000, weight: 2}
      - {address: nosuch.internal:8000}
      - {address: 127.0.0.1:8000}
    limits: {max_in_flight: -1, queue: {sise: 10}}
    debug_headers: true
    debug_headers: false
  - name: unused
    backends: [http://127.0.0.1:9000]
    timeouts: &slow {first_byte: 30s}
    keep_alive: *slow
routes:
  - match: {path: /v1/models}
    pool: lama
  - match: {path: /v1/**}
    pool: elsewhere
access_log: {path: "${LOG_FILE}"}
shutdown: {drain: 90 minutes}
)";

TEST(Check, ReportsFifteenMistakesInFifteenLinesTwoOfThemAsWarnings) {
  TestEnvironment held;
  held.unknown_hosts = {"nosuch.internal"};

  const auto read = held.read(fifteen_mistakes);
  const auto problems = lines_of(read.problems);

  EXPECT_EQ(problems.size(), 13u);
  EXPECT_THAT(
      lines_of(read.warnings),
      ElementsAre(
          StartsWith("15:19 pools[0].backends[1].address: the host name 'nosuch.internal' has no "
                     "address: no such host"),
          "20:11 pools[1].name: no route leads to the pool 'unused'; add a route to it, or remove "
          "it"));
  EXPECT_THAT(
      problems,
      ElementsAre(
          "5:24 listeners[0].timeouts.header: expected a duration such as 30s or 500ms, found the "
          "number 10; did you mean '10s'?",
          "7:14 listeners[1].address: port 8080 is taken by listener 'public' on 0.0.0.0:8080; "
          "give "
          "one of them another port",
          "8:1 wrokers: unknown key; did you mean 'workers'?",
          StartsWith("11:13 pools[0].engine: unknown engine 'vlm', available: "),
          "16:19 pools[0].backends[2].address: duplicate backend '127.0.0.1:8000', the first is in "
          "line 14",
          "17:29 pools[0].limits.max_in_flight: -1 is out of range, expected 0 to 1000000",
          "17:41 pools[0].limits.queue.sise: unknown key; did you mean 'size'?",
          "19:5 pools[0].debug_headers: duplicate key; the first is in line 18",
          "23:17 pools[1].keep_alive: aliases are not supported; write the value out",
          "26:11 routes[0].pool: there is no pool 'lama'; did you mean 'llama'?",
          "28:11 routes[1].pool: there is no pool 'elsewhere'; the pools are llama, unused",
          StartsWith("29:20 access_log.path: the environment variable LOG_FILE is not set"),
          "30:19 shutdown.drain: expected a duration such as 30s or 500ms, found '90 minutes'; did "
          "you mean '90m'?"));
}

TEST(Check, PrintsMessageSourceLineAndCaret) {
  const std::string text =
      "workers: 2\nadmin:\n\n  adress: 127.0.0.1:1\npools: [{name: a, backends: [h:1]}]\n";
  const auto result = read_config(text, "/etc/evenkeel.yaml", TestEnvironment{}.environment());

  EXPECT_EQ(render_problems(result.problems, result.text),
            "/etc/evenkeel.yaml:4:3: error: admin.adress: unknown key; did you mean 'address'?\n"
            "    adress: 127.0.0.1:1\n"
            "    ^\n");
}

TEST(Check, PutsTheCaretUnderTheCharacter) {
  const std::string text =
      "access_log: {path: /\u00e9\t, formt: json}\npools: [{name: a, backends: [h:1]}]\n";
  const auto result = read(text);

  EXPECT_EQ(render_problems(result.problems, result.text),
            "test.yaml:1:25: error: access_log.formt: unknown key; did you mean 'format'?\n"
            "  access_log: {path: /\u00e9\t, formt: json}\n"
            "                       \t  ^\n");
}

TEST(Check, ExcerptsLongLines) {
  const std::string text = "workers: 1 " + std::string(500, '#') + "\nadmin: {adress: h:1} # " +
                           std::string(500, '#') + "\npools: [{name: a, models: [" +
                           std::string(300, 'm') + "], nam: b, backends: [h:1]}]\n";
  const auto result = read(text);

  const std::string rendered = render_problems(result.problems, result.text);

  EXPECT_THAT(rendered, HasSubstr("\n  admin: {adress: h:1} # ###"));
  EXPECT_THAT(rendered,
              HasSubstr("mmm], nam: b, backends: [h:1]}]\n  " + std::string(100, ' ') + "^\n"));
}

TEST(Check, JsonReportsTheSame) {
  const auto result = read("workers: \"a\\\"b\"\npools: [{name: a, backends: [h:1]}]\n");

  EXPECT_EQ(problems_json(result.problems),
            "[\n"
            "  {\n"
            "    \"file\": \"test.yaml\",\n"
            "    \"line\": 1,\n"
            "    \"column\": 10,\n"
            "    \"path\": \"workers\",\n"
            "    \"message\": \"expected auto or a whole number, found the text 'a\\\"b'\",\n"
            "    \"help\": \"\",\n"
            "    \"severity\": \"error\"\n"
            "  }\n"
            "]\n");
  EXPECT_EQ(problems_json({}), "[]\n");
}

TEST(Check, TruncatesLongReports) {
  std::vector<Problem> problems(1000, Problem{"f", 1, 1, "p", "m", ""});

  EXPECT_THAT(render_problems(problems, ""), HasSubstr("... and 798 more\n"));
}

TEST(Check, ReportsProblemsOfTheFileOfKeysAtTheirLine) {
  TestEnvironment held;
  Environment environment = held.environment();
  environment.key_file_problems = [](const std::string& path, const std::vector<TenantConfig>&) {
    EXPECT_EQ(path, "keys.txt");
    return std::vector<FileProblem>{{2, 5, "it is wrong", "do it right"}, {0, 0, "is large", ""}};
  };
  const auto loaded = read_config(R"(pools: [{name: a, backends: [h:1]}]
auth: {keys: {file: keys.txt}}
tenants: [{name: acme}]
)",
                                  "test.yaml", environment);

  EXPECT_EQ(render_problems(loaded.problems, loaded.text),
            "test.yaml:2:21: error: auth.keys.file: 'keys.txt' is large\n"
            "  auth: {keys: {file: keys.txt}}\n"
            "                      ^\n"
            "keys.txt:2:5: error: auth.keys.file: it is wrong; do it right\n");
}

TEST(Check, ReportsCertificateProblemsAtTheirKey) {
  TestEnvironment held;
  Environment environment = held.environment();
  environment.listener_tls_problems = [](const ListenerTlsConfig& tls) {
    EXPECT_EQ(tls.certificates.size(), 2u);
    return std::vector<TlsProblem>{
        {"certificates[0].cert", "it expired", "renew it", true},
        {"certificates[1].key", "it does not belong to 'b.pem'", "give the right one"}};
  };
  environment.pool_tls_problems = [](const PoolTlsConfig& tls) {
    return std::vector<TlsProblem>{{"ca", "cannot read '" + tls.ca + "'", {}}};
  };
  const auto loaded = read_config(R"(listeners:
  - tls:
      certificates:
        - {cert: a.pem, key: a.key}
        - {cert: b.pem, key: b.key}
pools:
  - name: a
    backends: [https://h]
    tls: {ca: none.pem}
)",
                                  "test.yaml", environment);
  EXPECT_THAT(lines_of(loaded.problems),
              ElementsAre("5:30 listeners[0].tls.certificates[1].key: it does not belong to "
                          "'b.pem'; give the right one",
                          "9:15 pools[0].tls.ca: cannot read 'none.pem'"));
  EXPECT_THAT(lines_of(loaded.warnings),
              ElementsAre("4:18 listeners[0].tls.certificates[0].cert: it expired; renew it"));
  EXPECT_THAT(render_problems(loaded.warnings, loaded.text),
              StartsWith("test.yaml:4:18: warning: listeners[0].tls"));
}

TEST(Check, ReportsFilesThatCannotBeUsedAtTheirKey) {
  Environment environment = TestEnvironment{}.environment();
  environment.file_error = [](FileUse use, const std::string& path) -> std::optional<std::string> {
    if (path == "good") return std::nullopt;
    return use == FileUse::api_key ? "is a bad key" : "cannot be used";
  };
  const auto loaded = read_config(R"(access_log: {path: /nowhere/log}
admin: {token_file: token}
pools:
  - name: a
    backends:
      - {address: h:1, api_key_file: good}
      - {address: h:2, api_key_file: bad}
routes:
  - pool: a
    error_pages: [{status: 503, file: good}, {status: 504, file: none.html}]
)",
                                  "test.yaml", environment);
  EXPECT_THAT(
      lines_of(loaded.problems),
      ElementsAre(StartsWith("1:20 access_log.path: '/nowhere/log' cannot be used"),
                  StartsWith("2:21 admin.token_file: 'token' cannot be used"),
                  StartsWith("7:38 pools[0].backends[1].api_key_file: 'bad' is a bad key"),
                  StartsWith("10:66 routes[0].error_pages[1].file: 'none.html' cannot be used")));
}

TEST(Check, RefusesABackendThatIsOneOfOurListeners) {
  Environment environment = TestEnvironment{}.environment();
  environment.is_local_ip = [](const IpBytes& ip) {
    return ip == parse_ip("192.0.2.7") || ip == parse_ip("127.0.0.1") || ip == parse_ip("::1");
  };
  const auto problems = [&](const std::string& listen, const std::string& backend) {
    const std::string text = "listeners: [{address: '" + listen +
                             "'}]\npools: [{name: a, backends: ['" + backend + "']}]\n";
    return lines_of(read_config(text, "test.yaml", environment).problems);
  };

  for (const char* own : {"127.0.0.1:8080", "localhost:8080", "192.0.2.7:8080", "0.0.0.0:8080"}) {
    EXPECT_THAT(problems("0.0.0.0:8080", own), ElementsAre(HasSubstr("requests to itself"))) << own;
  }
  EXPECT_THAT(problems("127.0.0.1:8080", "localhost:8080"), SizeIs(1));
  EXPECT_THAT(problems("gpu1:8080", "gpu1:8080"), SizeIs(1));
  EXPECT_THAT(problems("0.0.0.0:80", "127.0.0.1:9901"),
              ElementsAre(HasSubstr("this is the admin listener on 127.0.0.1:9901")));

  EXPECT_THAT(problems("0.0.0.0:8080", "192.0.2.8:8080"), IsEmpty()) << "another machine";
  EXPECT_THAT(problems("0.0.0.0:8080", "127.0.0.1:8000"), IsEmpty()) << "another port";
  EXPECT_THAT(problems("127.0.0.1:8080", "192.0.2.7:8080"), IsEmpty()) << "another interface";
  EXPECT_THAT(problems("0.0.0.0:8080", "gpu1:8080"), IsEmpty()) << "resolved while it runs";
}

TEST(Check, ComparesIndexesWithTheMemoryOfTheProcess) {
  Environment environment;
  const auto loaded = [&](const std::string& memory, const std::string& index) {
    return read_config(
        "pools:\n- {name: a, backends: [h:1], picker: {name: expected-time, "
        "index_memory: " +
            index +
            "}}\n"
            "- {name: b, backends: [h:2], picker: expected-time}\n"
            "routes: [{match: {path: /a}, pool: a}, {pool: b}]\n"
            "limits: {memory: " +
            memory + "}\n",
        "test.yaml", environment);
  };

  EXPECT_THAT(lines_of(loaded("512MiB", "449MiB").problems),
              ElementsAre("2:74 pools[0].picker.index_memory: the indexes of all pools take "
                          "513 MiB, and the limit of the process is 512 MiB (`limits.memory`); "
                          "lower `picker.index_memory`, which is taken in full for each "
                          "pool, or raise that limit"));
  const auto tight = loaded("512MiB", "193MiB");
  EXPECT_THAT(lines_of(tight.problems), IsEmpty());
  EXPECT_THAT(lines_of(tight.warnings),
              ElementsAre(HasSubstr("the indexes of all pools take 257 MiB, more than half of the "
                                    "512 MiB that the process may use (`limits.memory`)")));
  EXPECT_THAT(loaded("512MiB", "192MiB").warnings, IsEmpty());
  EXPECT_TRUE(loaded("off", "16GiB").ok());
  EXPECT_TRUE(loaded("auto", "16GiB").ok()) << "the limit is not known";

  environment.memory_limit = [](const MemoryLimit& setting) -> std::optional<std::uint64_t> {
    return setting.kind == MemoryLimit::Kind::share ? 64UL << 20 : 128UL << 20;
  };
  EXPECT_THAT(lines_of(loaded("auto", "65MiB").problems), ElementsAre(HasSubstr("is 128 MiB")));
  EXPECT_TRUE(loaded("auto", "64MiB").ok());
  EXPECT_THAT(lines_of(loaded("50%", "64MiB").problems), ElementsAre(HasSubstr("is 64 MiB")));
  EXPECT_TRUE(loaded("off", "16GiB").ok());
}

TEST(Check, WarnsOfAPathThatLooksLikeAPrefix) {
  const auto loaded = read(R"(pools: [{name: a, backends: [h:1]}]
routes:
  - match: {path: /v1/}
    pool: a
  - match: {path: /v2/**}
    pool: a
  - match: {path: /}
    pool: a
)");

  EXPECT_TRUE(loaded.ok());
  EXPECT_THAT(
      lines_of(loaded.warnings),
      ElementsAre(
          "3:19 routes[0].match.path: matches exactly '/v1/'; write '/v1/**' to match every "
          "path below it, too",
          StartsWith("7:19 routes[2].match.path: matches exactly '/'; write '/**'")));
  EXPECT_THAT(render_problems(loaded.warnings, loaded.text),
              StartsWith("test.yaml:3:19: warning: routes[0].match.path"));
}

TEST(Check, WarnsOfAPathThatLooksLikeARegularExpression) {
  const auto loaded = read(R"(pools: [{name: a, backends: [h:1]}]
routes:
  - match: {path: "/v1/(chat|embeddings)$"}
    pool: a
  - match: {path: "/v1/models/{name}"}
    pool: a
  - match: {path: /v1/models(1)}
    pool: a
)");

  EXPECT_TRUE(loaded.ok());
  EXPECT_THAT(lines_of(loaded.warnings),
              ElementsAre("3:19 routes[0].match.path: '/v1/(chat|embeddings)$' is compared as it "
                          "stands, not as a regular expression; write '*' for any one segment, "
                          "'**' at the end for all the rest",
                          HasSubstr("'/v1/models/{name}' is compared as it stands")));
}

TEST(Check, SaysHowToWriteAPercentage) {
  const auto of_pool = [](const std::string& keys) {
    return problems_of("pools: [{name: a, backends: [h:1], " + keys + "}]");
  };
  EXPECT_THAT(
      of_pool("retry: {budget: 20}"),
      ElementsAre(HasSubstr("20 is out of range, expected 0% to 100%; did you mean '20%'?")));
  EXPECT_THAT(of_pool("retry: {budget: 200}"),
              ElementsAre(EndsWith("200 is out of range, expected 0% to 100%")));
  EXPECT_THAT(of_pool("standby: {enter: 80}"), ElementsAre(HasSubstr("did you mean '0.8'?")));
  EXPECT_THAT(problems_of("pools: [{name: a, backends: [h:1]}]\nlimits: {memory: 80}"),
              ElementsAre(HasSubstr("or a percentage, found the number 80; did you mean '80%'?")));
  EXPECT_THAT(problems_of("pools: [{name: a, backends: [h:1]}]\nlimits: {memory: 512}"),
              ElementsAre(HasSubstr("did you mean '512MiB'?")));
  EXPECT_THAT(problems_of("pools: [{name: a, backends: [h:1], standby: {enter: 80%}}]"),
              ElementsAre(HasSubstr("found '80%'; did you mean '0.8'?")));
  EXPECT_THAT(problems_of("pools: [{name: a, backends: [h:1]}]\nroutes: [{split: {a: 95%}}]"),
              ElementsAre(HasSubstr("found '95%'; did you mean '95'?")));
}

TEST(Check, ExplainsWhatNamesASession) {
  const auto problem = [](const std::string& affinity) {
    return problems_of("pools: [{name: a, backends: [h:1], affinity: {" + affinity + "}}]");
  };
  EXPECT_THAT(problem(""), ElementsAre());
  EXPECT_THAT(problem("by: [\"header:X-Chat\", cookie]"), ElementsAre());
  EXPECT_THAT(problem("by: []"), ElementsAre(HasSubstr("at least one is needed")));
  EXPECT_THAT(problem("by: [x-chat]"), ElementsAre(HasSubstr("'x-chat' names no session; did you "
                                                             "mean 'header:x-chat'?")));
  EXPECT_THAT(problem("by: [chat]"),
              ElementsAre(HasSubstr("'chat' names no session; take agent-session, ")));
  EXPECT_THAT(problem("by: [\"header:\"]"), ElementsAre(HasSubstr("names no session")));
  EXPECT_THAT(problem("by: [\"cookie:a b\"]"), ElementsAre(HasSubstr("names no session")));
  EXPECT_THAT(problem("ttl: 0s"), ElementsAre(HasSubstr("out of range")));
  EXPECT_THAT(problem("by: [agent-session, response-id], mode: soft"), ElementsAre());
  EXPECT_THAT(problem("mode: sticky"), ElementsAre(HasSubstr("soft, hard")));
}

TEST(Check, TakesOffForNoSessions) {
  const auto problem = [](const std::string& affinity) {
    return problems_of("pools: [{name: a, backends: [h:1], affinity: " + affinity + "}]");
  };
  EXPECT_THAT(problem("off"), ElementsAre());
  EXPECT_THAT(problem("soft"), ElementsAre(HasSubstr("off")));
  EXPECT_THAT(problem("[header:x-chat]"), ElementsAre(HasSubstr("off, or a mapping")));
}

TEST(Check, ExplainsTheValuesOfRetry) {
  const auto problem = [](const std::string& retry) {
    return problems_of("pools: [{name: a, backends: [h:1], retry: {" + retry + "}}]");
  };
  EXPECT_THAT(problem("budget: 0.3"), ElementsAre());
  EXPECT_THAT(problem("budget: 120%"), ElementsAre(HasSubstr("out of range, expected 0% to 100%")));
  EXPECT_THAT(problem("budget: some"), ElementsAre(HasSubstr("a percentage such as 20%")));
  EXPECT_THAT(problem("backoff: 30ms"), ElementsAre());
  EXPECT_THAT(problem("backoff: 50ms..25ms"),
              ElementsAre(HasSubstr("a range of durations such as 25ms..250ms")));
  EXPECT_THAT(problem("on: [resets]"), ElementsAre(HasSubstr("did you mean 'reset'?")));
  EXPECT_THAT(problem("retries: 3"), ElementsAre(HasSubstr("attempts")));
}

}  // namespace
}  // namespace evenkeel
