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
#include "evenkeel/fleet/fetch.h"
#include "evenkeel/fleet/link_pool.h"
#include "evenkeel/http/grpc.h"
#include "evenkeel/net/endpoint.h"
#include "evenkeel/stats/sheet.h"

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
struct Inquiry {
  std::string method = "GET";
  std::string path;
  std::string json = {};                          ///< the body; empty: none
  std::size_t most_bytes = std::size_t{1} << 20;  ///< of the answer's body; the rest is not read
  LinkPool::Want want = LinkPool::Want::any;      ///< `fresh`: over a new connection
};

/// A unary call of gRPC.
struct GrpcCall {
  std::string path;     ///< "/package.Service/Method"
  std::string message;  ///< without its framing
  LinkPool::Want want = LinkPool::Want::any;
};

/// How it ended.
struct GrpcReply {
  bool grpc = true;  ///< who answered speaks gRPC; else the status is that of his HTTP answer
  GrpcStatus status = GrpcStatus::unknown;
  std::string text;     ///< `grpc-message`, where it failed
  std::string message;  ///< without its framing, where it did not
};

/// Thread: its loop's. Outlives its tasks.
class Inquirer {
 public:
  Inquirer(Loop& loop, ServerAccess access);
  Inquirer(const Inquirer&) = delete;
  Inquirer& operator=(const Inquirer&) = delete;

  /// Errors: those of dialling and of a link; backend_protocol when gRPC is all that is spoken
  /// there, whatever the HTTP status of its answer; connect_timeout or first_byte_timeout when the
  /// answer is not here, to its last byte, by the deadline. A link that its server closed while it
  /// was idle is replaced unseen.
  Task<Result<Fetched>> ask(Inquiry inquiry, Instant deadline);
  /// The same for a call; what is no gRPC at all is backend_protocol.
  Task<Result<GrpcReply>> call(GrpcCall call, Instant deadline);
  /// Whether it can be connected at all, TLS included.
  Task<Result<Done>> connect(Instant deadline);
  /// A link is kept for the next question.
  bool linked() const { return cells_.links_idle.value() > 0; }

 private:
  struct Exchange;
  Task<Result<Done>> exchange(Request& request, LinkPool::Want want, Exchange& heard);
  Task<Result<Done>> exchange_by(Request& request, LinkPool::Want want, Exchange& heard,
                                 Instant deadline);

  Loop& loop_;
  ServerAccess access_;
  BackendCells cells_;  // of no worker's sheet: these links are not traffic's
  LinkPool links_;
  Connector connector_;
};

}  // namespace evenkeel
