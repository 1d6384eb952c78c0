// Reads what a request asks of a model before it is placed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/coding/window_budget.h"
#include "evenkeel/filter/held_bodies.h"
#include "evenkeel/filter/path_rewrite.h"
#include "evenkeel/filter/replay_body.h"
#include "evenkeel/http/message.h"
#include "evenkeel/inference/request_reader.h"
#include "evenkeel/inference/token_estimates.h"
#include "evenkeel/stats/worker_metrics.h"

namespace evenkeel {

/// What a request has to tell before it can be placed.
class PlacementNeeds {
 public:
  virtual ~PlacementNeeds() = default;
  /// True if what follows in the body decides where the request goes, or has to be changed on its
  /// way. REQUIRES: it has `info.inference`.
  virtual bool need_more(const Request& request) const = 0;
};

/// Reads the body of requests that may name a model, where `routing.reads_body` says so, up to
/// `max_body_bytes`, into `info.inference`, and passes the request on when the body has ended, when
/// nothing that follows would tell more, or when that much was read. Beyond that it reads on only
/// while the place of the request needs more. What was read is kept for the backend, and for
/// retries. A body that is not well-formed is refused (bad_request); bytes that are not read are
/// not checked.
///
/// Other requests pass unchanged and at once, and so does one that has been inspected.
///
/// Thread: one worker's. REQUIRES: what is passed by reference or pointer outlives it.
class InspectFilter final : public Filter {
 public:
  struct Options {
    std::uint64_t max_body_bytes;
    ReplayBody::Limits held;
    /// Names of members that are changed in bodies; outlives the filter; null: none.
    const std::vector<std::string>* members = nullptr;
    bool reads_usage = false;  ///< true if responses must not be compressed, so that they are read
  };

  /// `windows`: what reading zstd may take; null: anything.
  /// `rewrites`: bodies are read as those of the path that backends get. Null: no route has any.
  InspectFilter(WorkerMetrics& metrics, const TokenEstimates& estimates, Options options,
                HeldBodies& held_bodies, const PlacementNeeds& placement, WindowBudget* windows,
                const PathRewrites* rewrites)
      : metrics_(metrics),
        estimates_(estimates),
        options_(options),
        held_bodies_(held_bodies),
        placement_(placement),
        windows_(windows),
        rewrites_(rewrites) {}

  Task<Result<Response>> handle(Request& request, Handler& next) override;

 private:
  struct Inspection;

  Task<Result<Response>> inspect(Request& request, RequestHead& head, InferenceApi api,
                                 Handler& next);
  Task<Result<Response>> inspect_rest(Request& request, Inspection inspection,
                                      Task<Result<Chunk>> next_chunk, Task<Result<Done>> holding,
                                      Handler& next);
  bool wants_more(const Inspection& inspection) const;
  bool needs_more(const Request& request, const Inspection& inspection) const;
  std::optional<Error> read(Request& request, Inspection& inspection, const Chunk& chunk) const;
  static bool read(Inspection& inspection, std::string_view bytes, bool last);
  Task<Result<Done>> hold(const Request& request, const Inspection& inspection,
                          const Chunk& chunk) const;
  void end(Request& request, Inspection& inspection) const;

  WorkerMetrics& metrics_;
  const TokenEstimates& estimates_;
  const Options options_;
  HeldBodies& held_bodies_;
  const PlacementNeeds& placement_;
  WindowBudget* const windows_;
  const PathRewrites* const rewrites_;
};

}  // namespace evenkeel
