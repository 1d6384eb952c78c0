// The exchanges of a check with one picker.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "epp/checker_answer.h"
#include "epp/checker_stream.h"
#include "evenkeel/base/loop.h"
#include "evenkeel/base/task.h"
#include "evenkeel/epp/checker.h"
#include "evenkeel/upstream/backend_client.h"

namespace evenkeel {

using BodyMode = ext_proc::ProcessingMode::BodySendMode;

/// A client's request, as a data plane passes it on.
struct ProxiedRequest {
  std::string_view method = "POST";
  std::vector<std::string> chunks = {};  ///< of the body
  bool bodiless = false;                 ///< true if it ends with its head
  bool end_apart = false;                ///< true if the end comes after the last chunk
  bool trailers = false;                 ///< true if it ends with trailers
  bool unknown_fields = false;           ///< true if messages have fields that nothing knows
  std::string claimed = {};              ///< the client's own destination header; empty: none
  ext_proc::Value subset = {};           ///< the hint; without a kind: none
  BodyMode mode = ext_proc::ProcessingMode::FULL_DUPLEX_STREAMED;

  std::size_t body_bytes() const;
  std::string body() const;
};

/// A backend's response, as a data plane passes it on.
struct ProxiedResponse {
  std::vector<std::string> chunks = {};
  bool trailers = false;    ///< true if it ends with trailers
  std::string served = {};  ///< the endpoint that it is from; empty: the data plane does not say
};

/// A request with a body, and what came back.
struct BodyExchange {
  std::string what;  ///< "1 MB in pieces of any size"
  ProxiedRequest request;
  PickerAnswer answer;
};

/// Cuts bytes into chunks. `max_bytes` of each; with `irregular`, any smaller size.
std::vector<std::string> chunks_of(std::string_view bytes, std::size_t max_bytes, bool irregular);

/// Thread: its loop's.
class CheckSession {
 public:
  /// `options` outlive it.
  CheckSession(Loop& loop, ServerAccess access, const PickerCheckOptions& options);
  CheckSession(const CheckSession&) = delete;
  CheckSession& operator=(const CheckSession&) = delete;

  const PickerCheckOptions& options() const { return options_; }
  Loop& loop() { return loop_; }
  BackendClient& client() { return client_; }
  Instant deadline() { return loop_.read_clock() + options_.timeout; }

  /// Says hello: an error if no server of HTTP/2 is there.
  Task<Result<Done>> reach();
  /// Asks for a pick, which other rules build on.
  Task<void> begin();
  /// The answer to the first request.
  const PickerAnswer& first() const { return first_; }
  /// An endpoint that the picker knows. REQUIRES: the first request has one, or the options do.
  std::string known_endpoint() const;

  /// A small request.
  ProxiedRequest request() const;
  /// A JSON document of this size, as the request's API has it. REQUIRES: at least 200 bytes.
  std::string document(std::size_t bytes) const;
  std::unique_ptr<CheckStream> open();
  void send_head(CheckStream& stream, const ProxiedRequest& request) const;
  void send_body(CheckStream& stream, const ProxiedRequest& request) const;
  /// Reads what the picker answers to a request that was sent.
  Task<void> collect(CheckStream& stream, const ProxiedRequest& request, PickerAnswer& answer);
  /// Ends the stream, and reads until the picker has ended it too.
  Task<void> finish(CheckStream& stream, PickerAnswer& answer);
  /// Sends the response, and reads what the picker answers.
  Task<void> respond(CheckStream& stream, const ProxiedResponse& response, PickerAnswer& answer);
  /// A request from its beginning to the end of its stream.
  Task<PickerAnswer> exchange(ProxiedRequest request);
  /// Requests with bodies of all sizes; sent once.
  Task<const std::vector<BodyExchange>*> bodies();

 private:
  Loop& loop_;
  const PickerCheckOptions& options_;
  ServerAccess access_;
  BackendClient client_;
  PickerAnswer first_;
  std::vector<BodyExchange> bodies_;
  bool ends_bodies_ = true;   // false once the end of a body did not come
  bool ends_streams_ = true;  // false once the end of a stream did not come
};

}  // namespace evenkeel
