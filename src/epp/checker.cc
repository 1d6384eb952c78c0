#include "evenkeel/epp/checker.h"

#include <array>
#include <optional>
#include <utility>

#include "epp/checker_rules.h"
#include "epp/checker_session.h"
#include "evenkeel/base/loop.h"
#include "evenkeel/config/address.h"
#include "evenkeel/net/tls.h"

namespace evenkeel {
namespace {

constexpr std::array rules = std::to_array<CheckRule>({
    {.name = "pick",
     .says = "a request with a body gets x-gateway-destination-endpoint in the answer to its head",
     .needs_pick = false,
     .check = check_pick},
    {.name = "pick-metadata",
     .says = "that answer has it in dynamic_metadata too, as envoy.lb",
     .check = check_pick_metadata},
    {.name = "pick-equal",
     .says = "header and metadata have the same value",
     .check = check_pick_equal},
    {.name = "endpoint-syntax",
     .says = "ip:port, or several with commas between them; IPv6 in brackets",
     .check = check_endpoint_syntax},
    {.name = "route-cache",
     .says = "advice: clear_route_cache, for routes that depend on the header",
     .advice = true,
     .check = check_route_cache},
    {.name = "claimed-destination",
     .says = "the endpoint is the picker's choice, whatever the client's own header says",
     .check = check_claimed_destination},
    {.name = "one-head", .says = "request_headers is answered once", .check = check_one_head},
    {.name = "order", .says = "head, then body, then trailers", .check = check_order},
    {.name = "bodies",
     .says = "bodies of 0 B to 20 MB are answered, wherever they are cut",
     .check = check_bodies},
    {.name = "body-whole",
     .says = "the whole body comes back, unchanged or with a content-length that fits",
     .check = check_body_whole},
    {.name = "body-pieces",
     .says = "pieces of at most 64 KB; 62 000 bytes are advised",
     .check = check_body_pieces},
    {.name = "body-end", .says = "end_of_stream once, in the last piece", .check = check_body_end},
    {.name = "bodiless",
     .says = "a request that ends with its head is picked for at once",
     .check = check_bodiless},
    {.name = "trailers",
     .says = "trailers are answered after the body, which then has no end_of_stream",
     .check = check_trailers},
    {.name = "unknown-fields",
     .says = "fields and attributes that the picker does not know are ignored",
     .check = check_unknown_fields},
    {.name = "garbage",
     .says = "a body that is no JSON gets a pick or an ImmediateResponse of 4xx",
     .check = check_garbage},
    {.name = "subset", .says = "the pick is in the list of the subset hint", .check = check_subset},
    {.name = "subset-text",
     .says = "advice: the same for a hint that is one text with commas",
     .advice = true,
     .check = check_subset_text},
    {.name = "subset-unknown",
     .says = "no eligible endpoint in the hint: ImmediateResponse 503",
     .check = check_subset_unknown},
    {.name = "subset-empty",
     .says = "an empty hint: ImmediateResponse 503",
     .check = check_subset_empty},
    {.name = "response",
     .says = "the response is answered in order, or the stream ended with OK after the request",
     .check = check_response},
    {.name = "response-trailers",
     .says = "the same with trailers, which are answered last",
     .check = check_response_trailers},
    {.name = "served",
     .says = "x-gateway-destination-endpoint-served is accepted, whatever it names",
     .check = check_served},
    {.name = "half-close",
     .says = "the stream ends when the data plane has closed its side",
     .check = check_half_close},
    {.name = "early-half-close",
     .says = "also before the body, without harm to later requests",
     .check = check_early_half_close},
    {.name = "unknown-method",
     .says = "an unknown method gets UNIMPLEMENTED (12)",
     .needs_pick = false,
     .check = check_unknown_method},
    {.name = "streams",
     .says = "many streams at once on few connections are all answered",
     .check = check_streams},
    {.name = "buffered",
     .says = "advice: with bodies of mode BUFFERED, one answer for each message",
     .advice = true,
     .check = check_buffered},
    {.name = "health",
     .says = "advice: grpc.health.v1 on this port too: SERVING",
     .advice = true,
     .needs_pick = false,
     .check = check_health},
    {.name = "cancel",
     .says = "a stream that is cancelled in any phase harms no later request",
     .check = check_cancel},
});

Error invalid(std::string detail) {
  return {.fault = Fault::bad_request, .side = Side::client, .detail = std::move(detail)};
}

Result<ServerAccess> access_to(const PickerCheckOptions& options) {
  std::string why;
  const auto address = parse_backend_address(options.url, why);
  if (!address) return invalid("'" + options.url + "': " + why);
  auto endpoints = resolve(address->host, address->port);
  if (!endpoints) {
    return Error{.fault = Fault::connect_failed,
                 .side = Side::backend,
                 .detail = "'" + options.url + "': " + endpoints.error().detail};
  }
  constexpr Duration unlimited = std::chrono::hours(1);  // each wait has a deadline of its own
  ServerAccess access{.addresses = std::move(*endpoints), .authority = to_string(*address)};
  LinkPoolOptions& links = access.links;
  links.link.first_byte_timeout = unlimited;
  links.link.idle_timeout = unlimited;
  links.connector.connect_timeout = options.timeout;
  links.connector.alpn = AlpnOffer::http2;
  links.connector.server_name = address->host;
  links.protocol = BackendProtocol::http2;
  if (!address->secure) {
    if (!options.ca.empty()) return invalid("--ca is for https:// only");
    return access;
  }
  auto tls = TlsClientContext::build({.verify = !options.ca.empty(), .ca = options.ca});
  if (!tls) return invalid(tls.error().detail);
  links.connector.tls = std::move(*tls);
  return access;
}

Task<Finding> check_rule(CheckSession& session, const CheckRule& rule) {
  if (rule.needs_pick && !session.first().picked()) co_return skips("needs a pick");
  auto finding = co_await rule.check(session);
  const bool is_advice = rule.advice && finding.verdict == RuleVerdict::failed;
  if (is_advice) finding.verdict = RuleVerdict::skipped;
  co_return finding;
}

/// Sets `done` at its end.
Task<void> check_all(CheckSession& session, const PickerCheckOptions& options,
                     const std::function<void(const RuleReport&)>& report,
                     std::optional<Result<Done>>& done) {
  auto reached = co_await session.reach();
  if (!reached) {
    done.emplace(std::move(reached.error()));
    co_return;
  }
  co_await session.begin();
  for (const CheckRule& rule : rules) {
    if (!options.only.empty() && options.only != rule.name) continue;
    auto finding = co_await check_rule(session, rule);
    report({.name = rule.name,
            .verdict = finding.verdict,
            .seen = std::move(finding.seen),
            .says = rule.says});
  }
  done.emplace(Done{});
}

}  // namespace

std::string_view to_string(RuleVerdict verdict) {
  constexpr std::array<std::string_view, 3> words = {"ok", "FAIL", "skip"};
  return words[static_cast<std::size_t>(verdict)];
}

std::vector<std::string> picker_rule_names() {
  std::vector<std::string> names;
  for (const CheckRule& rule : rules) names.emplace_back(rule.name);
  return names;
}

Result<Done> check_picker(const PickerCheckOptions& options,
                          const std::function<void(const RuleReport&)>& report) {
  if (!options.subset.empty()) {
    const std::string problem = endpoint_list_problem(options.subset);
    if (!problem.empty()) return invalid("--subset: " + problem);
  }
  auto access = access_to(options);
  if (!access) return std::move(access.error());
  Loop loop;
  CheckSession session(loop, std::move(*access), options);
  std::optional<Result<Done>> done;
  auto checking = check_all(session, options, report, done);
  loop.run_until([&] { return checking.ready(); });
  return std::move(*done);
}

}  // namespace evenkeel
