// The backends that a picker chooses from, and the base of pickers. A pick reads one cache line per
// backend that it considers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "evenkeel/backend/gpu_memory_guard.h"
#include "evenkeel/base/rng.h"
#include "evenkeel/picker/picker.h"

namespace evenkeel {

/// The backends of a pool, by index.
class Candidates {
 public:
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  /// `memory_guard`: see PickerChoice::guard.
  explicit Candidates(std::shared_ptr<const Backends> backends, double memory_guard = 0);

  std::uint32_t size() const { return static_cast<std::uint32_t>(entries_.size()); }
  const BackendPtr& operator[](std::uint32_t index) const { return (*backends_)[index]; }
  std::uint32_t weight(std::uint32_t index) const { return entries_[index].weight; }
  std::uint32_t in_flight(std::uint32_t index) const {
    return entries_[index].shared->slots.in_flight();
  }
  /// Requests in flight and those that failed lately.
  double load_with_failures(std::uint32_t index, Instant now) const {
    const SharedBackend& shared = *entries_[index].shared;
    return shared.slots.in_flight() + shared.failure_penalty(now);
  }
  const SharedBackend& shared(std::uint32_t index) const { return *entries_[index].shared; }

  bool has_room(std::uint32_t index) const { return entries_[index].shared->slots.has_room(); }
  double memory_guard() const { return memory_guard_; }

  bool in_rotation(std::uint32_t index) const {
    return entries_[index].shared->state.in_rotation();
  }
  bool deprioritized(std::uint32_t index, Instant now) const {
    const SharedBackend& shared = *entries_[index].shared;
    return shared.state.avoided(now) || over_memory_guard(shared, memory_guard_);
  }
  bool excluded(std::uint32_t index, const Hint& hint) const {
    return !hint.excluded.empty() && hint.excluded.contains((*backends_)[index].get());
  }
  /// True if every backend that is in rotation and that the request has not tried is deprioritized.
  bool all_deprioritized(const Hint& hint) const;

 private:
  struct Entry {
    const SharedBackend* shared;
    std::uint32_t weight;
  };
  std::shared_ptr<const Backends> backends_;
  std::vector<Entry> entries_;
  double memory_guard_;
};

/// Whether a backend may be picked for one request.
class Eligible {
 public:
  Eligible(const Candidates& candidates, const Hint& hint, bool allow_deprioritized)
      : candidates_(candidates), hint_(hint), allow_deprioritized_(allow_deprioritized) {}

  bool operator()(std::uint32_t index) const {
    return candidates_.in_rotation(index) && candidates_.has_room(index) &&
           (allow_deprioritized_ || !candidates_.deprioritized(index, hint_.now)) &&
           !candidates_.excluded(index, hint_);
  }
  const Hint& hint() const { return hint_; }
  /// True if every backend that the request may use is deprioritized, so one of them may be picked.
  bool allow_deprioritized() const { return allow_deprioritized_; }

 private:
  const Candidates& candidates_;
  const Hint& hint_;
  bool allow_deprioritized_;
};

/// Base of pickers that choose among the eligible backends.
class CandidatePicker : public Picker {
 public:
  const BackendPtr* pick(const Hint& hint) final;

 protected:
  static constexpr std::uint32_t none = Candidates::none;

  CandidatePicker(const PickerOptions& options, std::uint64_t seed)
      : candidates_(options.backends, options.choice.guard()), rng_(seed) {}

  /// An eligible index; `none` only if there is none.
  virtual std::uint32_t choose(const Eligible& eligible) = 0;

  /// The eligible backend with the lowest (in_flight + 1) / weight, ties at random. Looks at every
  /// backend.
  std::uint32_t least_loaded(const Eligible& eligible);
  /// Compares (in_flight + 1) / weight: negative if `a` has less than `b`, positive if more, else
  /// 0.
  int compare_load(std::uint32_t a, std::uint32_t b) const;

  const Candidates candidates_;
  Rng rng_;
};

}  // namespace evenkeel
