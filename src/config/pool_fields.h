#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string_view>

#include "config/backend_fields.h"
#include "config/compound_forms.h"
#include "config/discovery_fields.h"
#include "config/forms.h"
#include "config/picker_fields.h"

// The part of the field table (fields.h) for pools.
namespace evenkeel::config_file {

using namespace std::chrono_literals;

void each_key(Of<StandbyConfig>, const auto& visit) {
  using T = StandbyConfig;
  visit(
      Key{"enter",
          "Load relative to the capacity of the active backends at which a standby backend joins."},
      &T::enter, RatioForm{0.1, 1});
  visit(Key{"leave",
            "Load relative to the capacity without it at which the last one to join leaves again."},
        &T::leave, RatioForm{0.05, 1});
  visit(Key{"dwell", "How long the load must stay at or below `leave` before it leaves."},
        &T::dwell, DurationForm{0ms, 24h});
}

inline void finish(Of<StandbyConfig>, Node& node, StandbyConfig& standby) {
  if (standby.leave >= standby.enter) {
    node.fail("'leave' must be below 'enter'",
              "otherwise standby backends would join and leave all the time");
  }
}

void each_key(Of<OutlierConfig>, const auto& visit) {
  using T = OutlierConfig;
  visit(Key{"consecutive",
            "Failed requests in a row (5xx but 503, resets, malformed responses, timeouts) that "
            "eject a backend while another one does better; three fifths of them do while no other "
            "backend has failed lately. 0: they eject none."},
        &T::consecutive, CountForm{0, 10'000});
  visit(Key{"ejection",
            "How long a backend is out after its second ejection in a row. The first lasts one "
            "`health.interval`, those after the second ten times as long as this, but a day at "
            "most. Where evenkeel probes the backend, or `retry` covers its failures, each lasts "
            "twice as long as the last, but no longer than this."},
        &T::ejection, DurationForm{100ms, 24h});
  visit(Key{"max_ejected",
            "Share of the pool's backends that may be ejected at a time, but at least one. The "
            "last available one never is. 0: none is ejected."},
        &T::max_ejected, PercentForm{0, 1});
}

void each_key(Of<QueueConfig>, const auto& visit) {
  using T = QueueConfig;
  visit(Key{"size",
            "Maximum number of waiting requests; 429 beyond. Each version that a split names has "
            "this number of its own, and so have the requests for any. 0: no queue."},
        &T::size, CountForm{0, million});
  visit(Key{"timeout", "Maximum wait; then 503."}, &T::timeout, DurationForm{});
}

void each_key(Of<PoolLimits>, const auto& visit) {
  using T = PoolLimits;
  visit(Key{"max_in_flight",
            "Maximum number of requests in flight on one backend, over all workers; when every "
            "backend is full, requests wait. 0: no limit."},
        &T::max_in_flight, CountForm{0, million});
  visit(Key{"queue",
            "The queue of the pool. Without `max_in_flight` no request waits for a slot, except "
            "with `picker: expected-time`."},
        &T::queue, StructForm<QueueConfig>{});
}

void each_key(Of<PoolTimeouts>, const auto& visit) {
  using T = PoolTimeouts;
  visit(Key{"connect", "Maximum time to connect to a backend; then another one is tried, or 504."},
        &T::connect, DurationForm{});
  visit(Key{"first_byte",
            "Maximum time from the end of a request to the beginning of its response, then 504: to "
            "the first output of a model's stream, the first byte of any other stream's body, or "
            "to the head. Comments, pings and progress do not extend it. A long prompt in a long "
            "queue takes minutes."},
        &T::first_byte, DurationForm{});
  visit(Key{"idle",
            "Maximum pause within a response; then it is aborted. The total time of a response is "
            "not limited."},
        &T::idle, DurationForm{});
  visit(Key{"grpc_deadline",
            "Longest time that a gRPC call may ask for with `grpc-timeout`; a longer one is "
            "lowered to it. Calls without `grpc-timeout` have no deadline."},
        &T::grpc_deadline, DurationForm{1ms, std::chrono::hours{24 * 365}});
}

template <class T>
void each_retry_key(const auto& visit) {
  visit(Key{"attempts",
            "How often a request is sent to a backend, in all. Connection failures and refusals, "
            "after which no backend has begun, do not count. 1: never again."},
        &T::attempts, CountForm{1, 8});
  visit(Key{"backoff",
            "Range of the random wait before a retry: at most the first value before the first "
            "retry, doubled with each further one up to the second value."},
        &T::backoff, BackoffForm{});
  visit(Key{"on",
            "What is retried whatever the method, besides what is safe: `overload` (429 and 503), "
            "`gateway-error` (502, 503 and 504), `5xx`, `reset` (the backend ended the connection "
            "before its response), `timeout`. A retried generation may cost GPU time twice.",
            "what is safe"},
        &T::on,
        ListForm<EnumForm<RetryOn>>{
            EnumForm<RetryOn>{"reason for a retry",
                              {"overload", "gateway-error", "5xx", "reset", "timeout"}},
            "a list of reasons"});
  visit(Key{"idempotency_key",
            "Whether requests with an Idempotency-Key field are retried as GET requests are."},
        &T::idempotency_key, FlagForm{});
  visit(Key{"attempt_timeout",
            "Maximum time from the end of a request to the head of its response, for an attempt "
            "that may be retried after a timeout. 0: only `timeouts.first_byte`."},
        &T::attempt_timeout, DurationForm{0ms, 24h});
  visit(Key{"within",
            "How long after its first attempt began a request may be sent again: what took longer "
            "to fail is the client's answer. 0: `timeouts.first_byte`."},
        &T::within, DurationForm{0ms, 24h});
  visit(Key{"replay",
            "Largest request body that is kept in memory until the response begins, so that it can "
            "be sent again."},
        &T::replay_bytes, SizeForm{0, 64 * MiB});
}

void each_key(Of<RetryRules>, const auto& visit) { each_retry_key<RetryRules>(visit); }

void each_key(Of<RetryConfig>, const auto& visit) {
  each_retry_key<RetryConfig>(visit);
  visit(Key{"budget",
            "Share of the pool's requests that may be retried after a backend has answered or may "
            "have begun, besides a reserve of 10 requests."},
        &RetryConfig::budget, PercentForm{0, 1});
}

void each_key(Of<KeepAliveConfig>, const auto& visit) {
  using T = KeepAliveConfig;
  visit(Key{"idle",
            "How long an idle connection to a backend is kept; must be below the server's own "
            "timeout (uvicorn's is 5 s).",
            keep_alive_idle_text()},
        &T::idle, DurationForm{});
  visit(Key{"max_idle", "Maximum number of idle connections, per worker and backend; 0: none."},
        &T::max_idle, CountForm{0, 100'000});
}

void each_key(Of<PoolTlsConfig>, const auto& visit) {
  using T = PoolTlsConfig;
  visit(Key{"verify",
            "Whether to verify the backend's certificate and name. Without verification an "
            "attacker on the network can read and change the traffic."},
        &T::verify, FlagForm{});
  visit(Key{"ca", "PEM file with the trusted authorities.", "the system's"}, &T::ca, file_path);
  visit(Key{"server_name",
            "The name or IP address that certificates must have, and the SNI that is sent.",
            "the host in each backend's address"},
        &T::server_name, TextForm{"a host name", check_not_empty});
  visit(Key{"cert", "PEM file with a client certificate for backends that request one.", "none"},
        &T::cert, file_path);
  visit(Key{"key", "PEM file with the private key, without a passphrase.", "none"}, &T::key,
        file_path);
}

inline void finish(Of<PoolTlsConfig>, Node& node, PoolTlsConfig&) {
  if (node.has("cert") != node.has("key")) {
    node.fail(node.has("cert") ? "'cert' needs 'key'" : "'key' needs 'cert'",
              "give both, or neither");
  }
}

void each_key(Of<CacheConfig>, const auto& visit) {
  using T = CacheConfig;
  visit(Key{"memory",
            "Memory for answers, all workers together; those used longest ago make room. An answer "
            "larger than a 64th of it is not kept."},
        &T::memory_bytes, SizeForm{MiB, 1024 * 1024 * MiB});
  visit(Key{"ttl", "How long an answer is used."}, &T::ttl, DurationForm{1s, 720h});
  visit(Key{"stale_if_error",
            "How long beyond `ttl` an answer is used while no backend answers. 0s: not at all."},
        &T::stale_if_error, DurationForm{0ms, 720h});
  visit(Key{"shared",
            "Whether replicas share the answers, through the server of `shared_state`, which must "
            "have a password: one that no replica has in its memory is asked for there. Answers of "
            "more than 1 MiB are not shared."},
        &T::shared, FlagForm{});
  visit(Key{"for",
            "The requests whose answers are kept: `embeddings` (also rerank and score), "
            "`deterministic` (texts with temperature 0, or with a seed)."},
        &T::requests,
        ListForm<EnumForm<CachedRequests>>{
            EnumForm<CachedRequests>{"kind of request", {"embeddings", "deterministic"}},
            "a list of kinds of requests", false});
}

void each_key(Of<BatchingConfig>, const auto& visit) {
  using T = BatchingConfig;
  visit(Key{"max_size",
            "The most inputs in one request to a backend. Servers refuse what is more than they "
            "allow."},
        &T::max_size, CountForm{2, 4096});
  visit(Key{"max_wait",
            "The longest that a request waits for others. It waits only while backends have "
            "requests that it could have gone with."},
        &T::max_wait, DurationForm{1ms, 10s});
  visit(Key{"max_tokens",
            "The most tokens of texts in one request, as estimated: the number of inputs times the "
            "length of the longest one, to which servers pad the others."},
        &T::max_tokens, CountForm{1, 100 * million});
}

void each_key(Of<BodyConfig>, const auto& visit) {
  using T = BodyConfig;
  visit(Key{"defaults",
            "Members that are added where the client gives none: `{temperature: 0.2, max_tokens: "
            "1024}`. `max_tokens`, `max_completion_tokens` and `max_output_tokens` count as one.",
            "none"},
        &T::defaults, JsonMembersForm{});
  visit(Key{"set", "Members that replace the client's, or are added.", "none"}, &T::set,
        JsonMembersForm{});
  visit(Key{"max_tokens",
            "The most tokens of output that a request may ask for; a larger number, or none, is "
            "replaced by this one. 0: any number."},
        &T::max_tokens, CountForm{0, 100 * million});
}

// What the pool serves, and how it chooses.
void each_serving_key(const auto& visit) {
  using T = PoolConfig;
  visit(Key{"name", "Its name in routes, logs and metrics.", required}, &T::name, plain_name);
  visit(Key{"engine",
            "The inference server that the backends run; selects defaults. `auto` detects it."},
        &T::engine, ChoiceForm{"engine", engine_names()});
  visit(Key{"protocol",
            "Protocol of the backends: `http1`, `h2` (HTTP/2, which gRPC needs), or `auto`: over "
            "TLS, ALPN selects it; in cleartext, the first connection tries HTTP/2 and falls back "
            "to HTTP/1.1.",
            "`auto` if a backend speaks TLS, else `http1`"},
        &T::protocol, EnumForm<BackendProtocol>{"protocol", {"auto", "http1", "h2"}});
  visit(Key{"models", "The names of the models that the pool serves.", "unknown"}, &T::models,
        ListForm<TextForm>{TextForm{"the name of a model", check_not_empty},
                           "a list of model names"});
  visit(Key{"inspect",
            "Whether requests and responses are read for the log, the metrics and the pickers: the "
            "model, tokens, what a stream reports. Their bytes stay as they are. A body that is "
            "not valid JSON gets 400.",
            "`false`; `true` if a tenant has limits of tokens or cost"},
        &T::inspect, FlagForm{});
  visit(Key{"model",
            "The name under which the backends serve the model: it replaces the one in the "
            "request, in JSON bodies. Implies `inspect`.",
            "the name in the request"},
        &T::model, TextForm{"the name of a model", check_model_name});
  visit(Key{"model_names",
            "Names that clients give models, with those that backends get instead: `{small: "
            "gpt-4o-mini}`. Others are replaced by `model`, or stay. Without `models`, the pool "
            "serves these. Implies `inspect`. Answers have the client's name again, as with "
            "`model`.",
            "the names in requests"},
        &T::model_names,
        TextMapForm{"a mapping of names to names", check_model_name, check_model_name});
  visit(Key{"body", "What is changed in the JSON bodies of requests for text. Implies `inspect`.",
            "nothing"},
        &T::body, StructForm<BodyConfig>{});
  visit(Key{"stream_usage",
            "Whether engines are asked for the token counts of streams whose clients did not ask, "
            "which are removed from the stream again: `auto`, with `inspect` and an engine that is "
            "known to give them; `on`, with `inspect` and any engine; or `off`."},
        &T::stream_usage, EnumForm<StreamUsage>{"stream_usage", {"auto", "off", "on"}});
  visit(Key{"picker",
            "How a backend is chosen: the name of a policy, or `{name: NAME, ...}` with its "
            "settings. `prefix-affinity` and `expected-time` imply `inspect`."},
        &T::picker, picker_form<PickerConfig>());
}

// Whether its requests become fewer, or its answers are used again.
void each_reuse_key(const auto& visit) {
  using T = PoolConfig;
  visit(Key{"coalesce",
            "Which identical requests in flight get one answer, generated once: `deterministic` "
            "(embeddings, rerank, score, and texts with temperature 0 or a seed), `all`, or `off`. "
            "Requests of different tenants or credentials are never identical. Implies `inspect`."},
        &T::coalesce, EnumForm<CoalesceRule>{"rule", {"off", "deterministic", "all"}});
  visit(Key{"cache",
            "Keeps answers, and gives them to identical requests to come; `{}` for all defaults. "
            "Implies `inspect`.",
            "none is kept"},
        &T::cache, OptionalForm<StructForm<CacheConfig>>{});
  visit(Key{"batching",
            "Joins the inputs of several requests for embeddings, or of KServe's `infer` in JSON, "
            "into one request, for servers that do not do that themselves; `{}` for all defaults. "
            "Requests of different tenants or credentials are never joined. Implies `inspect`.",
            "each request goes to a backend as it is"},
        &T::batching, OptionalForm<StructForm<BatchingConfig>>{});
}

void each_key(Of<FallbackConfig>, const auto& visit) {
  using T = FallbackConfig;
  visit(Key{"pool", "The pool that takes the requests.", required}, &T::pool, pool_name);
  visit(
      Key{"when",
          "What it takes requests for: `down`: there is no backend for it; `saturated`: the "
          "queue is full, or the wait has timed out; `over_budget`: its `budget` is used up.",
          "all three"},
      &T::when,
      OneOrListForm<EnumForm<FallbackReason>>{
          {EnumForm<FallbackReason>{"reason for a fallback", {"down", "saturated", "over_budget"}},
           "a reason or a list of reasons", false}});
}

void each_key(Of<BudgetConfig>, const auto& visit) {
  using T = BudgetConfig;
  visit(Key{"tokens",
            "The most tokens of prompts and outputs in a period, such as `10M/month`, or several "
            "such rates. Estimated before a request and settled after it, as `tenants[].limits`.",
            "any number"},
        &T::tokens, rates);
  visit(Key{"cost", "The most that requests may cost by `usage.prices`, such as `500/month`.",
            "any amount"},
        &T::cost, rates_of_money);
}

inline void finish(Of<BudgetConfig>, Node& node, BudgetConfig& budget) {
  if (budget.tokens.size() + budget.cost.size() <= max_limits_of_request) return;
  node.fail(fmt::format("has more than {} rates", max_limits_of_request),
            "the strictest of each period suffice");
}

// The backends, and what they are to evenkeel.
void each_backend_key(const auto& visit) {
  using T = PoolConfig;
  visit(Key{"backends", "The servers; a backend without other keys may be just its address.",
            "those that `discover` finds"},
        &T::backends,
        BackendsForm{{{{},
                       backend_address(),
                       "an address such as http://127.0.0.1:8000, or a mapping with one"},
                      "a list of backends",
                      false}});
  visit(Key{"discover",
            "Where backends come and go by themselves, beside those of `backends`: one of its "
            "keys. What is in the file is still theirs: labels and weights come with each.",
            "none"},
        &T::discover, OptionalForm<StructForm<DiscoverConfig>>{});
  visit(Key{"tls",
            "TLS to every backend of the pool; `{}` for all defaults. If absent, TLS is used for "
            "backends with https:// in their address.",
            "only for https://"},
        &T::tls, OptionalForm<StructForm<PoolTlsConfig>>{});
  visit(Key{"host",
            "The Host that backends get, as `:authority` over HTTP/2: `backend`, their own name "
            "(`tls.server_name`, else the host in their address, and its port unless that is the "
            "default), `client`, what the client sent, or a text such as `api.example.com`. "
            "Requests of evenkeel itself, such as health checks, have it too, with `client` the "
            "backend's own. Where it is changed, `x-forwarded-host` has the client's.",
            "`backend` where TLS goes by name, else `client`"},
        &T::host, TextForm{"a host", check_backend_host});
  visit(
      Key{"hosted",
          "Whether the backends are a service of a third party, such as a provider's API. They get "
          "nothing that tells of clients and of this network: no `x-forwarded-*`, cookies, "
          "traces and fields of tenants. Needs `api_key_file` and TLS at each backend, and "
          "`engine: generic`; there are no health checks unless `health` names one."},
      &T::hosted, FlagForm{});
}

void each_key(Of<PoolConfig>, const auto& visit) {
  using T = PoolConfig;
  each_serving_key(visit);
  each_backend_key(visit);
  visit(Key{"limits", "Limits of the pool."}, &T::limits, StructForm<PoolLimits>{});
  visit(Key{"timeouts", "Timeouts towards backends."}, &T::timeouts, StructForm<PoolTimeouts>{});
  visit(Key{"retry", "Which requests are sent again, and how often."}, &T::retry,
        StructForm<RetryConfig>{});
  visit(Key{"keep_alive", "Idle connections to backends."}, &T::keep_alive,
        StructForm<KeepAliveConfig>{});
  visit(Key{"health", "Health checks."}, &T::health, StructForm<HealthConfig>{});
  visit(Key{"metrics", "Polling of the backends' own metrics."}, &T::metrics,
        StructForm<MetricsConfig>{});
  visit(Key{"affinity",
            "Sends all requests of a session to the backend of its first one, while that is in "
            "rotation; `{}` for all defaults, `off` for no sessions. If absent, and with "
            "`inspect`: `{by: [agent-session], mode: soft, max_sessions: 10000}`, but not with "
            "`picker: consistent-hash`.",
            "of coding agents, with `inspect`"},
        &T::affinity, AffinityForm{});
  visit(Key{"standby", "When backends with `standby: true` join and leave."}, &T::standby,
        StructForm<StandbyConfig>{});
  visit(Key{"outlier", "When a backend whose requests fail is taken out of rotation."}, &T::outlier,
        StructForm<OutlierConfig>{});
  visit(Key{"slow_start",
            "How long a backend that returns or joins is limited to a growing number of requests "
            "in flight: from a tenth of its fair share up to all of it. 0s: not at all."},
        &T::slow_start, DurationForm{0ms, 1h});
  visit(Key{"fallback",
            "The pool that takes a request when this one has no backend, its queue is full or "
            "timed out, or its `budget` is used up: its name, or `{pool: NAME, when: [down]}`. The "
            "response then has the field `x-evenkeel-fallback`.",
            "none"},
        &T::fallback,
        FallbackForm{{{}, pool_name, "the name of a pool, or a mapping such as {pool: NAME}"}});
  visit(Key{"budget",
            "How much all requests together may use of the pool, such as a hosted service that is "
            "a `fallback`. Beyond it they get 503, or the pool's own `fallback` takes them. "
            "Implies `inspect`."},
        &T::budget, StructForm<BudgetConfig>{});
  visit(Key{"scaling",
            "How many replicas of its server the pool may have, for `/api/v1/scaling`, the metric "
            "of desired replicas, and KEDA.",
            "none are asked for"},
        &T::scaling, OptionalForm<StructForm<ScalingConfig>>{});
  each_reuse_key(visit);
  visit(Key{"debug_headers",
            "Whether responses name their backend and pool in x-evenkeel-backend and "
            "x-evenkeel-pool."},
        &T::debug_headers, FlagForm{});
}

inline constexpr milliseconds engine_default{-1};

inline void prepare(Of<PoolConfig>, PoolConfig& pool) {
  pool.keep_alive.idle = engine_default;
  pool.health.timeout = engine_default;
}
void check_hosted(const Node& node, const PoolConfig& pool);

inline void finish(Of<PoolConfig>, Node& node, PoolConfig& pool) {
  if (pool.hosted) check_hosted(node, pool);
  if (!node.has("backends") && !pool.discover) {
    node.fail_missing(node.path() + ".backends", "missing key 'backends'",
                      "or let `discover` find them");
  }
  if (pool.models.empty() && pool.model.empty()) {
    for (const auto& [name, served] : pool.model_names) pool.models.push_back(name);
  }
  if (!node.has("protocol")) pool.protocol = default_protocol(pool);
  if (pool.keep_alive.idle == engine_default)
    pool.keep_alive.idle = default_keep_alive_idle(pool.engine);
  if (pool.health.timeout == engine_default)
    pool.health.timeout = default_health_timeout(pool.engine);
  const bool standby_only =
      !pool.backends.empty() && !pool.discover &&
      std::all_of(pool.backends.begin(), pool.backends.end(),
                  [](const BackendConfig& backend) { return backend.standby; });
  if (pool.picker.has_scheduler() && pool.limits.queue.size == 0) {
    node.fail("has no queue, in which `picker: expected-time` holds requests",
              "let `limits.queue.size` be 1 or more, or choose another picker");
  }
  if (standby_only)
    node.fail("has only standby backends", "remove `standby: true` from one of them");
}
void extend_schema(Of<PoolConfig>, Tree& schema);
inline void derive(Of<PoolConfig>, PoolConfig& defaults, const PoolConfig& pool) {
  defaults.health.timeout = default_health_timeout(pool.engine);
  defaults.keep_alive.idle = default_keep_alive_idle(pool.engine);
  defaults.protocol = default_protocol(pool);
}

}  // namespace evenkeel::config_file
