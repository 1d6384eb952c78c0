// Parts of a pool, by the labels of its backends: versions of a model, for example.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/backend/backend.h"
#include "evenkeel/config/selector.h"
#include "evenkeel/picker/picker.h"
#include "evenkeel/pool/wait_forecast.h"

namespace evenkeel {

/// Which backends belong to a subset: those that have all labels of one of these. Without any of
/// them, or with an empty one: every backend.
struct SubsetSpec {
  std::vector<BackendLabels> any_of;

  bool contains(const BackendSpec& backend) const;
  bool is_whole_pool() const;
  /// Requests are for it, not only pinned within it.
  bool is_choice() const { return any_of.size() == 1; }
  /// "version=v7"; of several labels "gpu=h100,version=v7", of several choices "a=b or c=d".
  std::string name() const;
  bool operator==(const SubsetSpec&) const = default;
};

/// Requests that these backends have completed.
std::uint64_t completed_by(const Backends& backends);

/// The backends of a pool that belong to a subset. Immutable but for its counter.
///
/// Thread: any; `tick`: the control thread.
class Subset {
 public:
  /// `options`: of the pool's picker, with all its backends. `predecessor`: the same subset in the
  /// pool's previous version, or null.
  Subset(SubsetSpec spec, const PickerOptions& options, const Subset* predecessor);

  const SubsetSpec& spec() const { return spec_; }
  const std::string& name() const { return name_; }
  const Backends& backends() const { return *backends_; }
  bool contains(std::size_t index_in_pool) const { return contained_[index_in_pool]; }
  /// Null unless the spec is a choice.
  std::unique_ptr<Picker> new_picker(std::uint64_t seed) const {
    return picker_factory_ ? picker_factory_(seed) : nullptr;
  }

  /// Backends that may get requests.
  std::size_t in_rotation() const;
  /// A request for this subset goes to other backends, since none of these can take it.
  void count_fallback() const { history_->fallbacks.fetch_add(1, std::memory_order_relaxed); }
  std::uint64_t fallbacks() const { return history_->fallbacks.load(std::memory_order_relaxed); }

  /// The time in which a choice's backends complete this many requests.
  Duration wait_for(std::uint64_t requests) const { return history_->forecast.wait_for(requests); }

  /// Logs when the last backend of a choice goes out of rotation, and when one is back; learns how
  /// fast they complete requests.
  void tick(std::string_view pool, Instant now) const;

 private:
  /// Passes from version to version of the pool.
  struct History {
    std::atomic<std::uint64_t> fallbacks{0};
    WaitForecast forecast;
    bool serves = true;              // at the last tick
    const Subset* ticked = nullptr;  // the version that was
  };

  SubsetSpec spec_;
  std::string name_;
  std::shared_ptr<Backends> backends_;
  std::vector<bool> contained_;  // by index in the pool
  PickerFactory picker_factory_;
  std::shared_ptr<History> history_;
};

}  // namespace evenkeel
