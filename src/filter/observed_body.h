// The body of a response that is read while it passes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "evenkeel/base/loop.h"
#include "evenkeel/http/message.h"
#include "evenkeel/inference/response_reader.h"
#include "evenkeel/inference/token_estimates.h"
#include "evenkeel/inference/usage_remover.h"
#include "evenkeel/stats/worker_metrics.h"

namespace evenkeel {

/// Reads a response, and counts what it reported when it ends or is dropped.
///
/// REQUIRES: `info.inference` is set, and outlives the body as
/// everything else does that is passed.
class ObservedBody final : public Body {
 public:
  ObservedBody(Loop& loop, BodyPtr body, ResponseFormat format, RequestInfo& info,
               ModelMetrics& metrics, WorkerMetrics& worker_metrics, TokenEstimates& estimates);
  ~ObservedBody() override;

  Task<Result<Chunk>> read() override;
  std::optional<std::uint64_t> length() const override { return body_->length(); }

 private:
  Task<Result<Chunk>> wait(Task<Result<Chunk>> next);
  void inspect(const Result<Chunk>& chunk);
  void read_output(std::string_view bytes);
  void end(bool in_order);
  void count_tokens() const;

  Loop& loop_;
  BodyPtr body_;
  RequestInfo& info_;
  ModelMetrics& metrics_;
  WorkerMetrics& worker_metrics_;
  TokenEstimates& estimates_;
  std::unique_ptr<ResponseReader> reader_;
  bool ended_ = false;
};

/// A stream without the usage that its client did not ask for.
class UsageFreeBody final : public Body {
 public:
  UsageFreeBody(BodyPtr body, bool removes_null) : body_(std::move(body)), remover_(removes_null) {}

  Task<Result<Chunk>> read() override;

 private:
  Task<Result<Chunk>> read_until_some(Task<Result<Chunk>> next);
  bool edit(Result<Chunk>& chunk);

  BodyPtr body_;
  UsageRemover remover_;
  std::optional<Error> broken_;
};

}  // namespace evenkeel
