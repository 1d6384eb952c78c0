// What the file may say of redirects, rewrites, header fields and CORS, and what it is told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "config/test_environment.h"

namespace evenkeel {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* pools = "pools: [{name: a, backends: ['127.0.0.1:9']}]\nroutes:\n";

std::vector<std::string> problems_with(const std::string& route) {
  return lines_of(TestEnvironment().read(std::string(pools) + "  - " + route + "\n").problems);
}

std::vector<std::string> warnings_of(const std::string& routes) {
  return lines_of(TestEnvironment().read(pools + routes).warnings);
}

TEST(RouteChecks, TakeWhatRoutesCanSay) {
  for (const char* const route : {
           "{match: {query: {tier: gold, x: '*'}, client: [10.0.0.0/8, '::1'], listener: public}, "
           "pool: a}",
           "{match: {path_regex: '/v[12]/.*', not: {path: /v1/x}}, pool: a}",
           "{match: {not: [{client: [10.0.0.0/8]}, {query: {a: b}}]}, pool: a}",
           "{match: {path: /old/**}, redirect: {to: 'https://new.example.org/**', status: 301}}",
           "{redirect: {to: 'https://$host:8443/**'}}",
           "{match: {path: /old}, redirect: {to: '/new?a=b'}}",
           "{match: {path: /t/**}, rewrite: {strip_prefix: /t/}, pool: a}",
           "{match: {path: /t/**}, rewrite: {prefix: /x}, pool: a}",
           "{rewrite: {regex: '^/x/(.*)$', to: '/v1/\\1'}, pool: a}",
           "{request_headers: {set: {X-Team: a, x-who: '$client/$${tenant}'}, remove: cookie}, "
           "pool: a}",
           "{response_headers: {add: {vary: accept, x-by: $backend}}, pool: a}",
           "{cors: {origins: ['https://*.example.org', 'http://localhost:3000']}, pool: a}",
           "{cors: {origins: '*', methods: GET, headers: [X-A], max_age: 0s}, respond: {body: a}}",
           "{compression: {}, pool: a}",
           "{compression: {codings: gzip, types: [application/*, Text/HTML], min_size: 0B}, pool: "
           "a}",
           "{error_pages: [{status: 503, file: a.html}, {status: [500, 502], file: b.json, "
           "content_type: 'application/json; charset=utf-8'}], pool: a}",
       }) {
    EXPECT_THAT(problems_with(route), IsEmpty()) << route;
  }
}

TEST(RouteChecks, SayWhatIsWrongAndHowItIsRight) {
  const auto expect = [](const char* route, const char* problem) {
    EXPECT_THAT(problems_with(route), Contains(HasSubstr(problem))) << route;
  };
  expect("{match: {path_regex: '(a'}, pool: a}", "not a regular expression: missing )");
  expect("{match: {path_regex: '^/v1/'}, pool: a}", "has '^' only");
  expect("{match: {listener: inner}, pool: a}", "there is no listener 'inner'");
  expect("{match: {not: {listener: inner}}, pool: a}", "there is no listener 'inner'");
  expect("{match: {not: {}}, pool: a}", "has no condition");
  expect("{match: {not: {model: a}}, pool: a}", "unknown key");
  expect("{match: {client: [a.test]}, pool: a}", "a.test");
  expect("{redirect: {to: new.example.org}}", "neither a URL nor a path");
  expect("{redirect: {to: //new.example.org}}", "neither a URL nor a path");
  expect("{redirect: {to: 'ftp://new.example.org'}}", "not a URL of http or https");
  expect("{redirect: {to: 'https://a$host/'}}", "not a URL of http or https");
  expect("{redirect: {to: 'https://a/$path'}}", "has '$' in its path");
  expect("{redirect: {to: 'https://a/**/b'}}", "has '*' in its path");
  expect("{redirect: {to: /a, status: 304}}", "304 does not redirect");
  expect("{match: {path: /old}, redirect: {to: '/new/**'}}", "which has none");
  expect("{match: {path: /old/**}, redirect: {to: /old/new}}", "to the same route again");
  expect("{redirect: {to: https://a/}, pool: a}", "no pool gets the requests");
  expect("{redirect: {to: https://a/}, respond: {body: a}}", "'respond'");
  expect("{respond: {status: 301}}", "cannot say where");
  expect("{rewrite: {}, pool: a}", "says nothing of the new path");
  expect("{rewrite: {strip_prefix: /a, prefix: /b}, pool: a}", "says the new path twice");
  expect("{rewrite: {regex: a}, pool: a}", "'regex' and 'to' are written together");
  expect("{rewrite: {regex: a, to: '\\1'}, pool: a}", "names a group that");
  expect("{match: {path: /a}, rewrite: {prefix: /b}, pool: a}", "and it has none");
  expect("{rewrite: {strip_prefix: a}, pool: a}", "it starts with '/'");
  expect("{request_headers: {set: {host: a}}, pool: a}", "not a field that routes change");
  expect("{request_headers: {remove: [Content-Length]}, pool: a}",
         "not a field that routes change");
  expect("{response_headers: {set: {connection: close}}, pool: a}", "not a field that routes");
  expect("{request_headers: {set: {x: \"a\\r\\nb: c\"}}, pool: a}", "has control characters");
  expect("{request_headers: {set: {x: $clent}}, pool: a}", "'$clent' is not known here");
  expect("{request_headers: {set: {x: $status}}, pool: a}", "'$status' is not known here");
  expect("{request_headers: {set: {x: 5 $}}, pool: a}", "a '$' without a name");
  expect("{cors: {origins: [example.org]}, pool: a}", "not an origin");
  expect("{cors: {origins: ['https://*example.org']}, pool: a}", "not an origin");
  expect("{cors: {origins: ['https://a/b']}, pool: a}", "not an origin");
  expect("{cors: {origins: '*', credentials: true}, pool: a}", "cookies of their visitors");
  expect("{compression: {codings: [br]}, pool: a}", "br");
  expect("{compression: {codings: []}, pool: a}", "is empty");
  expect("{compression: {types: json}, pool: a}", "'json' is not a media type");
  expect("{compression: {types: '*/json'}, pool: a}", "'*/json' is not a media type");
  expect("{compression: {types: text/event-stream}, pool: a}", "is never compressed");
  expect("{error_pages: [{status: 200, file: a}], pool: a}", "200");
  expect("{error_pages: [{status: [], file: a}], pool: a}", "is empty");
  expect("{error_pages: [{status: 503}], pool: a}", "file");
  expect("{error_pages: [{status: 503, file: a, content_type: html}], pool: a}",
         "'html' is not a media type");
}

TEST(RouteChecks, WarnOfRoutesThatNarrowerConditionsDoNotSaveFromOthers) {
  const auto hidden = [](const char* first, const char* second) {
    return !warnings_of(std::string("  - {match: ") + first + ", pool: a}\n  - {match: " + second +
                        ", pool: a}\n")
                .empty();
  };
  EXPECT_TRUE(hidden("{}", "{query: {a: b}}"));
  EXPECT_TRUE(hidden("{query: {a: '*'}}", "{query: {a: b}}"));
  EXPECT_FALSE(hidden("{query: {a: b}}", "{query: {a: '*'}}"));
  EXPECT_FALSE(hidden("{query: {a: b}}", "{}"));
  EXPECT_TRUE(hidden("{client: [10.0.0.0/8]}", "{client: [10.1.0.0/16]}"));
  EXPECT_FALSE(hidden("{client: [10.1.0.0/16]}", "{client: [10.0.0.0/8]}"));
  EXPECT_FALSE(hidden("{client: [10.1.0.0/16]}", "{}"));
  EXPECT_FALSE(hidden("{listener: public}", "{}"));
  EXPECT_TRUE(hidden("{listener: public}", "{listener: public, path: /a}"));
  EXPECT_TRUE(hidden("{path_regex: '/a.*'}", "{path: /ab}"));
  EXPECT_FALSE(hidden("{path_regex: '/a.*'}", "{path: /b}"));
  EXPECT_FALSE(hidden("{path_regex: '/a.*'}", "{path: /a/**}"));
  EXPECT_FALSE(hidden("{not: {path: /a}}", "{}"));
  EXPECT_TRUE(hidden("{not: {path: /a}}", "{not: {path: /a/**}}"));
  EXPECT_FALSE(hidden("{not: {path: /a/**}}", "{not: {path: /a}}"));
}

}  // namespace
}  // namespace evenkeel
