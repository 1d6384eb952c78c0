// Lists the models of one backend.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "evenkeel/base/loop.h"
#include "evenkeel/base/rng.h"
#include "evenkeel/base/task.h"
#include "evenkeel/upstream/backend_client.h"
#include "evenkeel/upstream/backend_status.h"

namespace evenkeel {

/// Requests /v1/models at once and every 30 s from then on, until it is destroyed: more often while
/// that fails, less often from a server that has no such list. For a backend that serves; what it
/// listed is of no meaning once it is down.
///
/// Thread: the loop's.
class ModelLister {
 public:
  /// `on_connect`: called after each response, which came over a new connection. May not destroy
  /// the lister.
  ModelLister(Loop& loop, std::uint64_t seed, ServerAccess access,
              std::function<void()> on_connect);
  ModelLister(const ModelLister&) = delete;
  ModelLister& operator=(const ModelLister&) = delete;
  ~ModelLister() { run_.drop(); }

  /// Lists now, or once more after the request that is under way.
  void list_now() { wake_now_.raise(); }
  bool lists(const ServerAccess& access) const { return access == access_; }

  /// The models as last listed; null: never, or not any more. The order is the server's.
  const ModelCards& cards() const { return cards_; }
  /// The ids of `cards()`.
  const ModelList& models() const { return models_; }
  /// Why `cards()` are not all models of the server; empty: they are, or it has no such list.
  const std::string& problem() const { return problem_; }
  /// Changes whenever one of these does.
  std::uint64_t revision() const { return revision_; }

 private:
  Task<void> run();
  Task<Duration> list();
  Duration after_failure();
  void keep(std::vector<ModelCard> cards);
  void forget();
  void set_problem(std::string problem);

  Loop& loop_;
  Rng rng_;
  const ServerAccess access_;
  const std::function<void()> on_connect_;
  BackendClient client_;
  ModelCards cards_;
  ModelList models_;
  std::string problem_;
  Duration retry_delay_{};
  std::uint64_t revision_ = 0;
  Signal wake_now_;
  Task<void> run_;
};

}  // namespace evenkeel
