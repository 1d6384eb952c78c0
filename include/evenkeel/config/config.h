#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/log.h"
#include "evenkeel/base/priority.h"
#include "evenkeel/config/address.h"
#include "evenkeel/config/selector.h"

// The file as plain structs whose initialisers are the defaults. Every key, its range and its
// meaning are in src/config/fields.h, from which the readers, the schema and
// docs/configuration.md come; a key is named as its member, less the unit (`header_bytes` is
// `header: 32KiB` in the file).
namespace evenkeel {

using std::chrono::milliseconds;

// What to do when a client closes its sending side while it waits for a response. The kernel shows
// the same FIN for a client that is gone, and a response that is never read costs GPU time.
enum class HalfClose {
  abort,  // the client is gone: stop the request
  wait,   // the client may still read: answer it
};

enum class TlsVersion { tls1_2, tls1_3 };

// Whether a client must present a certificate, or may. A certificate must be valid in either case.
enum class ClientAuth { require, request };

// Files in PEM form, as paths.
struct CertificateConfig {
  std::string cert;  // the certificate, then its intermediates
  std::string key;

  bool operator==(const CertificateConfig&) const = default;
};

struct ListenerTlsConfig {
  // Found by name; the first is for all others. Empty only with `self_signed`.
  std::vector<CertificateConfig> certificates;
  bool self_signed = false;  // the certificate is made at the start
  std::string client_ca;     // file; empty: clients present no certificates
  std::string client_crl;    // file; empty: nothing is revoked
  ClientAuth client_auth = ClientAuth::require;
  TlsVersion min_version = TlsVersion::tls1_2;

  bool operator==(const ListenerTlsConfig&) const = default;
};

struct ListenerTimeouts {
  milliseconds header{10'000};     // from the first byte of a request to the end of its head
  milliseconds idle{75'000};       // between requests, and before the first
  milliseconds body{60'000};       // between two reads of a request body
  milliseconds write{60'000};      // for a client that reads none of its response
  milliseconds linger{30'000};     // for the rest of a request that was answered early
  milliseconds handshake{10'000};  // of TLS, in all

  bool operator==(const ListenerTimeouts&) const = default;
};

struct ListenerLimits {
  std::uint64_t header_bytes = 32UL * 1024;          // request line and fields together; 431 above
  std::uint32_t header_fields = 100;                 // 431 above
  std::uint64_t uri_bytes = 8UL * 1024;              // request target; 414 above
  std::uint64_t body_bytes = 32UL * 1024 * 1024;     // request body; 413 above
  std::uint64_t body_rate_bytes = 1024;              // per second, of a request body; 0: any
  std::uint64_t linger_bytes = 256UL * 1024 * 1024;  // discarded of a request answered early
  std::uint64_t response_buffer_bytes = 2UL * 1024 * 1024;  // of all on a connection
  std::uint32_t max_connections = 0;                        // all workers together; 0: no limit
  std::uint32_t max_streams = 128;  // requests at a time on one HTTP/2 connection

  bool operator==(const ListenerLimits&) const = default;
};

// Whether an endpoint picker reads the answers of the servers that it has picked. `automatic`:
// where the pool learns from them, or bills them.
enum class PickerResponses { automatic, observe, skip };

// A listener that tells other proxies where to send their requests (Envoy's ext_proc).
struct EndpointPickerConfig {
  std::string pool;  // of all requests; empty: routes decide
  PickerResponses responses = PickerResponses::automatic;

  bool operator==(const EndpointPickerConfig&) const = default;
};

struct ListenerConfig {
  std::string name = "public";
  Address address{"0.0.0.0", 8080};
  std::optional<ListenerTlsConfig> tls;  // none: plaintext
  ListenerTimeouts timeouts;
  ListenerLimits limits;
  std::vector<Network> proxy_protocol;   // peers that begin connections with a PROXY header
  std::vector<Network> trusted_proxies;  // whose X-Forwarded-* and x-request-id are trusted
  HalfClose half_close = HalfClose::abort;
  std::string tenant_header;  // of trusted proxies: names the tenant; lower case; empty: none
  std::optional<EndpointPickerConfig> endpoint_picker;  // none: it proxies
  bool scaler = false;                                  // answers KEDA, over gRPC, and nothing else

  bool operator==(const ListenerConfig&) const = default;
};

// Which pools must have a backend that is up for /readyz to say so.
enum class ReadyzRule { any_pool, all_pools, ignore_pools };

// Which requests to the admin listener need its token. `remote_changes`: changes from other
// machines; `changes`: every change; `all`: what reads too, /healthz and /readyz aside.
enum class TokenFor { remote_changes, changes, all };

struct AdminConfig {
  Address address{"127.0.0.1", 9901};
  std::string token_file;  // a token that allows changes from elsewhere; empty: only loopback
  TokenFor token_for = TokenFor::remote_changes;  // others than that only with a `token_file`
  // Names, or globs with '*', by which /metrics, /healthz and /readyz may be requested; empty: any.
  std::vector<std::string> hosts;
  ReadyzRule readyz = ReadyzRule::any_pool;
  std::optional<ListenerTlsConfig> tls;

  bool operator==(const AdminConfig&) const = default;
};

// The Service or InferencePool whose endpoints are the backends of a pool.
struct KubernetesDiscoverConfig {
  std::string service;         // "namespace/name"; empty: an InferencePool
  std::string inference_pool;  // likewise
  std::string port;            // of the service: number or name; empty: the only one

  bool operator==(const KubernetesDiscoverConfig&) const = default;
};

// Where a pool finds backends beside those of the file: exactly one of these.
struct DiscoverConfig {
  std::optional<KubernetesDiscoverConfig> kubernetes;
  std::string srv;                // the name of SRV records
  std::string http_sd;            // URL of targets, in Prometheus' format
  std::string file;               // of targets, likewise, or of backends
  milliseconds interval{30'000};  // between two requests to `http_sd`

  bool operator==(const DiscoverConfig&) const = default;
};

// The API server. What is empty is that of the pod's service account.
struct KubernetesConfig {
  std::string api;  // URL
  std::string token_file;
  std::string ca;  // PEM file

  bool operator==(const KubernetesConfig&) const = default;
};

// How many replicas of its server a pool may have, for what scales them.
struct ScalingConfig {
  std::uint32_t min = 1;
  std::uint32_t max = 100;
  double target = 0.8;               // the load that a replica is planned for
  milliseconds start_time{180'000};  // until a new replica serves

  bool operator==(const ScalingConfig&) const = default;
};

struct BackendConfig {
  Address address;           // identity within a pool: to_string(address) is its id
  std::uint32_t weight = 1;  // 1 to 1000
  std::string zone;          // empty: unknown
  BackendLabels labels;
  bool standby = false;           // gets requests only while its pool needs it
  std::string api_key_file;       // with the key that it takes; empty: none
  std::string api_key_header;     // that carries the key, lower case; empty: a bearer token
  std::string metrics;            // URL of its metrics; empty: on its own host, by `metrics`
  std::vector<std::string> gpus;  // its GPUs, as their exporter labels them; empty: all of them

  bool operator==(const BackendConfig&) const = default;
};

struct QueueConfig {
  std::uint32_t size = 1024;     // requests of this pool that may wait; 0: none may
  milliseconds timeout{30'000};  // longest wait

  bool operator==(const QueueConfig&) const = default;
};

struct PoolLimits {
  std::uint32_t max_in_flight = 0;  // per backend, over all workers; 0: no limit, and no queue
  QueueConfig queue;

  bool operator==(const PoolLimits&) const = default;
};

struct PoolTimeouts {
  milliseconds connect{5'000};
  milliseconds first_byte{600'000};       // from the request's end to the response's first byte
  milliseconds idle{300'000};             // between two reads of a response
  milliseconds grpc_deadline{3'600'000};  // the most that a grpc-timeout is taken for

  bool operator==(const PoolTimeouts&) const = default;
};

// A wait that is drawn from a range that grows.
struct BackoffRange {
  milliseconds base{25};  // the most before the first retry; doubled with each further one
  milliseconds max{250};

  bool operator==(const BackoffRange&) const = default;
};

// What a request is sent again for, whatever its method.
enum class RetryOn {
  overload,       // 429 and 503
  gateway_error,  // 502, 503 and 504
  server_error,   // every 5xx
  reset,          // the backend ended the connection or stream before its response
  timeout,        // no response in time
};

// Which requests are sent again, and how often. Connection failures and refusals, after which no
// backend has begun, need no rule.
struct RetryRules {
  std::uint32_t attempts = 2;  // times that a request is sent to a backend, in all
  BackoffRange backoff;
  std::vector<RetryOn> on;          // besides what is safe
  bool idempotency_key = false;     // requests with this field count as idempotent
  milliseconds attempt_timeout{0};  // for the response of one attempt; 0: only timeouts.first_byte
  milliseconds within{0};           // after the first attempt began; 0: timeouts.first_byte
  std::uint64_t replay_bytes = 1024UL * 1024;  // of a body that are kept for a retry; 0: none

  bool operator==(const RetryRules&) const = default;
};

struct RetryConfig : RetryRules {
  double budget = 0.2;  // retries per answered request, besides a small reserve

  bool operator==(const RetryConfig&) const = default;
};

struct KeepAliveConfig {
  milliseconds idle{4'000};      // unless the file says: default_keep_alive_idle(engine)
  std::uint32_t max_idle = 256;  // idle links kept, per worker and backend; 0: none

  bool operator==(const KeepAliveConfig&) const = default;
};

struct PoolTlsConfig {
  bool verify = true;       // the backend's certificate, its name or address included
  std::string ca;           // file; empty: the system's
  std::string server_name;  // the name in the certificate; empty: each backend's host
  std::string cert;         // file, for backends that request one; empty: none
  std::string key;          // file

  bool operator==(const PoolTlsConfig&) const = default;
};

// What a session does while its backend is saturated. `soft`: it moves. `hard`: its requests wait.
// `off`: there are no sessions.
enum class AffinityMode { soft, hard, off };

// The requests of a session go to the backend of its first one.
struct AffinityConfig {
  // What names the session: the first that a request has. "agent-session", "response-id",
  // "header:NAME" (lower case), "cookie" (set by evenkeel), "cookie:NAME", "session_id",
  // "sequence_id". Never empty in a loaded file.
  std::vector<std::string> by{"header:x-session-id"};
  AffinityMode mode = AffinityMode::hard;
  milliseconds ttl{1'800'000};  // since the last request
  std::uint32_t max_sessions = 200'000;

  bool operator==(const AffinityConfig&) const = default;
};

// The kind of health check. `automatic`: the engine's own.
enum class HealthCheckKind { automatic, http, grpc, tcp, off };

// Whether the models of the pool must be there too, or even answer a token.
enum class ModelCheck { off, required, generate };

struct HealthConfig {
  HealthCheckKind check = HealthCheckKind::automatic;
  std::string path;        // of http; empty: the engine's
  std::uint16_t port = 0;  // 0: the backend's
  std::string service;     // of grpc.health.v1; empty: the whole server
  milliseconds interval{2'000};
  milliseconds timeout{1'000};  // unless the file says: default_health_timeout(engine)
  std::uint32_t fall = 3;       // failures in a row that take a backend out
  std::uint32_t rise = 2;       // successes in a row that bring it back
  ModelCheck model = ModelCheck::off;
  milliseconds latency{0};  // a check that takes longer has failed; 0: no such limit

  bool operator==(const HealthConfig&) const = default;
};

// Whether an engine's metrics are polled. `automatic`: if the engine is known to have any.
enum class Scrape { automatic, off };

struct MetricsConfig {
  Scrape scrape = Scrape::automatic;
  milliseconds interval{250};
  milliseconds timeout{1'000};
  std::string path;        // empty: the engine's
  std::uint16_t port = 0;  // 0: the engine's own for metrics, or the backend's
  std::string gpu;         // URL of a GPU exporter; empty: none
  bool orca = false;       // responses are asked for load reports, which are read

  bool operator==(const MetricsConfig&) const = default;
};

// What clients are promised, for `picker: expected-time`. 0: not said.
struct SloConfig {
  milliseconds ttft{0};  // time to the first token
  milliseconds tpot{0};  // time per output token behind it, in the mean

  bool operator==(const SloConfig&) const = default;
};

// Where `picker: weighted` takes weights from: the file, or each backend's observed throughput.
enum class WeightSource { configured, observed };

// A picker and the settings of pickers that choose at once. A picker reads its own ones; the
// others keep their defaults.
struct PickerChoice {
  std::string name = "least-connections";  // one of picker_names()
  std::string header = "x-session-id";     // consistent-hash; lower case
  // consistent-hash, prefix-affinity: no backend gets more than this times its fair share.
  double load_factor = 1.25;
  // gpu: above it a backend is not picked while another is available.
  double memory_guard = 0.95;
  WeightSource weights = WeightSource::configured;  // weighted

  // The share of a backend's memory above which the picker avoids it; 0: it does not look at it.
  double guard() const { return name == "gpu" ? memory_guard : 0; }

  bool operator==(const PickerChoice&) const = default;
};

// The settings of `picker: expected-time`.
struct ExpectedTimeConfig {
  SloConfig slo;
  double shed = 0;  // requests are refused that would take so many times their `ttft`; 0: none
  std::uint64_t index_bytes = 64UL << 20;
  bool shared_backends = false;  // others send requests to them too

  bool operator==(const ExpectedTimeConfig&) const = default;
};

// The picker of a pool.
struct PickerConfig : PickerChoice, ExpectedTimeConfig {
  std::optional<PickerChoice> shadow_picker;  // compared with it; none: nothing is compared
  // Requests of which the decision about one is recorded; 0: none, nothing: see below.
  std::optional<std::uint32_t> explain_one_in;

  // True if a scheduler places the requests.
  bool has_scheduler() const { return name == "expected-time"; }
  std::uint32_t explained_interval() const {
    return explain_one_in.value_or(has_scheduler() ? 16 : 0);
  }

  bool operator==(const PickerConfig&) const = default;
};

// When a backend whose requests fail is taken out of rotation for a while.
struct OutlierConfig {
  std::uint32_t consecutive = 5;  // failures in a row; 0: they eject no backend
  milliseconds ejection{30'000};  // time of the second in a row; of probed backends the longest
  double max_ejected = 0.5;       // share of the pool, but at least one backend; 0: none

  bool operator==(const OutlierConfig&) const = default;
};

// When standby backends join and leave: shares of the active backends' capacity.
struct StandbyConfig {
  double enter = 0.8;
  double leave = 0.5;
  milliseconds dwell{30'000};  // how long the load must stay below `leave`

  bool operator==(const StandbyConfig&) const = default;
};

// The protocol of a backend. `automatic`: over TLS by ALPN, in plaintext by trying HTTP/2 on the
// first connection.
enum class BackendProtocol { automatic, http1, http2 };

// Whether evenkeel asks the engine for the usage of streams whose client did not. `automatic`: of
// engines that are known to give it.
enum class StreamUsage { automatic, off, on };

// Why a pool cannot take a request. `down`: it has no backend for it. `saturated`: its queue is
// full, or the wait has timed out. `over_budget`: its budget is used up.
enum class FallbackReason { down, saturated, over_budget };

// The pool that takes what another one cannot.
struct FallbackConfig {
  std::string pool;  // empty: none
  std::vector<FallbackReason> when{FallbackReason::down, FallbackReason::saturated,
                                   FallbackReason::over_budget};  // never empty

  bool operator==(const FallbackConfig&) const = default;
};

// Members of JSON objects, with their values as JSON.
using JsonMembers = std::map<std::string, std::string>;

// What is changed in the JSON bodies of requests for text.
struct BodyConfig {
  JsonMembers defaults;          // where the client gives no value
  JsonMembers set;               // whatever the client gives
  std::uint32_t max_tokens = 0;  // the most that a request may ask for; 0: any number

  bool empty() const { return defaults.empty() && set.empty() && max_tokens == 0; }
  bool operator==(const BodyConfig&) const = default;
};

// Which identical requests in flight share one answer.
enum class CoalesceRule { off, deterministic, all };

// Requests whose answers are kept. `embeddings`: rerank and score count as such.
enum class CachedRequests { embeddings, deterministic };

// The answers of a pool that are kept for requests to come.
struct CacheConfig {
  std::uint64_t memory_bytes = 256UL * 1024 * 1024;  // for all workers
  milliseconds ttl{3'600'000};
  milliseconds stale_if_error{3'600'000};  // beyond `ttl`, while no backend answers; 0: never
  bool shared = false;                     // by all replicas, in `shared_state`
  std::vector<CachedRequests> requests = {CachedRequests::embeddings,
                                          CachedRequests::deterministic};  // `for`

  bool operator==(const CacheConfig&) const = default;
};

// How requests for embeddings and the like become fewer and larger ones.
struct BatchingConfig {
  std::uint32_t max_size = 32;      // inputs in one request to a backend; 2 or more
  milliseconds max_wait{5};         // of the first of them
  std::uint32_t max_tokens = 8192;  // of inputs in one request, as estimated

  bool operator==(const BatchingConfig&) const = default;
};

// The period of a limit. A day and a month are those of the calendar, in UTC.
enum class LimitPeriod : std::uint8_t { second, minute, hour, day, month };

// The most that a limit allows in each period.
struct LimitRate {
  std::uint64_t amount = 0;
  LimitPeriod period = LimitPeriod::minute;

  bool operator==(const LimitRate&) const = default;
};

// How much a pool may use, all clients together.
struct BudgetConfig {
  std::vector<LimitRate> tokens;  // of prompts and outputs together
  std::vector<LimitRate> cost;    // in millionths of the currency of `usage.prices`

  bool empty() const { return tokens.empty() && cost.empty(); }
  bool operator==(const BudgetConfig&) const = default;
};

struct PoolConfig {
  std::string name;
  std::string engine = "generic";                     // one of engine_names()
  BackendProtocol protocol = BackendProtocol::http1;  // unless the file says: default_protocol
  std::vector<std::string> models;                    // names that this pool serves
  bool inspect = false;  // request bodies and responses are read; see `inspects(pool)`
  // True if the file has `usage`, limits that go by bodies, or routes that change them; no key.
  bool metered = false;
  std::string model;  // in place of the client's name of the model; empty: that stays
  // Names of models as clients give them, and what backends get instead; before `model`.
  std::map<std::string, std::string> model_names;
  BodyConfig body;
  bool hosted = false;  // the backends are a service of a third party: see `Credentials`
  StreamUsage stream_usage = StreamUsage::automatic;
  PickerConfig picker;
  std::vector<BackendConfig> backends;     // never empty in a loaded file, but with `discover`
  std::optional<DiscoverConfig> discover;  // none: those are all
  // Given, every backend uses TLS; else those with https:// in their address.
  std::optional<PoolTlsConfig> tls;
  // What the backends get as Host: "backend" (its own name), "client" (the client's), or a text;
  // empty: by how a backend is addressed, see `host_of_backend`.
  std::string host;
  PoolLimits limits;
  PoolTimeouts timeouts;
  RetryConfig retry;
  KeepAliveConfig keep_alive;
  HealthConfig health;
  MetricsConfig metrics;
  std::optional<AffinityConfig> affinity;  // as the file has it; see `affinity_of(pool)`
  StandbyConfig standby;
  OutlierConfig outlier;
  milliseconds slow_start{0};  // ramp of a backend that returns or joins; 0: none
  FallbackConfig fallback;
  CoalesceRule coalesce = CoalesceRule::off;
  std::optional<CacheConfig> cache;        // none: no answer is kept
  std::optional<BatchingConfig> batching;  // none: each request goes to a backend as it is
  BudgetConfig budget;
  std::optional<ScalingConfig> scaling;  // none: no replicas are asked for
  bool debug_headers = false;            // x-evenkeel-backend and -pool on responses

  bool operator==(const PoolConfig&) const = default;
};

// Bounds of a number of tokens, both inclusive.
struct TokenBounds {
  std::uint32_t min = 0;
  std::uint32_t max = 0;  // 0: no bound

  bool contains(std::uint64_t tokens) const { return tokens >= min && (max == 0 || tokens <= max); }

  bool operator==(const TokenBounds&) const = default;
};

// All that is given must match; what is empty matches everything.
struct RouteMatch {
  std::string host;  // lower case, no port; "api.example.com", or "*.example.com": any name below
  // Segment by segment: text matches itself, `*` any one segment, a last `**` all the rest or
  // nothing: /v1/** matches /v1, /v1/ and /v1/models. Without wildcard: exactly this path.
  std::string path;
  std::string path_regex;                     // of RE2; matches all of the path; empty: any
  std::map<std::string, std::string> header;  // lower-case name -> exact value
  std::map<std::string, std::string> query;   // name -> glob of the value
  std::vector<std::string> method;            // any of these, upper case
  std::vector<std::string> grpc;  // calls of any of these: "package.Service" or one "/Method" of it
  std::vector<Network> client;    // any of these, as trusted proxies name the client
  std::vector<std::string> listener;  // names: any of these
  // `not`: none of these may match. They have no conditions on the body, and no `not` of their own.
  std::vector<RouteMatch> none_of;
  // Conditions on the body, which is read before the route is chosen. They match no request whose
  // body cannot be read.
  std::vector<std::string> model;            // names, or globs with '*': any of these
  std::vector<std::string> task;             // any of these: "chat"
  std::optional<TokenBounds> prompt_tokens;  // as estimated
  std::optional<TokenBounds> max_tokens;     // of requests that name a maximum

  bool looks_into_body() const {
    return !model.empty() || !task.empty() || prompt_tokens || max_tokens;
  }
  // True if the match depends on the head of a request otherwise than by host, path, call, method
  // and header fields.
  bool has_rare_conditions() const {
    return !path_regex.empty() || !query.empty() || !client.empty() || !listener.empty() ||
           !none_of.empty();
  }
  bool operator==(const RouteMatch&) const;
};
inline bool RouteMatch::operator==(const RouteMatch&) const = default;

struct RouteTarget {
  std::string pool;
  std::uint32_t weight = 1;  // share of the sum over the route's targets; 0: none
  // The labels that a backend of the pool must all have; empty: every backend counts.
  BackendLabels labels{};

  bool operator==(const RouteTarget&) const = default;
};

// What answers GET /v1/models. `automatic`: evenkeel where several pools serve the models of a
// host, else a backend.
enum class ModelListRule { automatic, merged, forward };

// What keeps a conversation in its part of a split, besides what its requests' bodies tell.
struct StickyConfig {
  std::string header = "x-session-id";  // lower case

  bool operator==(const StickyConfig&) const = default;
};

// The response that evenkeel itself gives to the requests of a route.
struct RespondConfig {
  int status = 200;  // 200 to 599
  std::string body;
  std::string content_type = "text/plain; charset=utf-8";

  bool operator==(const RespondConfig&) const = default;
};

// Whether requests of a route need a credential.
enum class AuthRule {
  off,       // none is looked at
  optional,  // it may be missing, but not wrong
  required,
};

// The redirect that evenkeel itself answers the requests of a route with.
struct RedirectConfig {
  // An absolute URL, whose host may be `$host`, or a path. At its end, `/**` is what `/**` of
  // `match.path` stands for. The query is kept, unless there is one here.
  std::string to;
  int status = 308;  // 301, 302, 303, 307 or 308

  bool operator==(const RedirectConfig&) const = default;
};

// What backends get in place of the client's path. One of the first three is given.
struct RewriteConfig {
  std::string strip_prefix;  // "/team-a": removed from paths that begin with it
  std::string prefix;        // "/v2": replaces what `match.path` says before its `/**`
  std::string regex;         // of RE2: what it matches first is replaced by `to`
  std::string to;            // with \1 to \9 for groups, \0 for all

  bool operator==(const RewriteConfig&) const = default;
};

// What a route changes in header fields. Names are in lower case; values may have `$client` and the
// like.
struct FieldEdits {
  std::map<std::string, std::string> set;  // in place of all fields of the name
  std::map<std::string, std::string> add;
  std::vector<std::string> remove;

  bool empty() const { return set.empty() && add.empty() && remove.empty(); }
  bool operator==(const FieldEdits&) const = default;
};

// Which pages of other origins may use a route.
struct CorsConfig {
  // "https://chat.example.org", "https://*.example.org": any below it, or "*": any origin. Never
  // empty.
  std::vector<std::string> origins;
  std::vector<std::string> methods;   // empty: whatever is asked for
  std::vector<std::string> headers;   // lower case; empty: whatever is asked for
  bool credentials = false;           // never with the origin "*"
  milliseconds max_age{10 * 60'000};  // of the answer to a preflight; 0: not told

  bool operator==(const CorsConfig&) const = default;
};

// The codings of compressed responses.
enum class ContentCoding { zstd, gzip };

// Which responses are compressed for clients that accept it. Event streams never are.
struct CompressionConfig {
  std::vector<ContentCoding> codings{ContentCoding::zstd, ContentCoding::gzip};  // the best first
  std::vector<std::string> types{"application/json", "text/*"};  // media types, or `text/*`
  std::uint64_t min_bytes = 1024;  // of responses whose length is known

  bool operator==(const CompressionConfig&) const = default;
};

// The page that clients get instead of an error of evenkeel.
struct ErrorPageConfig {
  std::vector<int> status;  // of the errors; never empty
  std::string file;
  std::string content_type = "text/html; charset=utf-8";

  bool operator==(const ErrorPageConfig&) const = default;
};

// The target of a split that is on trial: it gets nothing more once its answers are worse than
// this.
struct CanaryConfig {
  std::string target;     // a name in `split`
  double error_rate = 0;  // the most of its requests that may fail; 0: any share
  milliseconds ttft{0};   // the most that the 95th percentile of its first tokens may take; 0: any
  milliseconds window{60'000};
  std::uint32_t min_requests = 50;  // in the window, before it is judged

  bool operator==(const CanaryConfig&) const = default;
};

// Timeouts towards backends for the requests of a route, instead of the pool's; 0: the pool's.
struct RouteTimeouts {
  milliseconds first_byte{0};
  milliseconds idle{0};

  bool operator==(const RouteTimeouts&) const = default;
};

// The pool that gets copies of a route's requests. Its answers are dropped.
struct MirrorConfig {
  std::string pool;  // empty: none
  double share = 1;  // of the requests

  bool operator==(const MirrorConfig&) const = default;
};

// First match wins. `pool: x` is one target, `split: {x: 95, y: 5}` several; with `pool: x` and
// `split: {version=v7: 95, version=v8: 5}` they are parts of one pool.
struct RouteConfig {
  std::string name;  // for logs and metrics; unless given, host and path as written ("/v1/**")
  RouteMatch match;
  // The pools, with their shares. Never all of weight 0 in a loaded file, and only empty with
  // `respond` or `redirect`.
  std::vector<RouteTarget> targets;
  std::optional<RespondConfig> respond;    // instead of a target
  std::optional<RedirectConfig> redirect;  // instead of a target
  std::optional<RewriteConfig> rewrite;
  BodyConfig body;                 // before that of the pool
  FieldEdits request_headers;      // of what backends get
  FieldEdits response_headers;     // of what clients get, from backends and from evenkeel
  std::optional<CorsConfig> cors;  // none: evenkeel's own answers are for pages of any origin
  std::optional<CompressionConfig> compression;
  std::vector<ErrorPageConfig> error_pages;  // the first that has the status counts
  std::optional<RetryRules> retry;           // instead of the pool's
  RouteTimeouts timeouts;
  ModelListRule model_list = ModelListRule::automatic;
  StickyConfig sticky;  // only read with several targets
  std::optional<CanaryConfig> canary;
  MirrorConfig mirror;
  SloConfig slo;  // instead of the pool's
  // The default of its requests, and the most that they may name; none: as they name it.
  std::optional<Priority> priority;
  std::optional<AuthRule> auth;  // none: required, if the file has `auth`

  // True if evenkeel itself answers its requests.
  bool answers_itself() const { return respond || redirect; }
  bool operator==(const RouteConfig&) const = default;
};

// What happens to a request beyond a limit.
enum class OverLimit {
  refuse,  // 429
  batch,   // it is served with the priority `batch`
};

struct LimitsConfig {
  std::vector<LimitRate> requests;
  std::vector<LimitRate> tokens;  // of prompts and outputs together
  std::vector<LimitRate> input_tokens;
  std::vector<LimitRate> output_tokens;
  std::vector<LimitRate> cost;   // in millionths of the currency of `usage.prices`
  std::uint32_t concurrent = 0;  // requests at a time; 0: any number
  double burst = 1;  // share of a second's, minute's or hour's amount that may come at once
  OverLimit over = OverLimit::refuse;

  // True if something counts tokens.
  bool count_tokens() const {
    return !tokens.empty() || !input_tokens.empty() || !output_tokens.empty() || !cost.empty();
  }
  bool operator==(const LimitsConfig&) const = default;
};

// The most limits that one request may be subject to.
inline constexpr std::size_t max_limits_of_request = 32;

// Limits for each of several subjects, such as each address of a client.
struct RateLimitConfig : LimitsConfig {
  // What tells subjects apart: tenant, key, model, address, header:NAME, in lower case. A request
  // without one of them is not limited.
  std::vector<std::string> by;
  std::vector<std::string> models;  // globs; empty: requests for all models, or none
  std::vector<std::string> routes;  // names; empty: requests of all routes

  bool operator==(const RateLimitConfig&) const = default;
};

// What limits do while the shared state does not answer in time.
enum class StoreFailure {
  local,   // each replica grants its share of them
  open,    // they do not hold
  closed,  // requests with limits are refused
};

// Where the replicas of the daemon keep what they share: the use of limits.
struct SharedStateConfig {
  RedisAddress redis;
  std::string user;           // empty: the default user
  std::string password_file;  // empty: none
  std::optional<PoolTlsConfig> tls;
  milliseconds timeout{5};  // the longest that a request waits for an answer
  StoreFailure on_failure = StoreFailure::local;
  std::uint32_t replicas = 1;  // that share it

  bool operator==(const SharedStateConfig&) const = default;
};

// A tenant, whose requests are known by their API key or client certificate, or as a trusted proxy
// says.
struct TenantConfig {
  std::string name;
  std::vector<std::string> keys_sha256;  // of its API keys, in lower-case hexadecimal
  // Names in its client certificates: of DNS in lower case, and URIs, which may end in `/*`.
  std::vector<std::string> certificates;
  std::vector<std::string> models;   // what it may use, names and globs; empty: all
  std::vector<std::string> routes;   // names; empty: all
  std::vector<std::string> methods;  // upper case; empty: all
  double weight = 1;  // its share of the engines' time, against other tenants that wait
  // The default of its requests, and the most that they may name; none: as they name it.
  std::optional<Priority> priority;
  std::uint32_t max_tokens = 0;  // the most that one of its requests may ask for; 0: any number
  std::string cache_salt;        // that its requests have in their bodies; empty: as they name it
  std::string session;           // of its requests that name none; empty: each on its own
  LimitsConfig limits;

  bool changes_bodies() const { return max_tokens > 0 || !cache_salt.empty(); }
  bool operator==(const TenantConfig&) const = default;
};

// The API keys that are kept outside of the file.
struct KeysConfig {
  std::string file;  // as KeyTable reads it; empty: none

  bool operator==(const KeysConfig&) const = default;
};

// Tokens that an issuer has signed (JWT).
struct TokenIssuerConfig {
  std::string issuer;                 // `iss`
  std::vector<std::string> audience;  // `aud` names one of them. Never empty
  std::string jwks;                   // the issuer's public keys: a file, or an https:// URL
  std::string ca;                     // file with authorities for that URL; empty: the system's
  milliseconds refresh{300'000};      // how often what the URL has is fetched
  std::string type;                   // `typ` in the header, such as "at+jwt"; empty: any
  std::string tenant_claim = "tenant";
  std::vector<std::string> tenants;  // that its tokens may name; empty: any
  std::string models_claim;          // empty: tokens do not limit models
  milliseconds leeway{30'000};       // by which the issuer's clock may differ

  bool fetches_keys() const { return jwks.starts_with("https://"); }
  bool operator==(const TokenIssuerConfig&) const = default;
};

// How clients prove whose their requests are.
struct AuthConfig {
  KeysConfig keys;
  std::vector<TokenIssuerConfig> jwt;

  bool operator==(const AuthConfig&) const = default;
};

struct AccessLogConfig {
  std::string path = "stdout";      // stdout, stderr, syslog, syslog:SOCKET, off, or a file
  std::string format = "json";      // json, logfmt, combined, or a template
  std::vector<std::string> fields;  // of json and logfmt; empty: the usual ones
  double sample = 1;                // of requests that neither failed nor were slow
  milliseconds slow{30'000};        // a response that begins later is logged always; 0: none is

  bool operator==(const AccessLogConfig&) const = default;
};

enum class LogFormat { text, json };

// The daemon's own log, on stderr.
struct LogConfig {
  log::Level level = log::Level::info;          // the least important that is written
  std::map<log::Subsystem, log::Level> levels;  // of subsystems that have another
  LogFormat format = LogFormat::text;

  bool operator==(const LogConfig&) const = default;
};

// Which requests are traced, and where to.
struct TracingConfig {
  std::string otlp = "off";   // the URL of the collector, with its path; off: none are
  double sample = 1;          // of traces that begin here
  milliseconds slow{30'000};  // a response that begins later is exported always; 0: none is
  bool gen_ai = false;        // OpenTelemetry's names for attributes of models
  // KEY=VALUE,... as variables of OpenTelemetry have them, where alone they can be given.
  std::string headers;  // of the requests to the collector
  std::string resource_attributes;
  std::string service_name;  // empty: that of the attributes, else evenkeel

  bool is_on() const { return otlp != "off"; }
  bool operator==(const TracingConfig&) const = default;
};

// What the tokens of a model cost, per million, in whatever currency.
struct ModelPrice {
  std::string model;  // its name, in which `*` stands for any text
  double input = 0;
  double output = 0;
  std::optional<double> cached_input;  // of the prompt, found in the engine's cache; none: as input

  bool operator==(const ModelPrice&) const = default;
};

// A collector that gets usage records from their file, as batches of CloudEvents over HTTP.
struct UsageHttpConfig {
  std::string url;            // http:// or https://
  std::string token_file;     // with its bearer token; empty: none
  std::string ca;             // file with authorities; empty: the system's
  std::uint32_t batch = 500;  // records in one request, at most
  milliseconds timeout{10'000};

  bool operator==(const UsageHttpConfig&) const = default;
};

// One record per request that reached a model, for billing.
struct UsageConfig {
  std::string path;                // of the file; empty: none is written
  std::string source;              // of the records; empty: evenkeel/ and the name of the host
  std::vector<ModelPrice> prices;  // the first whose model matches counts
  std::optional<UsageHttpConfig> http;

  bool is_on() const { return !path.empty(); }
  bool operator==(const UsageConfig&) const = default;
};

// The audit log: what operators and clients' credentials have done, as a chain of records.
struct AuditConfig {
  std::string path;      // of the file; empty: none is written
  std::string key_file;  // with the key of the hashes; empty: they have none

  bool is_on() const { return !path.empty(); }
  bool operator==(const AuditConfig&) const = default;
};

struct ShutdownConfig {
  milliseconds drain{120'000};  // longest wait for requests in flight
  milliseconds delay{0};        // /readyz returns 503 for this long before listeners close

  bool operator==(const ShutdownConfig&) const = default;
};

// How the host names of backends are resolved.
struct DnsConfig {
  std::vector<Address> servers;  // empty: the system's
  milliseconds min_ttl{1'000};   // an answer's TTL is clamped to these two
  milliseconds max_ttl{60'000};

  bool operator==(const DnsConfig&) const = default;
};

// How much memory the process may use.
struct MemoryLimit {
  // `automatic`: the limit of the cgroup; without one, as much as there is.
  enum class Kind { automatic, off, bytes, share };

  Kind kind = Kind::automatic;
  std::uint64_t bytes = 0;
  double share = 0;  // of the cgroup's limit; without one, of the machine's memory

  bool operator==(const MemoryLimit&) const = default;
};

// Limits of the process as a whole.
struct ProcessLimits {
  MemoryLimit memory;
  std::uint64_t inspected_body_bytes = 1024UL * 1024;     // of a body that a request waits for
  std::uint64_t held_bodies_bytes = 256UL * 1024 * 1024;  // of all bodies, per worker

  bool operator==(const ProcessLimits&) const = default;
};

struct Config {
  int version = 1;
  std::vector<ListenerConfig> listeners{ListenerConfig{}};
  AdminConfig admin;
  unsigned workers = 0;  // 0: auto, one per core
  bool busy_polling = true;
  std::vector<PoolConfig> pools;
  // A loaded file always has at least one: without `routes` it is one named "default" that sends
  // everything to the only pool.
  std::vector<RouteConfig> routes;
  std::vector<TenantConfig> tenants;
  std::vector<RateLimitConfig> rate_limits;
  std::optional<SharedStateConfig> shared_state;
  std::optional<AuthConfig> auth;  // none: requests without a credential are served too
  AccessLogConfig access_log;
  UsageConfig usage;
  AuditConfig audit;
  LogConfig log;
  TracingConfig tracing;
  DnsConfig dns;
  KubernetesConfig kubernetes;
  ProcessLimits limits;
  ShutdownConfig shutdown;
  std::string state_file;  // what the next process continues with; empty: none

  bool operator==(const Config&) const = default;
};

// The values of `engine:` and `picker:`, in the order of the reference.
const std::vector<std::string>& engine_names();
const std::vector<std::string>& picker_names();

// True if backends of the pool may get another name of a model than clients give.
inline bool renames(const PoolConfig& pool) {
  return !pool.model.empty() || !pool.model_names.empty();
}

// True if the bodies of the pool's requests are read: if the file says so, or needs it.
bool inspects(const PoolConfig& pool);

// True if answers of the pool are kept, or shared by several requests.
bool reuses_answers(const PoolConfig& pool);

// How the pool keeps sessions together: as the file says, else soft sessions of coding agents where
// bodies are inspected. Nothing: the picker places every request.
std::optional<AffinityConfig> affinity_of(const PoolConfig& pool);

// `automatic` if a backend uses TLS, where ALPN settles it; else `http1`.
BackendProtocol default_protocol(const PoolConfig& pool);

// How long a health check of such a server may take: SGLang's generates a token, Ray's and
// TorchServe's wait for a worker.
milliseconds default_health_timeout(std::string_view engine);

// How long an idle link to such a server may be kept: safely below the server's own timeout
// (uvicorn closes after 5 s), since a request sent into a closing link is lost.
milliseconds default_keep_alive_idle(std::string_view engine);

}  // namespace evenkeel
