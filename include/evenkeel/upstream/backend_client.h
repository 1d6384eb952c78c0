// Requests of our own to a server: health checks, polls of metrics, detection. Not for traffic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "evenkeel/base/loop.h"
#include "evenkeel/base/result.h"
#include "evenkeel/base/task.h"
#include "evenkeel/http/credentials.h"
#include "evenkeel/http/grpc.h"
#include "evenkeel/http/message.h"
#include "evenkeel/net/endpoint.h"
#include "evenkeel/stats/worker_metrics.h"
#include "evenkeel/upstream/link_pool.h"

namespace evenkeel {

/// How to reach a server.
struct ServerAccess {
  std::vector<Endpoint> addresses;  ///< tried in turn; not empty
  std::string authority;            ///< "host:port", or "host" of a default port
  bool authority_is_text = false;   ///< it is a text of the file, which holds for all ports
  BackendCredential key;
  LinkPoolOptions links;
  bool keeps_links = true;  ///< between requests; false if descriptors are scarce

  bool operator==(const ServerAccess&) const = default;

  /// 0 if no address is known.
  std::uint16_t port() const { return addresses.empty() ? 0 : addresses.front().port(); }
  bool uses_tls() const { return links.connector.tls != nullptr; }
  /// A request of evenkeel's own. Views into this and the arguments.
  Request request(std::string_view method, std::string_view path) const;
  /// Goes to another port of the same server, by the same protocols.
  void set_port(std::uint16_t port);
};

using FieldList = std::vector<std::pair<std::string, std::string>>;

struct BackendClientRequest {
  std::string method = "GET";
  std::string path;
  std::string json = {};                         ///< the body; empty: none
  std::size_t max_bytes = std::size_t{1} << 20;  ///< of the response's body; the rest is not read
  LinkPool::LinkChoice link_choice = LinkPool::LinkChoice::any;
  FieldList fields = {};  ///< replace the client's own; `host` replaces the authority
};

struct Fetched {
  int status = 0;
  std::string server;    ///< its `Server` field
  std::string location;  ///< its `Location` field
  std::string body;
  bool complete = true;  ///< false: the body was longer than `max_bytes`
};

/// A response whose body is yet to be read.
struct OpenResponse {
  LinkLease link;  ///< which the response needs
  Response response;
  Instant sent_at{};                     ///< when the request was sent
  std::optional<Duration> connect_time;  ///< nothing: over a link that was open already
};

/// A unary gRPC call.
struct GrpcCall {
  std::string path;     ///< "/package.Service/Method"
  std::string message;  ///< without its framing
  LinkPool::LinkChoice link_choice = LinkPool::LinkChoice::any;
};

struct GrpcReply {
  bool grpc = true;  ///< false: an HTTP response without gRPC, whose status is translated
  GrpcStatus status = GrpcStatus::unknown;
  std::string text;     ///< `grpc-message` of a failed call
  std::string message;  ///< of a successful call, without its framing
};

/// Thread: its loop's. Outlives its tasks.
class BackendClient {
 public:
  BackendClient(Loop& loop, ServerAccess access);
  BackendClient(const BackendClient&) = delete;
  BackendClient& operator=(const BackendClient&) = delete;

  /// A request and its whole response. Errors: those of dialling and of a link; backend_protocol
  /// if the server speaks gRPC only, whatever the HTTP status; connect_timeout or
  /// first_byte_timeout if the last byte is not in by the deadline.
  Task<Result<Fetched>> fetch(BackendClientRequest client_request, Instant deadline);
  /// Makes a call on the same terms. Errors also: backend_protocol if the response is not gRPC.
  Task<Result<GrpcReply>> call(GrpcCall call, Instant deadline);
  /// Opens a connection, TLS included, and closes it.
  Task<Result<Done>> connect(Instant deadline);

  /// Sends a request and returns when the response head is in. All of the above go through here.
  /// Follows up to three redirects of a GET within the server's origin: `request.path` then is
  /// where the response is from.
  /// If the link turns out to be closing, so that the server has not processed the request, it is
  /// sent once more, over a new connection. `on_send` is called each time, just before; may be
  /// null.
  Task<Result<OpenResponse>> open(Request& request, LinkPool::LinkChoice link_choice,
                                  const std::function<void()>& on_send);

  /// True if a connection is kept for the next request.
  bool has_idle_link() const { return metrics_.links_idle.value() > 0; }

 private:
  struct Exchange;
  Task<Result<OpenResponse>> send(Request& request, LinkPool::LinkChoice link_choice,
                                  const std::function<void()>& on_send);
  Task<Result<Done>> exchange(Request& request, LinkPool::LinkChoice link_choice,
                              Exchange& received);
  Task<Result<Done>> exchange_until(Request& request, LinkPool::LinkChoice link_choice,
                                    Exchange& received, Instant deadline);

  Loop& loop_;
  ServerAccess access_;
  BackendMetrics metrics_;  // not exported: these links carry no traffic
  LinkPool links_;
  Connector connector_;
};

/// One GET over a connection of its own, for callers without a loop. Blocks.
struct FetchRequest {
  std::vector<Endpoint> addresses;  ///< of the server, tried in order
  std::string authority;            ///< "host:port"
  std::string path;
  FieldList fields = {};  ///< `host` replaces the authority
  std::size_t max_bytes = std::size_t{1} << 20;
};
Result<Fetched> fetch_blocking(FetchRequest request, Duration timeout);

}  // namespace evenkeel
