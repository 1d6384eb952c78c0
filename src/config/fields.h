#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <string_view>

#include "config/forms.h"

// The field table: every key of the file, with its form (type, range), its member (whose
// initialiser in config.h is the default) and its sentence. The readers, the printer, the JSON
// Schema and docs/configuration.md all come from here.
namespace evenkeel::config_file {

using namespace std::chrono_literals;

inline constexpr std::uint64_t KiB = 1024;
inline constexpr std::uint64_t MiB = 1024 * KiB;
inline constexpr std::uint64_t TiB = MiB * MiB;
inline constexpr std::int64_t million = 1'000'000;

inline constexpr std::array<std::string_view, 13> engine_words = {
    "vllm",       "sglang",    "triton", "trtllm", "tgi",     "llamacpp", "mlserver",
    "torchserve", "tfserving", "ray",    "ollama", "generic", "auto"};
inline constexpr std::array<std::string_view, 7> picker_words = {
    "round-robin", "weighted", "least-connections", "least-latency",
    "queue-depth", "gpu",      "consistent-hash"};
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
inline constexpr std::array<std::string_view, 1> access_log_format_words = {"json"};

// Lower-case letters, digits, '.', '_', '-': what a metric label and a URL take unquoted.
inline constexpr std::string_view name_pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$";

template <>
struct Fields<CertificateConfig> {
  template <class Visit>
  static void each(Visit&& visit) {
    using T = CertificateConfig;
    visit(Key{"cert", "File with the certificate and those that lead to its root, in PEM form.",
              true},
          &T::cert, TextForm{"the path of a file", check_not_empty});
    visit(Key{"key", "File with its private key, in PEM form and without pass phrase.", true},
          &T::key, TextForm{"the path of a file", check_not_empty});
  }
};

template <>
struct Fields<ListenerTlsConfig> {
  template <class Visit>
  static void each(Visit&& visit) {
    using T = ListenerTlsConfig;
    visit(Key{"certificates",
              "One per name or group of names (`*.example.com` too), chosen by the name that the "
              "client asks for (SNI); the first is for all others.",
              true},
          &T::certificates,
          ListForm<StructForm<CertificateConfig>>{{}, "a list of certificates", false});
    visit(Key{"client_ca",
              "File with the authorities, in PEM form, that may vouch for clients. A client's "
              "certificate is passed on as x-forwarded-client-cert.",
              false, "clients are not asked for certificates"},
          &T::client_ca, TextForm{"the path of a file", check_not_empty});
    visit(Key{"client_auth",
              "Whether a client must show a certificate (`require`) or may (`request`); one that "
              "is shown must be good in either case. Only with `client_ca`."},
          &T::client_auth, EnumForm<ClientAuth>{"client_auth", client_auth_words});
    visit(Key{"min_version", "The oldest version of TLS that is spoken."}, &T::min_version,
          EnumForm<TlsVersion>{"min_version", tls_version_words});
  }

  static void finish(Node& node, ListenerTlsConfig& tls) {
    if (tls.client_auth == ClientAuth::request && tls.client_ca.empty()) {
      node.fail("'client_auth' says nothing without 'client_ca'",
                "add client_ca: FILE, with the authorities that vouch for clients");
    }
  }
};

template <>
struct Fields<ListenerTimeouts> {
  template <class Visit>
  static void each(Visit&& visit) {
    using T = ListenerTimeouts;
    visit(
        Key{"header", "Longest time from a request's first byte to the end of its head; then 408."},
        &T::header, DurationForm{});
    visit(Key{"idle",
              "How long a connection may be silent between requests; then it is closed. Before its "
              "first request `header` applies."},
          &T::idle, DurationForm{});
    visit(Key{"body",
              "Longest pause between two pieces of a request body; then 408. Not for gRPC calls on "
              "routes of `match.grpc`: streams may pause."},
          &T::body, DurationForm{});
    visit(Key{"write",
              "How long a client may take nothing of its response; then the connection is "
              "closed."},
          &T::write, DurationForm{});
    visit(Key{"handshake",
              "Longest time for the whole TLS handshake; then the connection is "
              "closed."},
          &T::handshake, DurationForm{});
  }
};

template <>
struct Fields<ListenerLimits> {
  template <class Visit>
  static void each(Visit&& visit) {
    using T = ListenerLimits;
    visit(Key{"header", "Largest request head, request line included; 431 above."},
          &T::header_bytes, SizeForm{KiB, 64 * KiB});
    visit(Key{"header_fields", "Most header fields in a request; 431 above."}, &T::header_fields,
          CountForm{1, 10'000});
    visit(Key{"uri", "Longest request target; 414 above."}, &T::uri_bytes, SizeForm{64, 64 * KiB});
    visit(Key{"body",
              "Largest request body; 413 above. Not for gRPC calls on routes of `match.grpc`: "
              "streams have no end."},
          &T::body_bytes, SizeForm{0, TiB});
    visit(Key{"max_connections", "Most connections at a time, all workers together; 0: no limit."},
          &T::max_connections, CountForm{0, 10 * million});
    visit(Key{"max_streams", "Most requests at a time on one HTTP/2 connection."}, &T::max_streams,
          CountForm{1, 10'000});
  }
};

template <>
struct Fields<ListenerConfig> {
  template <class Visit>
  static void each(Visit&& visit) {
    using T = ListenerConfig;
    visit(Key{"name", "What logs, metrics and the start-up line call it."}, &T::name,
          TextForm{"a name", check_name, name_pattern});
    visit(Key{"address",
              "Where clients connect; `:8080` means every IPv4 address, port 0 lets the "
              "kernel choose."},
          &T::address, listen_address());
    visit(Key{"tls", "HTTP over TLS; HTTP/2 or HTTP/1.1, as the client prefers (ALPN).", false,
              "in the clear"},
          &T::tls, OptionalForm<ListenerTlsConfig>{});
    visit(Key{"timeouts", "How long a client may take."}, &T::timeouts,
          StructForm<ListenerTimeouts>{});
    visit(Key{"limits", "How much a client may send."}, &T::limits, StructForm<ListenerLimits>{});
    visit(Key{"proxy_protocol",
              "Networks of load balancers that begin each connection with a PROXY header, version "
              "1 or 2: they must, and the client is who the header names. From others no such "
              "header is understood.",
              false, "nobody"},
          &T::proxy_protocol, ScalarListForm<NetworkForm>{{{}, "a list of networks"}});
    visit(Key{"trusted_proxies",
              "Networks (10.0.0.0/8, ::1) of proxies whose Forwarded, X-Forwarded-* and "
              "X-Real-IP fields are believed; those of others are replaced or dropped.",
              false, "nobody"},
          &T::trusted_proxies, ScalarListForm<NetworkForm>{{{}, "a list of networks"}});
    visit(Key{"half_close",
              "When a client closes its sending side and waits: `abort` the request "
              "(a client that is gone looks the same), or `wait` and answer it."},
          &T::half_close, EnumForm<HalfClose>{"half_close", half_close_words});
  }
};

template <>
struct Fields<AdminConfig> {
  template <class Visit>
  static void each(Visit&& visit) {
    visit(Key{"address", "Where /metrics, /healthz, /readyz and /api/v1 are; keep it private."},
          &AdminConfig::address, listen_address());
    visit(Key{"token_file",
              "File with the token that allows changes (drain, weight, reload) from elsewhere, as "
              "`authorization: Bearer TOKEN`.",
              false, "changes come from loopback only"},
          &AdminConfig::token_file, TextForm{"the path of a file", check_not_empty});
  }
};

template <>
struct Fields<BackendConfig> {
  template <class Visit>
  static void each(Visit&& visit) {
    using T = BackendConfig;
    visit(Key{"address",
              "Where the server is: `host:port`, `http://host:port`, or `https://host:port` to "
              "speak TLS with it.",
              true},
          &T::address, backend_address());
    visit(Key{"weight",
              "How much it takes, relative to the others of its pool; `round-robin` "
              "ignores it."},
          &T::weight, CountForm{1, 1'000});
    visit(Key{"zone", "Where it stands, for people and the admin API.", false, "unknown"}, &T::zone,
          TextForm{"a zone", check_not_empty});
    visit(Key{"labels", "Anything else to know it by, such as `{gpu: h100}`.", false, "none"},
          &T::labels, TextMapForm{"a mapping of labels to values", check_not_empty});
    visit(Key{"standby",
              "A spare: gets requests only while the others are down or have too much to do."},
          &T::standby, FlagForm{});
    visit(Key{"api_key_file",
              "File with the key that the server wants. Requests and checks carry it as "
              "`authorization: Bearer KEY`, in place of what the client sent.",
              false, "none"},
          &T::api_key_file, TextForm{"the path of a file", check_not_empty});
    visit(Key{"metrics",
              "Where its metrics are, if not where its pool's `metrics` says: "
              "`http://host:port/path`.",
              false, "as the pool says"},
          &T::metrics, TextForm{"a URL", check_url, "^https?://|\\$\\{"});
    visit(Key{"gpus",
              "Its GPUs, as the GPU exporter labels them: `0`, a UUID, or `Hostname/0` where it "
              "tells of several hosts.",
              false, "all that the exporter tells of"},
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
              "How a backend is asked whether it can serve: `http`, `grpc` (grpc.health.v1), `tcp` "
              "(it takes connections), `off`, or `auto`: as its engine wants to be asked, and not "
              "at all where that is `generic`, unless `path` is given."},
          &T::check, EnumForm<HealthCheckKind>{"check", health_check_words});
    visit(
        Key{"path", "What `http` asks for; every answer but 200 is a failure.", false, "by engine"},
        &T::path, TextForm{"a path", check_plain_path, "^/"});
    visit(Key{"port", "Where it is asked; 0: where its requests go."}, &T::port,
          IntegerForm<std::uint16_t>{0, 65'535});
    visit(Key{"service", "Which service `grpc` asks for.", false, "the whole server"}, &T::service,
          TextForm{"a gRPC service", check_not_empty});
    visit(Key{"interval", "Time between two checks of a backend, give or take a tenth."},
          &T::interval, DurationForm{100ms, 1h});
    visit(Key{"timeout", "Longest time for a check; then it has failed.", false,
              "by engine: `5s` for `sglang`, `ray`, `torchserve` and `auto`, else `1s`"},
          &T::timeout, DurationForm{10ms, 10min});
    visit(Key{"fall", "Failures in a row that take a backend out."}, &T::fall, CountForm{1, 1'000});
    visit(Key{"rise", "Successes in a row that bring it back; at the start one is enough."},
          &T::rise, CountForm{1, 1'000});
    visit(
        Key{"model",
            "`required`: the server must also list every name of `models`; `generate`: each must "
            "really answer one token, for which it has 10s, and once it is up is asked every 10s."},
        &T::model, EnumForm<ModelCheck>{"model", model_check_words});
    visit(Key{"latency",
              "A check that takes longer counts as failed: a server may pass its checks while it "
              "fails its users. 0s: no such limit."},
          &T::latency, DurationForm{0ms, 10min});
  }
};

template <>
struct Fields<MetricsConfig> {
  template <class Visit>
  static void each(Visit&& visit) {
    using T = MetricsConfig;
    visit(Key{"scrape",
              "Whether the backends' metrics are read: `auto`, where the engine is known to have "
              "any, or `off`."},
          &T::scrape, EnumForm<Scrape>{"scrape", scrape_words});
    visit(Key{"interval",
              "Time between two readings of a backend; longer where its engine is slow to answer."},
          &T::interval, DurationForm{50ms, 1h});
    visit(Key{"timeout", "Longest time for a reading."}, &T::timeout, DurationForm{10ms, 10min});
    visit(Key{"path", "Where the metrics are.", false, "by engine"}, &T::path,
          TextForm{"a path", check_plain_path, "^/"});
    visit(Key{"port", "Where they are; 0: the engine's port for metrics, else the backend's."},
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
              "Share of the GPU's memory or of the KV cache beyond which a backend is not picked "
              "while another stands."},
          &GpuConfig::memory_guard, RatioForm{0.1, 1});
  }
};

template <>
struct Fields<SparesConfig> {
  template <class Visit>
  static void each(Visit&& visit) {
    using T = SparesConfig;
    visit(Key{"enter", "Load over what the active backends can carry at which a spare comes in."},
          &T::enter, RatioForm{0.1, 1});
    visit(Key{"leave", "Load over what would be left at which the last one in goes again."},
          &T::leave, RatioForm{0.05, 1});
    visit(Key{"dwell", "How long the load must stay that low."}, &T::dwell, DurationForm{0ms, 24h});
  }

  static void finish(Node& node, SparesConfig& spares) {
    if (spares.leave >= spares.enter) {
      node.fail("'leave' must be below 'enter'", "or spares would come and go all the time");
    }
  }
};

template <>
struct Fields<HashConfig> {
  template <class Visit>
  static void each(Visit&& visit) {
    using T = HashConfig;
    visit(Key{"header",
              "Requests with the same value of this header field go to the same backend; "
              "those without it are spread."},
          &T::header, TextForm{"the name of a header field", check_header_name});
    visit(Key{"load_factor",
              "No backend gets more than this times its fair share of the requests "
              "in flight; what is above goes to the next in line."},
          &T::load_factor, RatioForm{1.01, 1000});
  }
};

template <>
struct Fields<QueueConfig> {
  template <class Visit>
  static void each(Visit&& visit) {
    using T = QueueConfig;
    visit(Key{"size", "How many requests may wait; 429 beyond, at once when 0."}, &T::size,
          CountForm{0, million});
    visit(Key{"timeout", "Longest wait; then 503."}, &T::timeout, DurationForm{});
  }
};

template <>
struct Fields<PoolLimits> {
  template <class Visit>
  static void each(Visit&& visit) {
    using T = PoolLimits;
    visit(Key{"max_in_flight",
              "Most requests at a time on one backend, all workers together; when "
              "every backend is full, requests wait; 0: no limit."},
          &T::max_in_flight, CountForm{0, million});
    visit(Key{"queue", "The waiting line of the pool."}, &T::queue, StructForm<QueueConfig>{});
  }
};

template <>
struct Fields<PoolTimeouts> {
  template <class Visit>
  static void each(Visit&& visit) {
    using T = PoolTimeouts;
    visit(Key{"connect", "Longest time to connect to a backend; then another is asked, or 504."},
          &T::connect, DurationForm{});
    visit(Key{"first_byte",
              "Longest time from the end of a request to the first byte of its "
              "answer; then 504. A long prompt in a long queue takes minutes."},
          &T::first_byte, DurationForm{});
    visit(Key{"idle",
              "Longest pause within an answer; then it is cut off. There is no limit on how "
              "long a whole answer takes."},
          &T::idle, DurationForm{});
  }
};

template <>
struct Fields<KeepAliveConfig> {
  template <class Visit>
  static void each(Visit&& visit) {
    using T = KeepAliveConfig;
    visit(Key{"idle",
              "How long an idle connection to a backend is kept; keep it below the server's "
              "own timeout.",
              false, "by engine: `60s` for `ray`, else `4s` (uvicorn closes after 5 s)"},
          &T::idle, DurationForm{});
    visit(Key{"max_idle", "Most idle connections kept, per worker and backend; 0: none."},
          &T::max_idle, CountForm{0, 100'000});
  }
};

template <>
struct Fields<PoolTlsConfig> {
  template <class Visit>
  static void each(Visit&& visit) {
    using T = PoolTlsConfig;
    visit(Key{"verify",
              "Whether a backend's certificate must be good and for its name. Without, anybody "
              "on the way can read and change what is sent."},
          &T::verify, FlagForm{});
    visit(Key{"ca", "File with the authorities to believe, in PEM form.", false, "the system's"},
          &T::ca, TextForm{"the path of a file", check_not_empty});
    visit(Key{"server_name",
              "The name or IP address that certificates are for, and what is asked for (SNI).",
              false, "the host in each backend's address"},
          &T::server_name, TextForm{"a host name", check_not_empty});
    visit(Key{"cert", "File with a certificate to show to backends that ask, in PEM form.", false,
              "none"},
          &T::cert, TextForm{"the path of a file", check_not_empty});
    visit(Key{"key", "File with its private key, in PEM form and without pass phrase.", false,
              "none"},
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
  template <class Visit>
  static void each(Visit&& visit) {
    using T = PoolConfig;
    visit(Key{"name", "What routes, logs and metrics call it.", true}, &T::name,
          TextForm{"a name", check_name, name_pattern});
    visit(Key{"engine", "The inference server that runs there, for its defaults."}, &T::engine,
          ChoiceForm{"engine", engine_words});
    visit(Key{"protocol",
              "What the backends speak: `http1`, `h2` (HTTP/2, which gRPC needs), or `auto`: over "
              "TLS what both sides prefer (ALPN); in the clear HTTP/2 is tried on the first "
              "connection, and HTTP/1.1 spoken where that is not understood.",
              false, "`auto` if a backend speaks TLS, else `http1`"},
          &T::protocol, EnumForm<BackendProtocol>{"protocol", protocol_words});
    visit(Key{"models", "The names of the models that it serves.", false, "unknown"}, &T::models,
          ScalarListForm<TextForm>{
              {TextForm{"the name of a model", check_not_empty}, "a list of model names"}});
    visit(Key{"picker", "How a backend is chosen for a request."}, &T::picker,
          ChoiceForm{"picker", picker_words});
    visit(Key{"hash", "What `picker: consistent-hash` goes by; other pickers ignore it."}, &T::hash,
          StructForm<HashConfig>{});
    visit(Key{"gpu", "What `picker: gpu` goes by; other pickers ignore it."}, &T::gpu,
          StructForm<GpuConfig>{});
    visit(Key{"weights",
              "Where `picker: weighted` takes weights from: `configured`, the backends' `weight`; "
              "`observed`, what each is seen to get done."},
          &T::weights, EnumForm<WeightSource>{"weights", weight_source_words});
    visit(Key{"backends",
              "The servers; one without weight, zone and labels may be written as its "
              "address alone.",
              true},
          &T::backends, ListForm<BackendForm>{{}, "a list of backends", false});
    visit(Key{"tls",
              "TLS to every backend of the pool; `{}` for all defaults. Without, it is spoken "
              "with those that have https:// in their address.",
              false, "only for https://"},
          &T::tls, OptionalForm<PoolTlsConfig>{});
    visit(Key{"limits", "How much the pool takes at a time."}, &T::limits,
          StructForm<PoolLimits>{});
    visit(Key{"timeouts", "How long a backend may take."}, &T::timeouts,
          StructForm<PoolTimeouts>{});
    visit(Key{"keep_alive", "Connections to backends between requests."}, &T::keep_alive,
          StructForm<KeepAliveConfig>{});
    visit(Key{"health", "How backends are checked."}, &T::health, StructForm<HealthConfig>{});
    visit(Key{"metrics", "How backends' own metrics are read."}, &T::metrics,
          StructForm<MetricsConfig>{});
    visit(Key{"spares", "When backends with `standby: true` come in and go."}, &T::spares,
          StructForm<SparesConfig>{});
    visit(Key{"debug_headers",
              "Whether answers tell their backend and pool, in x-evenkeel-backend "
              "and x-evenkeel-pool."},
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
    if (spares_only) node.fail("has spares only", "take `standby: true` from one of them");
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
              "Path of the request: `*` stands for one segment, `**` at the end for all the "
              "rest or nothing; without either, exactly this path.",
              false, "any"},
          &T::path, TextForm{"a path", check_path_pattern, "^/"});
    visit(Key{"header", "Header fields that the request must have, with exactly these values.",
              false, "any"},
          &T::header, TextMapForm{"a mapping of header fields to values", check_header_name});
    visit(Key{"method", "Methods, such as `POST` or `[GET, HEAD]`.", false, "any"}, &T::method,
          TextOrListForm{{{TextForm{"a method", check_method}, "a method or a list of methods"}}});
    visit(
        Key{"grpc",
            "gRPC calls: of a service, such as `inference.GRPCInferenceService`, or of one of its "
            "methods, `grpc.health.v1.Health/Check`; or a list of these.",
            false, "any"},
        &T::grpc,
        TextOrListForm{{{TextForm{"a gRPC service", check_grpc_name},
                         "a gRPC service or a list of gRPC services"}}});
  }
};

// "api.example.com/v1/**", what a route is called unless it has a name; of one for gRPC alone,
// "api.example.com/package.Service/*".
std::string name_of(const RouteMatch& match);

template <>
struct Fields<RouteConfig> {
  template <class Visit>
  static void each(Visit&& visit) {
    using T = RouteConfig;
    visit(Key{"name", "What logs and metrics call it.", false, "host and path"}, &T::name,
          TextForm{"a name", check_not_empty});
    visit(Key{"match", "What the request must be; what is not said matches all.", false, "all"},
          &T::match, StructForm<RouteMatch>{});
    visit(Key{"pool", "Where it goes.", false, "this or `split`"}, &T::targets, SingleTargetForm{});
    visit(Key{"split",
              "Where it goes, by share: `{stable: 95, canary: 5}`. The shares need not add "
              "up to 100.",
              false, "this or `pool`"},
          &T::targets, SplitForm{});
  }

  static void finish(Node& node, RouteConfig& route) {
    if (route.name.empty()) route.name = name_of(route.match);
    if (!node.has("pool") && !node.has("split")) {
      node.fail_missing(node.path(), "leads nowhere",
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
    visit(Key{"path", "`stdout`, `stderr`, `off`, or a file, which SIGUSR1 opens anew."}, &T::path,
          TextForm{"stdout, stderr, off or a file", check_not_empty});
    visit(Key{"format", "How a line is written."}, &T::format,
          EnumForm<AccessLogFormat>{"format", access_log_format_words});
  }
};

template <>
struct Fields<ShutdownConfig> {
  template <class Visit>
  static void each(Visit&& visit) {
    using T = ShutdownConfig;
    visit(Key{"drain",
              "Longest wait for requests in flight after SIGTERM; what is left then is cut "
              "off, and the exit code is 3."},
          &T::drain, DurationForm{0ms, 24h});
    visit(Key{"delay",
              "How long /readyz says 503 before the listeners close, for a load balancer in "
              "front to notice."},
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
    visit(Key{"min_ttl", "An answer is kept at least this long, whatever it says."}, &T::min_ttl,
          DurationForm{100ms, 1h});
    visit(Key{"max_ttl", "An answer is kept at most this long, whatever it says."}, &T::max_ttl,
          DurationForm{100ms, 24h});
  }
};

template <>
struct Fields<Config> {
  template <class Visit>
  static void each(Visit&& visit) {
    using T = Config;
    visit(Key{"version", "The version of this format."}, &T::version, IntegerForm<int>{1, 1});
    visit(Key{"listeners", "Where clients connect.", false, "one, `public` on `0.0.0.0:8080`"},
          &T::listeners, ListForm<StructForm<ListenerConfig>>{{}, "a list of listeners", false});
    visit(Key{"admin", "Where operators connect."}, &T::admin, StructForm<AdminConfig>{});
    visit(Key{"workers", "Threads that carry traffic; `auto` is one per core."}, &T::workers,
          WorkersForm{});
    visit(Key{"pools", "Groups of servers that can answer the same requests.", true}, &T::pools,
          ListForm<StructForm<PoolConfig>>{{}, "a list of pools", false});
    visit(Key{"routes",
              "Which pool answers which request: the first route that matches. What none "
              "matches gets 404. A file with one pool needs no routes.",
              false, "everything to the only pool"},
          &T::routes, ListForm<StructForm<RouteConfig>>{{}, "a list of routes"});
    visit(Key{"access_log", "One line per request."}, &T::access_log,
          StructForm<AccessLogConfig>{});
    visit(Key{"dns",
              "How backends that are given by name are found. A name with several addresses is "
              "as many backends; it is asked for again as its answer runs out."},
          &T::dns, StructForm<DnsConfig>{});
    visit(Key{"shutdown", "How the process leaves."}, &T::shutdown, StructForm<ShutdownConfig>{});
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
