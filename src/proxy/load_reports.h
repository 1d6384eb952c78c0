// Reports of load that engines send with their responses (ORCA): asked for, read, and not passed on
// to clients that did not ask for them.
#pragma once

#include <utility>

#include "evenkeel/backend/backend.h"
#include "evenkeel/base/loop.h"
#include "evenkeel/http/message.h"

namespace evenkeel {

/// Asks the backend for a report, unless the client does so itself.
void ask_for_load_report(Request& request);
/// Hands what the response reports to the backend's signals. A call of gRPC reports at its end.
/// REQUIRES: `backend` outlives the response.
void take_load_report(Loop& loop, const Backend& backend, const Request& request,
                      Response& response);

/// The body of a gRPC call, whose report comes in its trailers.
///
/// REQUIRES: `backend` outlives it. Thread: the loop's.
class LoadReportBody final : public Body {
 public:
  /// `removes`: the report is not passed on.
  LoadReportBody(Loop& loop, const Backend& backend, BodyPtr body, bool removes)
      : loop_(loop), backend_(backend), body_(std::move(body)), removes_(removes) {}

  Task<Result<Chunk>> read() override;
  std::optional<std::uint64_t> length() const override { return body_->length(); }

 private:
  Task<Result<Chunk>> wait(Task<Result<Chunk>> next);
  Result<Chunk> check(Result<Chunk> chunk);

  Loop& loop_;
  const Backend& backend_;
  BodyPtr body_;
  Fields trailers_;  // without the report
  bool removes_;
};

}  // namespace evenkeel
