// Requests, responses and their bodies, whatever the protocol; handlers and filters.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/api_key.h"
#include "evenkeel/base/attempt_list.h"
#include "evenkeel/base/buffer.h"
#include "evenkeel/base/certificate_names.h"
#include "evenkeel/base/clock.h"
#include "evenkeel/base/pool_allocator.h"
#include "evenkeel/base/priority.h"
#include "evenkeel/base/result.h"
#include "evenkeel/base/shared_count.h"
#include "evenkeel/base/task.h"
#include "evenkeel/http/connection_budget.h"
#include "evenkeel/http/fields.h"
#include "evenkeel/http/inference_info.h"
#include "evenkeel/http/trace_context.h"

namespace evenkeel {

/// True if the method changes nothing at the server (RFC 9110, section 9.2.1).
inline bool is_safe_method(std::string_view method) {
  return method == "GET" || method == "HEAD" || method == "OPTIONS";
}

/// A part of a body: some bytes, its end, or both.
struct Chunk {
  std::string_view bytes;            ///< valid until the next `read` or the body's destruction
  bool last = false;                 ///< nothing follows
  const Fields* trailers = nullptr;  ///< with `last`: the trailer section; valid like `bytes`
};

/// A message body that its consumer pulls. Dropping a body that is not read to its end stops its
/// source: the client's upload, or the backend's response.
///
/// REQUIRES: one read at a time; none after `last` or an error.
class Body : public Pooled {
 public:
  virtual ~Body() = default;
  /// The next bytes as soon as there are any. Only the last chunk may be empty.
  virtual Task<Result<Chunk>> read() = 0;
  /// The size in bytes, if the sender announced it.
  virtual std::optional<std::uint64_t> length() const { return std::nullopt; }
  /// Goes back to the first byte, for a retry; false when bytes are no longer held.
  virtual bool rewind() { return false; }
  /// True if `rewind` will succeed, also after everything was read: all bytes are here and stay.
  virtual bool rewindable() const { return false; }
  /// Promises that the body will not be rewound: bytes kept for that may be freed. `sent`: the body
  /// was read to its end, and the last chunk is not in use any more either.
  virtual void commit(bool /*sent*/) {}
  /// Gives up the block in which the bytes of the last chunk lie, if it holds nothing else; they
  /// stay where they are. Empty: they can only be copied.
  virtual Block take_block() { return {}; }
};
using BodyPtr = std::unique_ptr<Body>;

/// A body that holds all its bytes.
BodyPtr make_body(std::string bytes);

/// The tenant of a request.
struct RequestTenant {
  std::string_view name = {};                 ///< empty: none that the file names
  std::uint32_t number = 0;                   ///< its position in the file, from 1; 0: none
  std::uint32_t index = 0;                    ///< of LabelIndex; 0: the file names none
  std::uint32_t max_tokens = 0;               ///< the most that a request may ask for; 0: any
  double weight = 1;                          ///< its share of the engines' time
  std::optional<Priority> max_priority = {};  ///< of its requests; nothing: any
  const ApiKey* key = nullptr;                ///< by which it is known; null: by none
  /// The models that the tenant may use, names and globs. Null or empty: all.
  const std::vector<std::string>* models = nullptr;
  std::string_view cache_salt = {};  ///< for the bodies of its requests; empty: they keep theirs

  /// True if tenant or key may use some models only.
  bool has_model_limit() const {
    return (models != nullptr && !models->empty()) || (key != nullptr && !key->models.empty());
  }
};

/// True if neither the tenant nor its key keeps the request from this model.
bool may_use(const RequestTenant& tenant, std::string_view model);

/// Who asks why a request goes where it goes (`x-evenkeel-explain`).
enum class Asker : std::uint8_t {
  none,
  client,
  proxy,  ///< a trusted one
};

/// How far a request is routed.
enum class RouteState : std::uint8_t {
  none,    ///< no route takes it
  shed,    ///< it is refused without a look at the routes, because memory is scarce
  listed,  ///< the plan answers it itself, with a list of models
  fixed,   ///< its route has a fixed response
  open,    ///< its route or its pool depends on its body
  routed,
};

/// The route of a request, by the numbers that its plan has for routes.
struct Routing {
  RouteState state = RouteState::none;
  bool reads_body = false;   ///< true if the body is read before the request is placed
  bool needs_body = false;   ///< of an open one: true if there is no route without the body
  std::uint32_t route = 0;   ///< of an open one: the first that may match
  std::uint32_t target = 0;  ///< of the route's
};

/// Where a request came from and where it goes. The frontend fills in the first part, the filters
/// and the router the rest, all before the request reaches a backend.
struct RequestIdentity {
  std::string_view listener;
  std::string_view client;  ///< address without port: the peer's, or what trusted proxies say it is
  std::string_view peer;  ///< address of the trusted proxy that `client` was learned from, or empty
  std::string_view request_id;
  std::string_view protocol;  ///< of the client's connection: "HTTP/1.1"
  bool secure = false;        ///< the client's connection uses TLS
  /// The client's verified certificate: the subject as RFC 2253 writes it, and the SHA-256 of its
  /// DER form in hexadecimal. Empty without one.
  std::string_view certificate_subject;
  std::string_view certificate_hash;
  const CertificateNames* certificate_names = nullptr;  ///< null: there is none

  Asker asker = Asker::none;
  Routing routing;
  std::string_view route;
  std::string_view pool;
  std::uint32_t route_index = 0;     ///< of the plan, for counters; plus one, 0 = none
  std::uint32_t pool_index = 0;      ///< of the plan, for counters; plus one, 0 = none
  std::uint32_t subset = 0;          ///< of the pool's backends, for its picker; 0 = all
  std::uint32_t session_subset = 0;  ///< where its session may stay pinned; 0 = anywhere
  bool is_streaming = false;         ///< a stream of messages: it may pause, and has no size limit
  /// Names of fields that only trusted proxies may send, and never in trailers; null: none.
  const std::vector<std::string>* reserved_fields = nullptr;
  Priority priority = Priority::standard;
  RequestTenant tenant;
};

/// When the stages of a request began and how long they took. A default Instant: not reached.
struct RequestTimings {
  Instant started{};        ///< its first byte arrived
  Instant head_received{};  ///< its head was complete, or given up
  Duration awaited_body{};  ///< waiting for its client to send the body, before a backend had it
  Instant queued{};         ///< it began to wait in a pool's queue, the first time
  Duration waited{};        ///< in the pool's queue
  Duration connected{};     ///< getting links to backends, over all attempts
  Duration retried{};       ///< on attempts that failed after they were sent, before the last one
  Instant head_sent{};   ///< its head was given to the link of the last attempt, or sent in a batch
  Instant uploaded{};    ///< its last byte was given to that link
  Instant first_byte{};  ///< the response began: a stream's body, else the head
  Instant deadline = never;             ///< of a gRPC call: when its client stops waiting
  Duration max_call = Duration::max();  ///< the longest that a gRPC call may take
  Duration first_byte_timeout{};        ///< towards backends, by its route; 0: their pool's
  Duration idle_timeout{};              ///< likewise

  /// Time before the last attempt that is not evenkeel's own work.
  Duration excluded_from_overhead() const { return awaited_body + waited + connected + retried; }
};

/// Where the answer of a request comes from.
enum class AnswerSource : std::uint8_t {
  backend,
  miss,       ///< the same, in a pool that looked for an answer to use again
  hit,        ///< an answer that was kept
  coalesced,  ///< the answer to an identical request in flight
  stale,      ///< an answer that was kept longer than it is to be used, since no backend answered
};

/// The stable word of a source, such as "hit"; empty: its pool uses no answers again.
std::string_view to_string(AnswerSource source);

/// True if the answer cost no backend anything.
inline bool is_reused(AnswerSource source) { return source > AnswerSource::miss; }

/// How a request ended, as far as it has.
struct RequestOutcome {
  std::string_view backend;            ///< address of the last attempt's backend
  std::uint32_t backend_index = 0;     ///< of LabelIndex, of the backend that answered; 0: none did
  AttemptList attempts;                ///< backends that the request was offered to
  std::uint64_t bytes_in = 0;          ///< of the request body, as read
  std::uint64_t bytes_out = 0;         ///< of the response body, as written
  std::uint64_t bytes_compressed = 0;  ///< of it before it was compressed; 0: it was not
  bool tells_limits = false;  ///< true if the answer has said where its client stands with limits
  /// The status written to the client; 0 = nothing was written. 101 for every tunnel, also over
  /// HTTP/2, where the client reads 200.
  int status = 0;
  std::optional<Fault> fault;  ///< what ended the request, if it failed
  std::string_view detail;     ///< of that, for people; empty: nothing more is known
  bool stream_reset = false;   ///< the last attempt's backend reset its stream (HTTP/2)
  AnswerSource source = AnswerSource::backend;
  /// The status of a gRPC call, as its client sees it; above 16: not a status that gRPC defines.
  std::optional<std::uint8_t> grpc_status;

  /// The bytes of the response body as filters see it.
  std::uint64_t answer_bytes() const {
    return bytes_compressed != 0 ? bytes_compressed : bytes_out;
  }
};

/// What is known of a request beyond its message, for the access log and the metrics. Views live as
/// long as the request, or as the plan that it holds.
struct RequestInfo {
  RequestIdentity identity;
  RequestTimings timings;
  RequestOutcome outcome;
  /// The plan that has placed the request, if not the one that it began with, and those between;
  /// and the table with its API key. Kept for what the request points to, and for their filters.
  std::shared_ptr<const void> plan;
  std::unique_ptr<InferenceInfo> inference;  ///< null: its body is not inspected
  std::unique_ptr<RequestTrace> trace;       ///< null: requests are not traced
};

/// Receives the 1xx responses that come before the final one.
class InterimHandler {
 public:
  virtual ~InterimHandler() = default;
  virtual void interim(int status, const Fields& fields) = 0;
};

struct Request;
struct Response;

/// Takes requests to the backends that were chosen for them, in place of a link.
class Carrier {
 public:
  virtual ~Carrier() = default;
  /// Returns when the head of the response has arrived, as Link::send does. `backend`: its address.
  virtual Task<Result<Response>> carry(Request& request, std::string_view backend) = 0;
};

/// A request. Views point into the connection's read buffer and are valid while it is being served.
/// `fields` has no framing (content-length, transfer-encoding), no hop-by-hop fields and no host,
/// which is `authority`. The module `wire` removes and adds those.
struct Request {
  std::string_view method;
  std::string_view scheme = "http";
  std::string_view authority;
  std::string_view backend_authority;  ///< what the backend gets instead; empty: `authority`
  std::string_view path;               ///< the target in origin form with its query, as received
  std::string_view upgrade;     ///< "websocket" when the client asks for a tunnel, else empty
  bool wants_trailers = false;  ///< TE: trailers
  /// True if the target is never indexed (see `Field`), since its query may have a key in it.
  bool path_never_indexed = false;
  /// True if the client asked for the tunnel by extended CONNECT (RFC 8441). `method` is GET and
  /// `fields` have a `sec-websocket-key` as over HTTP/1.1, but the client does not see the answer
  /// to it.
  bool is_extended_connect = false;
  Fields fields;
  BodyPtr body;  ///< null: none
  InterimHandler* interim = nullptr;
  Carrier* carrier = nullptr;                   ///< null: a link takes it to its backend
  ConnectionBudget* response_budget = nullptr;  ///< of the client's connection; null: none
  /// Counts the requests whose backend has all that has come of the body, and waits for its client
  /// to send more. Null: this one does not count.
  SharedCount* awaiting_clients = nullptr;
  RequestInfo info;
};

/// A response. Views are valid while `body` lives or, without a body, while the request is served.
/// `fields` has no framing and no hop-by-hop fields.
struct Response {
  int status = 200;
  std::string_view reason_phrase;  ///< as the backend gave it; empty: the standard one
  Fields fields;
  BodyPtr body;  ///< null: none
  /// The length that the body would have (HEAD, 304).
  std::optional<std::uint64_t> declared_length;
};

/// Answers requests.
class Handler {
 public:
  virtual ~Handler() = default;
  /// Nothing reaches the client before this returns a Response.
  virtual Task<Result<Response>> handle(Request& request) = 0;
};

/// Wraps a handler: may change the request, answer it, or change the response.
class Filter {
 public:
  virtual ~Filter() = default;
  virtual Task<Result<Response>> handle(Request& request, Handler& next) = 0;
};

}  // namespace evenkeel
