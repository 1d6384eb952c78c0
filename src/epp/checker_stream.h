// The data plane's side of one stream of Envoy's external processing.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "epp/messages.h"
#include "evenkeel/base/loop.h"
#include "evenkeel/base/task.h"
#include "evenkeel/http/grpc.h"
#include "evenkeel/inference/grpc_message.h"
#include "evenkeel/upstream/backend_client.h"

namespace evenkeel {

/// What a picker did on a stream.
struct StreamEvent {
  enum class Kind : std::uint8_t {
    message,
    end,      ///< with a status
    broken,   ///< without one: `text` says how
    timeout,  ///< nothing came until the deadline
  };
  Kind kind = Kind::timeout;
  ext_proc::ProcessingResponse message = {};
  GrpcStatus status = GrpcStatus::unknown;
  std::string text = {};
};

/// One call of ExternalProcessor/Process. What is sent is queued and flows while answers are read.
/// The destructor cancels a call that has not ended.
///
/// Thread: its loop's. Client and access outlive it.
class CheckStream {
 public:
  CheckStream(Loop& loop, BackendClient& client, const ServerAccess& access);
  CheckStream(const CheckStream&) = delete;
  CheckStream& operator=(const CheckStream&) = delete;
  ~CheckStream();

  void send(const ext_proc::ProcessingRequest& message);
  /// Sends nothing more.
  void half_close();
  /// Returns what the picker does next. REQUIRES: one call at a time; none after `end` or `broken`.
  Task<StreamEvent> next(Instant deadline);

 private:
  struct Upload;
  class UploadBody;

  Task<StreamEvent> receive();
  std::optional<StreamEvent> take_buffered();
  StreamEvent end_of(const Fields* trailers) const;

  Loop& loop_;
  std::unique_ptr<Upload> upload_;
  std::function<void()> on_send_;
  Request request_;
  Task<Result<OpenResponse>> opening_;
  std::optional<OpenResponse> opened_;
  GrpcMessageReader reader_;
  std::string_view bytes_;  // of the response's last chunk
  bool ended_ = false;
  std::optional<StreamEvent> end_;
  Task<StreamEvent> receiving_;
};

}  // namespace evenkeel
