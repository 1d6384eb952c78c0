#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <string_view>

#include "config/compound_forms.h"
#include "config/forms.h"
#include "evenkeel/config/engine_traits.h"
#include "evenkeel/config/picker_list.h"

// The field table: every key of the file, with its form (type, range), its member (whose
// initialiser in config.h is the default) and its sentence. The readers, the printer, the JSON
// Schema and docs/configuration.md all come from here.
namespace evenkeel::config_file {

using namespace std::chrono_literals;

inline constexpr std::uint64_t KiB = 1024;
inline constexpr std::uint64_t MiB = 1024 * KiB;
inline constexpr std::uint64_t TiB = MiB * MiB;
inline constexpr std::int64_t million = 1'000'000;

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
inline constexpr std::array<std::string_view, 2> half_close_words = {"abort", "wait"};
inline constexpr std::array<std::string_view, 2> client_auth_words = {"require", "request"};
inline constexpr std::array<std::string_view, 2> tls_version_words = {"1.2", "1.3"};
inline constexpr std::array<std::string_view, 5> health_check_words = {"auto", "http", "grpc",
                                                                       "tcp", "off"};
inline constexpr std::array<std::string_view, 3> model_check_words = {"off", "required",
                                                                      "generate"};
inline constexpr std::array<std::string_view, 2> scrape_words = {"auto", "off"};
inline constexpr std::array<std::string_view, 2> weight_source_words = {"configured", "observed"};
inline constexpr std::array<std::string_view, 5> retry_words = {"overload", "gateway-error", "5xx",
                                                                "reset", "timeout"};
inline constexpr std::array<std::string_view, 3> readyz_words = {"any", "all", "never"};
inline constexpr std::array<std::string_view, 1> access_log_format_words = {"json"};

// Lower-case letters, digits, '.', '_', '-': what a metric label and a URL take unquoted.
inline constexpr std::string_view name_pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$";

template <>
struct Fields<CertificateConfig> {
  template <class Visit>
  static void each(Visit&& visit) {
    using T = CertificateConfig;
    visit(Key{"cert", "PEM file with the certificate chain.", true}, &T::cert,
          TextForm{"the path of a file", check_not_empty});
    visit(Key{"key", "PEM file with the private key, without a passphrase.", true}, &T::key,
          TextForm{"the path of a file", check_not_empty});
  }
};

template <>
struct Fields<ListenerTlsConfig> {
  template <class Visit>
  static void each(Visit&& visit) {
    using T = ListenerTlsConfig;
    visit(Key{"certificates",
              "One per name or group of names (such as `*.example.com`), selected by the client's "
              "SNI; the first is the default.",
              true},
          &T::certificates,
          ListForm<StructForm<CertificateConfig>>{{}, "a list of certificates", false});
    visit(Key{"client_ca",
              "PEM file with the authorities that verify client certificates. `listeners` forward "
              "them in x-forwarded-client-cert.",
              false, "no client certificates"},
          &T::client_ca, TextForm{"the path of a file", check_not_empty});
    visit(Key{"client_auth",
              "Whether a client certificate is mandatory (`require`) or optional (`request`); a "
              "certificate that is sent must be valid in either case. Only with `client_ca`."},
          &T::client_auth, EnumForm<ClientAuth>{"client_auth", client_auth_words});
    visit(Key{"min_version", "The oldest TLS version that is accepted."}, &T::min_version,
          EnumForm<TlsVersion>{"min_version", tls_version_words});
  }

  static void finish(Node& node, ListenerTlsConfig& tls) {
    if (tls.client_auth == ClientAuth::request && tls.client_ca.empty()) {
      node.fail("'client_auth' has no effect without 'client_ca'",
                "add client_ca: FILE, with the authorities that verify client certificates");
    }
  }
};

template <>
struct Fields<ListenerTimeouts> {
  template <class Visit>
  static void each(Visit&& visit) {
    using T = ListenerTimeouts;
    visit(Key{"header",
              "Maximum time from the first byte of a request to the end of its head; then 408."},
          &T::header, DurationForm{});
    visit(Key{"idle",
              "Maximum idle time between requests; then the connection is closed. Before the first "
              "request, `header` applies."},
          &T::idle, DurationForm{});
    visit(Key{"body",
              "Maximum pause within a request body; then 408. Not for gRPC calls on routes with "
              "`match.grpc`, since streams may pause."},
          &T::body, DurationForm{});
    visit(Key{"write",
              "Maximum time without progress in sending a response to the client; then the "
              "connection is closed."},
          &T::write, DurationForm{});
    visit(Key{"linger",
              "How long the rest of a request that was answered before its end is read and "
              "discarded before its connection is closed, so that the client sees the response; at "
              "most 5 s without a byte."},
          &T::linger, DurationForm{});
    visit(Key{"handshake", "Maximum time for the TLS handshake; then the connection is closed."},
          &T::handshake, DurationForm{});
  }
};

template <>
struct Fields<ListenerLimits> {
  template <class Visit>
  static void each(Visit&& visit) {
    using T = ListenerLimits;
    visit(Key{"header", "Maximum size of a request head including the request line; 431 beyond."},
          &T::header_bytes, SizeForm{KiB, 64 * KiB});
    visit(Key{"header_fields", "Maximum number of header fields in a request; 431 beyond."},
          &T::header_fields, CountForm{1, 10'000});
    visit(Key{"uri", "Maximum length of the request target; 414 beyond."}, &T::uri_bytes,
          SizeForm{64, 64 * KiB});
    visit(Key{"body",
              "Maximum size of a request body; 413 beyond. Not for gRPC calls on routes with "
              "`match.grpc`, since streams may be endless."},
          &T::body_bytes, SizeForm{0, TiB});
    visit(
        Key{"body_rate",
            "Minimum rate, per second, at which a request body must arrive, after 10 s of waiting "
            "for it; 408 below. Time during which evenkeel does not read does not count. 0B: no "
            "minimum. Not for gRPC calls on routes with `match.grpc`."},
        &T::body_rate_bytes, SizeForm{0, 1024 * MiB});
    visit(Key{"linger",
              "How much of a request that was answered before its end is read and discarded before "
              "its connection is closed."},
          &T::linger_bytes, SizeForm{0, TiB});
    visit(Key{"max_connections",
              "Maximum number of connections, over all workers; 0: no limit. At the limit the "
              "connection that is idle longest is closed for a new one; while none is idle, new "
              "ones wait to be accepted."},
          &T::max_connections, CountForm{0, 10 * million});
    visit(Key{"max_streams", "Maximum number of concurrent requests on an HTTP/2 connection."},
          &T::max_streams, CountForm{1, 10'000});
  }
};

template <>
struct Fields<ListenerConfig> {
  template <class Visit>
  static void each(Visit&& visit) {
    using T = ListenerConfig;
    visit(Key{"name", "Its name in logs, metrics and the start-up message."}, &T::name,
          TextForm{"a name", check_name, name_pattern});
    visit(Key{"address",
              "The address to listen on; `:8080` means every IPv4 address, port 0 lets the kernel "
              "choose."},
          &T::address, listen_address());
    visit(Key{"tls", "Serve TLS; ALPN selects HTTP/2 or HTTP/1.1 as the client prefers.", false,
              "cleartext"},
          &T::tls, OptionalForm<ListenerTlsConfig>{});
    visit(Key{"timeouts", "Timeouts towards clients."}, &T::timeouts,
          StructForm<ListenerTimeouts>{});
    visit(Key{"limits", "Limits for clients."}, &T::limits, StructForm<ListenerLimits>{});
    visit(Key{"proxy_protocol",
              "Networks of load balancers that start each connection with a PROXY header, version "
              "1 or 2. On connections from these networks the header is required and gives the "
              "address of the client; on others it is not accepted.",
              false, "none"},
          &T::proxy_protocol, ScalarListForm<NetworkForm>{{{}, "a list of networks"}});
    visit(Key{"trusted_proxies",
              "Networks (10.0.0.0/8, ::1) of proxies whose Forwarded, X-Forwarded-* and X-Real-IP "
              "fields are trusted; from others these fields are replaced or removed.",
              false, "none"},
          &T::trusted_proxies, ScalarListForm<NetworkForm>{{{}, "a list of networks"}});
    visit(Key{"half_close",
              "What to do when a client closes only its sending side: `abort` the request, since a "
              "disconnect looks the same, or `wait` and respond."},
          &T::half_close, EnumForm<HalfClose>{"half_close", half_close_words});
  }
};

template <>
struct Fields<AdminConfig> {
  template <class Visit>
  static void each(Visit&& visit) {
    visit(
        Key{"address", "The address of /metrics, /healthz, /readyz and /api/v1; keep it private."},
        &AdminConfig::address, listen_address());
    visit(Key{"token_file",
              "File with the token that allows changes (drain, weight, reload) from other "
              "machines, sent as `authorization: Bearer TOKEN`.",
              false, "none: changes from loopback only"},
          &AdminConfig::token_file, TextForm{"the path of a file", check_not_empty});
    visit(Key{"hosts",
              "Host names by which `/metrics`, `/healthz` and `/readyz` may be requested; `*` "
              "stands for any text. IP addresses and `localhost` are always accepted. `/api/v1` "
              "accepts these and the names without `*`.",
              false, "any name"},
          &AdminConfig::hosts,
          ScalarListForm<TextForm>{
              {TextForm{"a host name", check_not_empty}, "a list of host names"}});
    visit(Key{"readyz",
              "When `/readyz` answers 503, besides during start and drain: `any`: while no pool "
              "has a backend that is up; `all`: while at least one pool has none; `never`: never "
              "because of pools."},
          &AdminConfig::readyz, EnumForm<ReadyzRule>{"readyz", readyz_words});
    visit(Key{"tls",
              "TLS for the admin listener, with the keys of a client listener. It ignores SNI: of "
              "several certificates it uses the first of each key type (RSA, ECDSA). It forwards "
              "no client certificates.",
              false, "none"},
          &AdminConfig::tls, OptionalForm<ListenerTlsConfig>{});
  }
};

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
              "`health.interval`, those after the second ten times as long as this. Where evenkeel "
              "probes the backend, or `retry` covers its failures, each lasts twice as long as the "
              "last, but no longer than this."},
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
struct Fields<QueueConfig> {
  template <class Visit>
  static void each(Visit&& visit) {
    using T = QueueConfig;
    visit(Key{"size", "Maximum number of waiting requests; 429 beyond. 0: no queue."}, &T::size,
          CountForm{0, million});
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
    visit(Key{"picker", "The load-balancing policy."}, &T::picker,
          ChoiceForm{"picker", picker_words});
    visit(Key{"hash", "Settings of `picker: consistent-hash`."}, &T::hash,
          StructForm<HashConfig>{});
    visit(Key{"gpu", "Settings of `picker: gpu`."}, &T::gpu, StructForm<GpuConfig>{});
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
    if (spares_only)
      node.fail("has only standby backends", "remove `standby: true` from one of them");
  }
  static void derive(PoolConfig& defaults, const PoolConfig& pool) {
    defaults.health.timeout = default_health_timeout(pool.engine);
    defaults.keep_alive.idle = default_keep_alive_idle(pool.engine);
    defaults.protocol = default_protocol(pool);
  }
};

template <>
struct Fields<RouteMatch> {
  template <class Visit>
  static void each(Visit&& visit) {
    using T = RouteMatch;
    visit(Key{"host",
              "Host name of the request, without port: `api.example.com`, or "
              "`*.example.com` for every name below.",
              false, "any"},
          &T::host, TextForm{"a host name", check_host_pattern});
    visit(Key{"path",
              "Path of the request: `*` matches one segment, `**` at the end matches any rest, "
              "including none; without them exactly this path matches.",
              false, "any"},
          &T::path, TextForm{"a path", check_path_pattern, "^/"});
    visit(Key{"header", "Header fields that the request must have, with exactly these values.",
              false, "any"},
          &T::header, TextMapForm{"a mapping of header fields to values", check_header_name});
    visit(Key{"method", "Methods, such as `POST` or `[GET, HEAD]`.", false, "any"}, &T::method,
          TextOrListForm{{{TextForm{"a method", check_method}, "a method or a list of methods"}}});
    visit(Key{"grpc",
              "gRPC calls of a service (`inference.GRPCInferenceService`), of a method "
              "(`grpc.health.v1.Health/Check`), or of a list of these.",
              false, "any"},
          &T::grpc,
          TextOrListForm{{{TextForm{"a gRPC service", check_grpc_name},
                           "a gRPC service or a list of gRPC services"}}});
  }
};

// The default name of a route: "api.example.com/v1/**", or "api.example.com/package.Service/*" if
// it matches only gRPC.
std::string name_of(const RouteMatch& match);

template <>
struct Fields<RouteConfig> {
  template <class Visit>
  static void each(Visit&& visit) {
    using T = RouteConfig;
    visit(Key{"name", "Its name in logs and metrics.", false, "host and path"}, &T::name,
          TextForm{"a name", check_not_empty});
    visit(Key{"match", "Conditions on the request; an absent condition matches every request.",
              false, "all"},
          &T::match, StructForm<RouteMatch>{});
    visit(Key{"pool", "The pool that gets the requests.", false, "this or `split`"}, &T::targets,
          SingleTargetForm{});
    visit(Key{"split",
              "Pools with their shares: `{stable: 95, canary: 5}`. The shares need not add up to "
              "100.",
              false, "this or `pool`"},
          &T::targets, SplitForm{});
    visit(Key{"retry",
              "Instead of the pool's `retry`, for requests of this route; absent keys have their "
              "defaults. The budget stays the pool's.",
              false, "the pool's"},
          &T::retry, OptionalForm<RetryRules>{});
  }

  static void finish(Node& node, RouteConfig& route) {
    if (route.name.empty()) route.name = name_of(route.match);
    if (!node.has("pool") && !node.has("split")) {
      node.fail_missing(node.path(), "has no target",
                        "add 'pool: NAME' or 'split: {NAME: SHARE, ...}'");
    }
    if (node.has("pool") && node.has("split")) {
      node.fail("'pool' and 'split' exclude each other");
    }
  }
  static void derive(RouteConfig& defaults, const RouteConfig& route) {
    defaults.name = name_of(route.match);
  }
  static void extend_schema(Tree& schema);
};

template <>
struct Fields<AccessLogConfig> {
  template <class Visit>
  static void each(Visit&& visit) {
    using T = AccessLogConfig;
    visit(Key{"path", "`stdout`, `stderr`, `off`, or a file, which SIGUSR1 reopens."}, &T::path,
          TextForm{"stdout, stderr, off or a file", check_not_empty});
    visit(Key{"format", "The format of a line."}, &T::format,
          EnumForm<AccessLogFormat>{"format", access_log_format_words});
  }
};

template <>
struct Fields<ShutdownConfig> {
  template <class Visit>
  static void each(Visit&& visit) {
    using T = ShutdownConfig;
    visit(Key{"drain",
              "Maximum time for requests in flight to finish after SIGTERM; then the rest is cut "
              "off and the exit code is 3."},
          &T::drain, DurationForm{0ms, 24h});
    visit(Key{"delay",
              "How long /readyz answers 503 before the listeners close, so that a load balancer in "
              "front can react."},
          &T::delay, DurationForm{0ms, 1h});
  }
};

template <>
struct Fields<DnsConfig> {
  template <class Visit>
  static void each(Visit&& visit) {
    using T = DnsConfig;
    visit(Key{"servers", "Name servers, as `host:port` with an IP address.", false, "the system's"},
          &T::servers, ScalarListForm<AddressForm>{{name_server_address(), "a list of addresses"}});
    visit(Key{"min_ttl", "Minimum time to cache an answer, whatever its TTL."}, &T::min_ttl,
          DurationForm{100ms, 1h});
    visit(Key{"max_ttl", "Maximum time to cache an answer, whatever its TTL."}, &T::max_ttl,
          DurationForm{100ms, 24h});
  }
};

template <>
struct Fields<ProcessLimits> {
  template <class Visit>
  static void each(Visit&& visit) {
    visit(
        Key{"memory",
            "How much memory the process may use. `auto`: the limit of its cgroup, if it has one. "
            "A percentage is that of the cgroup's limit, or else of the machine's memory. At 90 % "
            "of it, idle connections are closed and new ones wait; at 95 %, requests get 503."},
        &ProcessLimits::memory, MemoryLimitForm{});
  }
};

template <>
struct Fields<Config> {
  template <class Visit>
  static void each(Visit&& visit) {
    using T = Config;
    visit(Key{"version", "The version of the file format."}, &T::version, IntegerForm<int>{1, 1});
    visit(Key{"listeners", "Addresses that clients connect to.", false,
              "one, `public` on `0.0.0.0:8080`"},
          &T::listeners, ListForm<StructForm<ListenerConfig>>{{}, "a list of listeners", false});
    visit(Key{"admin", "The admin listener, for operators and monitoring."}, &T::admin,
          StructForm<AdminConfig>{});
    visit(Key{"workers", "Number of threads that proxy requests; `auto` is one per core."},
          &T::workers, WorkersForm{});
    visit(Key{"pools", "Groups of interchangeable servers.", true}, &T::pools,
          ListForm<StructForm<PoolConfig>>{{}, "a list of pools", false});
    visit(Key{"routes",
              "Rules that assign requests to pools; the first one that matches applies. Requests "
              "without a match get 404. A file with one pool needs no routes.",
              false, "everything to the only pool"},
          &T::routes, ListForm<StructForm<RouteConfig>>{{}, "a list of routes"});
    visit(Key{"access_log", "One log line per request."}, &T::access_log,
          StructForm<AccessLogConfig>{});
    visit(Key{"dns",
              "DNS resolution of backends. A name with several addresses becomes several backends; "
              "it is resolved again when its answer expires."},
          &T::dns, StructForm<DnsConfig>{});
    visit(Key{"limits", "Limits of the process."}, &T::limits, StructForm<ProcessLimits>{});
    visit(Key{"shutdown", "How the daemon stops."}, &T::shutdown, StructForm<ShutdownConfig>{});
    visit(Key{"state_file",
              "File in which the daemon keeps what the next one continues with: drains and weights "
              "that operators have set, and what it has learned of its backends. Written every "
              "minute and at the end, read at the start.",
              false, "none"},
          &T::state_file, TextForm{"the path of a file", check_not_empty});
  }

  static void finish(Node&, Config& config) {
    if (config.routes.empty()) config.routes = implied_routes(config);
  }
  static void derive(Config& defaults, const Config& config) {
    defaults.routes = implied_routes(config);
  }

  static std::vector<RouteConfig> implied_routes(const Config& config) {
    if (config.pools.size() != 1) return {};
    return {RouteConfig{.name = "default", .match = {}, .targets = {{config.pools[0].name, 1}}}};
  }
};

}  // namespace evenkeel::config_file
