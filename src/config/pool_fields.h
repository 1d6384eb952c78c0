#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <string_view>

#include "config/compound_forms.h"
#include "config/forms.h"
#include "evenkeel/config/engine_traits.h"
#include "evenkeel/config/picker_list.h"

// The part of the field table (fields.h) for pools and their backends.
namespace evenkeel::config_file {

using namespace std::chrono_literals;

inline constexpr auto engine_words = [] {
  std::array<std::string_view, std::size(all_engine_traits)> words;
  std::ranges::transform(all_engine_traits, words.begin(), &EngineTraits::name);
  return words;
}();
#define EVENKEEL_PICKER_WORD(name, factory) name,
inline constexpr auto picker_words =
    std::to_array<std::string_view>({EVENKEEL_PICKERS(EVENKEEL_PICKER_WORD)});
#undef EVENKEEL_PICKER_WORD
inline constexpr std::array<std::string_view, 3> protocol_words = {"auto", "http1", "h2"};
inline constexpr std::array<std::string_view, 5> health_check_words = {"auto", "http", "grpc",
                                                                       "tcp", "off"};
inline constexpr std::array<std::string_view, 3> model_check_words = {"off", "required",
                                                                      "generate"};
inline constexpr std::array<std::string_view, 2> stream_usage_words = {"auto", "off"};
inline constexpr std::array<std::string_view, 2> scrape_words = {"auto", "off"};
inline constexpr std::array<std::string_view, 2> weight_source_words = {"configured", "observed"};
inline constexpr std::array<std::string_view, 5> retry_words = {"overload", "gateway-error", "5xx",
                                                                "reset", "timeout"};

template <>
struct Fields<BackendConfig> {
  template <class Visit>
  static void each(Visit&& visit) {
    using T = BackendConfig;
    visit(Key{"address",
              "The address of the server: `host:port`, `http://host:port`, or `https://host:port` "
              "for TLS.",
              true},
          &T::address, backend_address());
    visit(Key{"weight",
              "Its share of the requests relative to the others of the pool; `round-robin` ignores "
              "it."},
          &T::weight, CountForm{1, 1'000});
    visit(Key{"zone", "Its location, shown in the admin API.", false, "unknown"}, &T::zone,
          TextForm{"a zone", check_not_empty});
    visit(Key{"labels", "Labels shown in the admin API, such as `{gpu: h100}`.", false, "none"},
          &T::labels, TextMapForm{"a mapping of labels to values", check_not_empty});
    visit(
        Key{"standby", "A standby backend: gets requests only while others are down or saturated."},
        &T::standby, FlagForm{});
    visit(Key{"api_key_file",
              "File with the API key of the server. Requests and checks carry it as "
              "`authorization: Bearer KEY`, in place of the client's own.",
              false, "none"},
          &T::api_key_file, TextForm{"the path of a file", check_not_empty});
    visit(
        Key{"metrics",
            "URL of its metrics, if it differs from the pool's `metrics`: `http://host:port/path`.",
            false, "as in the pool"},
        &T::metrics, TextForm{"a URL", check_url, "^https?://|\\$\\{"});
    visit(Key{"gpus",
              "Its GPUs, as the GPU exporter labels them: `0`, a UUID, or `Hostname/0` if the "
              "exporter covers several hosts.",
              false, "all GPUs of the exporter"},
          &T::gpus,
          ScalarListForm<TextForm>{{TextForm{"a GPU", check_not_empty}, "a list of GPUs"}});
  }
};

template <>
struct Fields<HealthConfig> {
  template <class Visit>
  static void each(Visit&& visit) {
    using T = HealthConfig;
    visit(Key{"check",
              "The kind of check: `http`, `grpc` (grpc.health.v1), `tcp` (connect only), `off`, or "
              "`auto`: the check that suits the engine, and none for `generic` unless `path` is "
              "given."},
          &T::check, EnumForm<HealthCheckKind>{"check", health_check_words});
    visit(Key{"path", "Path that `http` requests; any status but 200 is a failure.", false,
              "by engine"},
          &T::path, TextForm{"a path", check_plain_path, "^/"});
    visit(Key{"port", "Port that is checked; 0: the port of the backend."}, &T::port,
          IntegerForm<std::uint16_t>{0, 65'535});
    visit(Key{"service", "Service that `grpc` checks.", false, "the whole server"}, &T::service,
          TextForm{"a gRPC service", check_not_empty});
    visit(Key{"interval", "Time between two checks of a backend, plus or minus a tenth."},
          &T::interval, DurationForm{100ms, 1h});
    visit(Key{"timeout", "Maximum time for a check; then it has failed.", false,
              "by engine: `5s` for `sglang`, `ray`, `torchserve` and `auto`, else `1s`"},
          &T::timeout, DurationForm{10ms, 10min});
    visit(Key{"fall", "Consecutive failures that make a backend `down`."}, &T::fall,
          CountForm{1, 1'000});
    visit(Key{"rise",
              "Consecutive successes that make it `up` again; before it was first `up`, one is "
              "enough."},
          &T::rise, CountForm{1, 1'000});
    visit(Key{"model",
              "`required`: the server must also list every model in `models`. `generate`: in "
              "addition each model must generate a token within 10s, requested every 10s while the "
              "backend is up."},
          &T::model, EnumForm<ModelCheck>{"model", model_check_words});
    visit(Key{"latency",
              "A check that takes longer counts as failed, for servers that pass checks but serve "
              "users badly. 0s: no limit."},
          &T::latency, DurationForm{0ms, 10min});
  }
};

template <>
struct Fields<MetricsConfig> {
  template <class Visit>
  static void each(Visit&& visit) {
    using T = MetricsConfig;
    visit(Key{"scrape",
              "Whether the backends' metrics are polled: `auto`, if the engine is known to have "
              "any, or `off`."},
          &T::scrape, EnumForm<Scrape>{"scrape", scrape_words});
    visit(Key{"interval",
              "Time between two polls of a backend; longer if its engine is slow to answer."},
          &T::interval, DurationForm{50ms, 1h});
    visit(Key{"timeout", "Maximum time for a poll."}, &T::timeout, DurationForm{10ms, 10min});
    visit(Key{"path", "Path of the metrics.", false, "by engine"}, &T::path,
          TextForm{"a path", check_plain_path, "^/"});
    visit(Key{"port",
              "Port of the metrics; 0: the engine's metrics port, otherwise the backend's port."},
          &T::port, IntegerForm<std::uint16_t>{0, 65'535});
    visit(Key{"gpu",
              "URL of a GPU exporter (DCGM, nvidia_gpu_exporter, AMD's), such as "
              "`http://host:9400/metrics`.",
              false, "none"},
          &T::gpu, TextForm{"a URL", check_url, "^https?://|\\$\\{"});
    visit(Key{"orca",
              "Requests ask for a report of the engine's load with their response (ORCA), as vLLM "
              "and Triton with TensorRT-LLM give it. It is not passed on to clients that did not "
              "ask for it."},
          &T::orca, FlagForm{});
  }
};

template <>
struct Fields<GpuConfig> {
  template <class Visit>
  static void each(Visit&& visit) {
    visit(Key{"memory_guard",
              "Share of GPU memory or KV cache in use (0.95 is 95 %) beyond which a backend gets "
              "requests only if all others are beyond it too or unavailable."},
          &GpuConfig::memory_guard, RatioForm{0.1, 1});
  }
};

template <>
struct Fields<SloConfig> {
  template <class Visit>
  static void each(Visit&& visit) {
    visit(Key{"ttft", "Time to the first token. 0s: not said.", false}, &SloConfig::ttft,
          DurationForm{0ms, 1h});
    visit(Key{"tpot", "Mean time per output token after the first one. 0s: not said.", false},
          &SloConfig::tpot, DurationForm{0ms, 1min});
  }
};

template <>
struct Fields<ExpectedTimeConfig> {
  template <class Visit>
  static void each(Visit&& visit) {
    using T = ExpectedTimeConfig;
    visit(
        Key{"shed",
            "A request gets 429 with `retry-after` once its age and its prompt's time exceed this "
            "many times the `ttft` of its SLO; with priority `batch` four times as many. 0: "
            "never, else at least 1."},
        &T::shed, RatioForm{0, 100});
    visit(Key{"index_memory", "Memory for what the backends' prefix caches are believed to hold."},
          &T::index_bytes, SizeForm{1UL << 20, 16UL << 30});
    visit(Key{"shared_backends",
              "Whether others send requests to these backends too; how many is then estimated from "
              "what the engines report (`metrics`)."},
          &T::shared_backends, FlagForm{});
    visit(Key{"explain_one_in",
              "The decision about one request in so many is kept for a while, to be explained "
              "(`/api/v1/decisions/ID`) and for `shadow_picker`. 0: only of requests that ask."},
          &T::explain_one_in, CountForm{0, 1'000'000});
  }

  static void finish(Node& node, ExpectedTimeConfig& config) {
    if (config.shed <= 0 || config.shed >= 1) return;
    node.fail("has a `shed` between 0 and 1, which would refuse long prompts on idle backends",
              "write 0 for never, or 1 or more");
  }
};

template <>
struct Fields<SparesConfig> {
  template <class Visit>
  static void each(Visit&& visit) {
    using T = SparesConfig;
    visit(Key{"enter",
              "Load relative to the capacity of the active backends at which a standby backend "
              "joins."},
          &T::enter, RatioForm{0.1, 1});
    visit(
        Key{"leave",
            "Load relative to the capacity without it at which the last one to join leaves again."},
        &T::leave, RatioForm{0.05, 1});
    visit(Key{"dwell", "How long the load must stay at or below `leave` before it leaves."},
          &T::dwell, DurationForm{0ms, 24h});
  }

  static void finish(Node& node, SparesConfig& spares) {
    if (spares.leave >= spares.enter) {
      node.fail("'leave' must be below 'enter'",
                "otherwise standby backends would join and leave all the time");
    }
  }
};

template <>
struct Fields<OutlierConfig> {
  template <class Visit>
  static void each(Visit&& visit) {
    using T = OutlierConfig;
    visit(Key{"consecutive",
              "Failed requests in a row (5xx but 503, resets, malformed responses, timeouts) that "
              "eject a backend while another one does better; three fifths of them do while no "
              "other backend has failed lately. 0: they eject none."},
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
};

template <>
struct Fields<HashConfig> {
  template <class Visit>
  static void each(Visit&& visit) {
    using T = HashConfig;
    visit(Key{"header",
              "Requests with the same value of this header field go to the same backend; those "
              "without it are spread at random."},
          &T::header, TextForm{"the name of a header field", check_header_name});
    visit(Key{"load_factor",
              "No backend gets more than this times its fair share of the requests in flight; "
              "further requests go to the next candidate."},
          &T::load_factor, RatioForm{1.01, 1000});
  }
};

template <>
struct Fields<AffinityConfig> {
  template <class Visit>
  static void each(Visit&& visit) {
    using T = AffinityConfig;
    visit(Key{"by",
              "What names the session of a request; the first of these that it has. `header:NAME`: "
              "the value of a header field; `cookie:NAME`: of a cookie; `cookie`: of the cookie "
              "`evenkeel-session`, which evenkeel sets if a request has no session; `session_id`, "
              "`sequence_id`: of the body, which implies `inspect`."},
          &T::by,
          ScalarListForm<TextForm>{
              {TextForm{"a source", check_session_source}, "a list of sources", false}});
    visit(Key{"ttl", "How long a session is remembered after its last request."}, &T::ttl,
          DurationForm{1s, 720h});
    visit(Key{"max_sessions",
              "How many sessions are remembered, at 18 bytes each. From half of it on, some that "
              "were idle longest make room for new ones."},
          &T::max_sessions, CountForm{1, 10 * million});
  }
};

template <>
struct Fields<QueueConfig> {
  template <class Visit>
  static void each(Visit&& visit) {
    using T = QueueConfig;
    visit(Key{"size",
              "Maximum number of waiting requests; 429 beyond. Each version that a split names has "
              "this number of its own, and so have the requests for any. 0: no queue."},
          &T::size, CountForm{0, million});
    visit(Key{"timeout", "Maximum wait; then 503."}, &T::timeout, DurationForm{});
  }
};

template <>
struct Fields<PoolLimits> {
  template <class Visit>
  static void each(Visit&& visit) {
    using T = PoolLimits;
    visit(Key{"max_in_flight",
              "Maximum number of requests in flight on one backend, over all workers; when every "
              "backend is full, requests wait. 0: no limit."},
          &T::max_in_flight, CountForm{0, million});
    visit(Key{"queue", "The queue of the pool."}, &T::queue, StructForm<QueueConfig>{});
  }
};

template <>
struct Fields<PoolTimeouts> {
  template <class Visit>
  static void each(Visit&& visit) {
    using T = PoolTimeouts;
    visit(
        Key{"connect", "Maximum time to connect to a backend; then another one is tried, or 504."},
        &T::connect, DurationForm{});
    visit(Key{"first_byte",
              "Maximum time from the end of a request to the beginning of its response, then 504: "
              "to the first byte of a stream's body, or to the head. A long prompt in a long queue "
              "takes minutes."},
          &T::first_byte, DurationForm{});
    visit(Key{"idle",
              "Maximum pause within a response; then it is aborted. The total time of a response "
              "is not limited."},
          &T::idle, DurationForm{});
    visit(Key{"grpc_deadline",
              "Longest time that a gRPC call may ask for with `grpc-timeout`; a longer one is "
              "lowered to it. Calls without `grpc-timeout` have no deadline."},
          &T::grpc_deadline, DurationForm{1ms, std::chrono::hours{24 * 365}});
  }
};

template <>
struct Fields<RetryRules> {
  template <class T, class Visit>
  static void each_of(Visit&& visit) {
    visit(Key{"attempts",
              "How often a request is sent to a backend, in all. Connection failures and refusals, "
              "after which no backend has begun, do not count. 1: never again."},
          &T::attempts, CountForm{1, 8});
    visit(Key{"backoff",
              "Range of the random wait before a retry: at most the first value before the first "
              "retry, doubled with each further one up to the second value."},
          &T::backoff, BackoffForm{});
    visit(
        Key{"on",
            "What is retried whatever the method, besides what is safe: `overload` (429 and 503), "
            "`gateway-error` (502, 503 and 504), `5xx`, `reset` (the backend ended the connection "
            "before its response), `timeout`. A retried generation may cost GPU time twice.",
            false, "what is safe"},
        &T::on,
        ScalarListForm<EnumForm<RetryOn>>{
            {EnumForm<RetryOn>{"reason for a retry", retry_words}, "a list of reasons"}});
    visit(Key{"idempotency_key",
              "Whether requests with an Idempotency-Key field are retried as GET requests are."},
          &T::idempotency_key, FlagForm{});
    visit(Key{"attempt_timeout",
              "Maximum time from the end of a request to the head of its response, for an attempt "
              "that may be retried after a timeout. 0: only `timeouts.first_byte`."},
          &T::attempt_timeout, DurationForm{0ms, 24h});
    visit(Key{"replay",
              "Largest request body that is kept in memory until the response begins, so that it "
              "can be sent again."},
          &T::replay_bytes, SizeForm{0, 64 * MiB});
  }

  template <class Visit>
  static void each(Visit&& visit) {
    each_of<RetryRules>(visit);
  }
};

template <>
struct Fields<RetryConfig> {
  template <class Visit>
  static void each(Visit&& visit) {
    Fields<RetryRules>::each_of<RetryConfig>(visit);
    visit(
        Key{"budget",
            "Share of the pool's requests that may be retried after a backend has answered or may "
            "have begun, besides a reserve of 10 requests."},
        &RetryConfig::budget, PercentForm{0, 1});
  }
};

template <>
struct Fields<KeepAliveConfig> {
  template <class Visit>
  static void each(Visit&& visit) {
    using T = KeepAliveConfig;
    visit(Key{"idle",
              "How long an idle connection to a backend is kept; must be below the server's own "
              "timeout.",
              false, "by engine: `60s` for `ray`, else `4s` (uvicorn closes after 5 s)"},
          &T::idle, DurationForm{});
    visit(Key{"max_idle", "Maximum number of idle connections, per worker and backend; 0: none."},
          &T::max_idle, CountForm{0, 100'000});
  }
};

template <>
struct Fields<PoolTlsConfig> {
  template <class Visit>
  static void each(Visit&& visit) {
    using T = PoolTlsConfig;
    visit(Key{"verify",
              "Whether to verify the backend's certificate and name. Without verification an "
              "attacker on the network can read and change the traffic."},
          &T::verify, FlagForm{});
    visit(Key{"ca", "PEM file with the trusted authorities.", false, "the system's"}, &T::ca,
          TextForm{"the path of a file", check_not_empty});
    visit(Key{"server_name",
              "The name or IP address that certificates must have, and the SNI that is sent.",
              false, "the host in each backend's address"},
          &T::server_name, TextForm{"a host name", check_not_empty});
    visit(Key{"cert", "PEM file with a client certificate for backends that request one.", false,
              "none"},
          &T::cert, TextForm{"the path of a file", check_not_empty});
    visit(Key{"key", "PEM file with the private key, without a passphrase.", false, "none"},
          &T::key, TextForm{"the path of a file", check_not_empty});
  }

  static void finish(Node& node, PoolTlsConfig&) {
    if (node.has("cert") != node.has("key")) {
      node.fail(node.has("cert") ? "'cert' needs 'key'" : "'key' needs 'cert'",
                "give both, or neither");
    }
  }
};

template <>
struct Fields<PoolConfig> {
  // Long: a paragraph for each key.
  template <class Visit>
  static void each(Visit&& visit) {
    using T = PoolConfig;
    visit(Key{"name", "Its name in routes, logs and metrics.", true}, &T::name,
          TextForm{"a name", check_name, name_pattern});
    visit(Key{"engine",
              "The inference server that the backends run; selects defaults. `auto` detects it."},
          &T::engine, ChoiceForm{"engine", engine_words});
    visit(Key{"protocol",
              "Protocol of the backends: `http1`, `h2` (HTTP/2, which gRPC needs), or `auto`: over "
              "TLS, ALPN selects it; in cleartext, the first connection tries HTTP/2 and falls "
              "back to HTTP/1.1.",
              false, "`auto` if a backend speaks TLS, else `http1`"},
          &T::protocol, EnumForm<BackendProtocol>{"protocol", protocol_words});
    visit(Key{"models", "The names of the models that the pool serves.", false, "unknown"},
          &T::models,
          ScalarListForm<TextForm>{
              {TextForm{"the name of a model", check_not_empty}, "a list of model names"}});
    visit(
        Key{"inspect",
            "Whether requests and responses are read for the log, the metrics and the pickers: the "
            "model, tokens, what a stream reports. Their bytes stay as they are. A body that is "
            "not "
            "valid JSON gets 400."},
        &T::inspect, FlagForm{});
    visit(Key{"model",
              "The name under which the backends serve the model: it replaces the one in the "
              "request, in JSON bodies. Implies `inspect`.",
              false, "the name in the request"},
          &T::model, TextForm{"the name of a model", check_model_name});
    visit(
        Key{"stream_usage",
            "Whether engines are asked for the token counts of streams whose clients did not ask, "
            "which are removed from the stream again: `auto`, with `inspect` and an engine that is "
            "known to give them, or `off`."},
        &T::stream_usage, EnumForm<StreamUsage>{"stream_usage", stream_usage_words});
    visit(Key{"picker",
              "The load-balancing policy. `prefix-affinity` and `expected-time` imply `inspect`."},
          &T::picker, ChoiceForm{"picker", picker_words});
    visit(Key{"hash",
              "Settings of `picker: consistent-hash`; `load_factor` is also one of "
              "`prefix-affinity`."},
          &T::hash, StructForm<HashConfig>{});
    visit(Key{"gpu", "Settings of `picker: gpu`."}, &T::gpu, StructForm<GpuConfig>{});
    visit(Key{"slo",
              "What clients are promised, for `picker: expected-time`. Requests may name their own "
              "in `x-slo-ttft-ms` and `x-slo-tpot-ms`.",
              false, "by the speed of the backends"},
          &T::slo, StructForm<SloConfig>{});
    visit(Key{"expected_time", "Settings of `picker: expected-time`."}, &T::expected_time,
          StructForm<ExpectedTimeConfig>{});
    visit(Key{"shadow_picker",
              "Another picker, compared with `picker: expected-time` on the same requests: metrics "
              "tell what its choices would cost. It places none. It is asked about the requests "
              "whose decisions are kept (`expected_time.explain_one_in`).",
              false, "none"},
          &T::shadow_picker, ChoiceForm{"picker", picker_words});
    visit(Key{"weights",
              "Weights for `picker: weighted`: `configured` uses the backends' `weight`; "
              "`observed` learns them from the work that each completes."},
          &T::weights, EnumForm<WeightSource>{"weights", weight_source_words});
    visit(
        Key{"backends", "The servers; a backend without other keys may be just its address.", true},
        &T::backends, ListForm<BackendForm>{{}, "a list of backends", false});
    visit(Key{"tls",
              "TLS to every backend of the pool; `{}` for all defaults. If absent, TLS is used for "
              "backends with https:// in their address.",
              false, "only for https://"},
          &T::tls, OptionalForm<PoolTlsConfig>{});
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
              "rotation; `{}` for all defaults.",
              false, "none"},
          &T::affinity, OptionalForm<AffinityConfig>{});
    visit(Key{"spares", "When backends with `standby: true` join and leave."}, &T::spares,
          StructForm<SparesConfig>{});
    visit(Key{"outlier", "When a backend whose requests fail is taken out of rotation."},
          &T::outlier, StructForm<OutlierConfig>{});
    visit(Key{"slow_start",
              "How long a backend that returns or joins is limited to a growing number of requests "
              "in flight: from a tenth of its fair share up to all of it. 0s: not at all."},
          &T::slow_start, DurationForm{0ms, 1h});
    visit(Key{"fallback",
              "The pool that takes a request when this one has no backend, or its queue is full or "
              "timed out. The response then has the field `x-evenkeel-fallback`.",
              false, "none"},
          &T::fallback, TextForm{"the name of a pool", check_not_empty});
    visit(Key{"debug_headers",
              "Whether responses name their backend and pool in x-evenkeel-backend and "
              "x-evenkeel-pool."},
          &T::debug_headers, FlagForm{});
  }

  static constexpr milliseconds engine_default{-1};

  static void prepare(PoolConfig& pool) {
    pool.keep_alive.idle = engine_default;
    pool.health.timeout = engine_default;
  }
  static void finish(Node& node, PoolConfig& pool) {
    if (!node.has("protocol")) pool.protocol = default_protocol(pool);
    if (pool.keep_alive.idle == engine_default)
      pool.keep_alive.idle = default_keep_alive_idle(pool.engine);
    if (pool.health.timeout == engine_default)
      pool.health.timeout = default_health_timeout(pool.engine);
    const bool spares_only =
        !pool.backends.empty() &&
        std::all_of(pool.backends.begin(), pool.backends.end(),
                    [](const BackendConfig& backend) { return backend.standby; });
    if (pool.picker == "expected-time" && pool.limits.queue.size == 0) {
      node.fail("has no queue, in which `picker: expected-time` holds requests",
                "let `limits.queue.size` be 1 or more, or choose another picker");
    }
    if (spares_only)
      node.fail("has only standby backends", "remove `standby: true` from one of them");
  }
  static void derive(PoolConfig& defaults, const PoolConfig& pool) {
    defaults.health.timeout = default_health_timeout(pool.engine);
    defaults.keep_alive.idle = default_keep_alive_idle(pool.engine);
    defaults.protocol = default_protocol(pool);
  }
};

}  // namespace evenkeel::config_file
