// Measures what verifying signed tokens costs, for each algorithm. The tokens are those of
// tests/net/jwt_corpus.json.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <variant>

#include "bench/flags.h"
#include "evenkeel/net/jwt.h"

namespace evenkeel::bench {
namespace {

using Clock = std::chrono::steady_clock;

/// Prints the fastest of many runs: what else the machine does makes none faster.
template <class Run>
void measure(const std::string& name, std::size_t bytes, std::uint64_t runs, const Run& run) {
  auto best = Clock::duration::max();
  for (std::uint64_t i = 0; i < runs; ++i) {
    const auto begin = Clock::now();
    run();
    best = std::min(best, Clock::now() - begin);
  }
  std::printf("%-16s %5zu bytes %8.2f us\n", name.c_str(), bytes,
              std::chrono::duration<double, std::micro>(best).count());
}

int run(int argument_count, char** arguments) {
  Flags flags(argument_count, arguments);
  const std::string path = flags.text("--corpus", "tests/net/jwt_corpus.json");
  const std::uint64_t runs = flags.number("--runs", 1000);
  flags.reject_unknown();
  std::ifstream file(path);
  const auto corpus = parse_json(std::string(std::istreambuf_iterator<char>(file), {}));
  if (!corpus) exit_with_usage_error("--corpus is not the corpus of the tests");
  const auto keys = JwkSet::parse(json_text((*corpus)["keys"]));
  if (!keys) exit_with_usage_error("--corpus has no keys");
  JwtRules rules;
  rules.issuer = "https://idp.example";
  rules.audiences = {"gateway"};
  rules.tenant_claim = "org.name";
  rules.models_claim = "scope";
  const double now = (*corpus)["now"].number().value_or(0);

  std::string last;
  for (const JsonValue& each : (*corpus)["cases"].items()) {
    if (!each["name"].text().starts_with("PyJWT ")) continue;
    last = each["token"].text();
    measure(each["name"].text().substr(6), last.size(), runs, [&] {
      if (!std::holds_alternative<JwtClaims>(verify_jwt(last, *keys, rules, now)))
        exit_with_usage_error("a token is refused");
    });
  }
  measure("parsed alone", last.size(), runs, [&] { static_cast<void>(Jwt::parse(last)); });
  return 0;
}

}  // namespace
}  // namespace evenkeel::bench

int main(int argument_count, char** arguments) {
  return evenkeel::bench::run(argument_count, arguments);
}
