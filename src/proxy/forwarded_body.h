// The body of a backend's response.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "evenkeel/backend/outcome.h"
#include "evenkeel/base/loop.h"
#include "evenkeel/filter/stream_body.h"
#include "evenkeel/http/message.h"
#include "evenkeel/pool/lease.h"
#include "evenkeel/stats/worker_metrics.h"
#include "evenkeel/upstream/link_pool.h"
#include "proxy/stream_pace.h"

namespace evenkeel {

/// When the backend had the whole request; a response may begin before that.
inline Instant request_end(const RequestTimings& timings) {
  const bool answered_first =
      timings.first_byte != Instant{} && timings.first_byte < timings.uploaded;
  return timings.uploaded == Instant{} || answered_first ? timings.head_sent : timings.uploaded;
}

/// A backend's body together with what is held until its last byte: the link, and the request's
/// weight on the backend. Tells the backend how the response begins and ends.
///
/// A response begins with its head, unless it is a stream, that is, its length was not announced:
/// most servers send the head of a stream before they begin to work on it. A stream begins with the
/// first byte of its body, of JSON with the first that is no white space, and one of events from a
/// model with the first output.
///
/// REQUIRES: `request.info` outlives the body. Thread: the loop's.
class ForwardedBody final : public Body, public StreamListener {
 public:
  /// `response` is as the backend sent it; this object takes its body over. `outcome`: what the
  /// head says; recorded already if it counts against the backend, unless there is a
  /// `json_error`: it is a 500 of a server that answers wrong JSON so too, with this in the body.
  /// `finds_errors`: events of the server's engine are known, so that errors in them count.
  static BodyPtr create(Loop& loop, Lease&& lease, LinkLease&& link, Request& request,
                        Response& response, AttemptOutcome outcome, std::string_view json_error,
                        BackendMetrics& metrics, bool finds_errors);

  /// `is_stream`: the length was not announced; `format`: of a stream whose output is known.
  ForwardedBody(Loop& loop, Lease&& lease, LinkLease&& link, Request& request, Response& response,
                AttemptOutcome outcome, std::string_view json_error, BackendMetrics& metrics,
                bool is_stream, std::optional<ResponseFormat> format);
  ~ForwardedBody() override;

  Task<Result<Chunk>> read() override { return looks_ ? read_and_look() : body_->read(); }
  std::optional<std::uint64_t> length() const override { return body_->length(); }

  bool wants_output() const override { return pace_ && !(begun_ && pace_->skips_next()); }
  void on_chunk(const Chunk& chunk, const InferenceResponse& response, Instant now) override;

 private:
  static AttemptOutcome outcome_of_call(std::string_view grpc_status);

  bool ended_in_order() const;
  bool is_failure(Fault fault) const;
  void record(const AttemptResult& result, Instant now) const;
  void learn_tokens_per_output() const;
  Task<Result<Chunk>> read_and_look();
  Task<Result<Chunk>> wait_and_look(Task<Result<Chunk>> chunk);
  void look(const Result<Chunk>& chunk);
  bool has_content(std::string_view bytes) const;
  void look_for_beginning(const Chunk& chunk, bool has_output);
  void decide(std::string_view body);
  void begin(int status = 0);

  Loop& loop_;
  Lease lease_;
  LinkLease link_;
  BodyPtr body_;  // dropped first: it lets go of the link
  RequestInfo& info_;
  BackendMetrics& metrics_;
  std::optional<StreamPace> pace_;  // of a stream whose output can be told from the rest
  AttemptOutcome outcome_;          // as far as it is known
  bool recorded_;
  std::string_view json_error_;  // the body says with it that the error is the client's; or empty
  const bool owes_no_grpc_;      // an answer that is not gRPC says nothing of the backend
  const bool tunnel_;
  bool is_json_ = false;  // a stream whose body is one JSON document
  bool begun_ = false;
  bool looks_ = true;  // for the beginning of the body, in its chunks
  bool safe_method_;
};

}  // namespace evenkeel
