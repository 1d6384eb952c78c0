// Asks one server for what we want to know of it, reached as its pool reaches it: over TLS where
// that speaks TLS, with its key where it wants one, over links that are kept between questions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/loop.h"
#include "evenkeel/base/result.h"
#include "evenkeel/base/task.h"
#include "evenkeel/http/grpc.h"
#include "evenkeel/net/endpoint.h"
#include "evenkeel/stats/worker_metrics.h"
#include "evenkeel/upstream/fetch.h"
#include "evenkeel/upstream/link_pool.h"

namespace evenkeel {

/// How a server is reached.
struct ServerAccess {
  std::vector<Endpoint> addresses;  ///< tried in turn; not empty
  std::string authority;            ///< "host:port"
  std::string authorization;        ///< "Bearer KEY"; empty: it wants none
  LinkPoolOptions links;
  bool keeps_links = true;  ///< between questions; false where descriptors are scarce

  bool operator==(const ServerAccess&) const = default;
};

/// What is asked of it.
struct BackendClientRequest {
  std::string method = "GET";
  std::string path;
  std::string json = {};                         ///< the body; empty: none
  std::size_t max_bytes = std::size_t{1} << 20;  ///< of the answer's body; the rest is not read
  LinkPool::LinkChoice link_choice = LinkPool::LinkChoice::any;  ///< `fresh`: over a new connection
};

/// A unary call of gRPC.
struct GrpcCall {
  std::string path;     ///< "/package.Service/Method"
  std::string message;  ///< without its framing
  LinkPool::LinkChoice link_choice = LinkPool::LinkChoice::any;
};

/// How it ended.
struct GrpcReply {
  bool grpc = true;  ///< who answered speaks gRPC; else the status is that of his HTTP answer
  GrpcStatus status = GrpcStatus::unknown;
  std::string text;     ///< `grpc-message`, where it failed
  std::string message;  ///< without its framing, where it did not
};

/// Thread: its loop's. Outlives its tasks.
class BackendClient {
 public:
  BackendClient(Loop& loop, ServerAccess access);
  BackendClient(const BackendClient&) = delete;
  BackendClient& operator=(const BackendClient&) = delete;

  /// Errors: those of dialling and of a link; backend_protocol when gRPC is all that is spoken
  /// there, whatever the HTTP status of its answer; connect_timeout or first_byte_timeout when the
  /// answer is not here, to its last byte, by the deadline. A link that its server closed while it
  /// was idle is replaced unseen.
  Task<Result<Fetched>> fetch(BackendClientRequest client_request, Instant deadline);
  /// The same for a call; what is no gRPC at all is backend_protocol.
  Task<Result<GrpcReply>> call(GrpcCall call, Instant deadline);
  /// Whether it can be connected at all, TLS included.
  Task<Result<Done>> connect(Instant deadline);
  /// A link is kept for the next question.
  bool has_idle_link() const { return metrics_.links_idle.value() > 0; }

 private:
  struct Exchange;
  Task<Result<Done>> exchange(Request& request, LinkPool::LinkChoice link_choice,
                              Exchange& received);
  Task<Result<Done>> exchange_until(Request& request, LinkPool::LinkChoice link_choice,
                                    Exchange& received, Instant deadline);

  Loop& loop_;
  ServerAccess access_;
  BackendMetrics metrics_;  // of no worker's sheet: these links are not traffic's
  LinkPool links_;
  Connector connector_;
};

}  // namespace evenkeel
