// Reads what models report in their responses, while these pass.
#pragma once

#include "evenkeel/base/loop.h"
#include "evenkeel/http/message.h"
#include "evenkeel/inference/token_estimates.h"
#include "evenkeel/stats/label_index.h"
#include "evenkeel/stats/model_metrics.h"
#include "evenkeel/stats/worker_metrics.h"

namespace evenkeel {

/// The filter `observe`: fills `info.inference->response` from the bodies of successful responses,
/// counts tokens and times, and teaches the estimates. Of requests without `info.inference`, or
/// whose response was observed already, it does nothing.
///
/// Usage that the engine was asked for and the client did not ask for (`usage_added`) is removed
/// from the stream, and the name that the backend has for the model (`served_model`) becomes the
/// client's again. All other bytes pass unchanged.
///
/// REQUIRES: everything that is passed outlives the filter and the responses. Thread: the worker's.
class ObserveFilter final : public Filter {
 public:
  ObserveFilter(Loop& loop, WorkerMetrics& worker_metrics, LabelIndex& label_index,
                TokenEstimates& estimates)
      : loop_(loop), worker_metrics_(worker_metrics), models_(label_index), estimates_(estimates) {}

  Task<Result<Response>> handle(Request& request, Handler& next) override;

 private:
  Task<Result<Response>> observe(Request& request, Handler& next);

  Loop& loop_;
  WorkerMetrics& worker_metrics_;
  ModelNames models_;
  TokenEstimates& estimates_;
};

}  // namespace evenkeel
