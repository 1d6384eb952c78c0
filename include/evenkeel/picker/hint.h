// What a picker knows of a request.
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "evenkeel/base/clock.h"
#include "evenkeel/base/priority.h"

namespace evenkeel {

class Backend;
struct SharedBackend;
struct RequestCost;

/// The backends that a request must not go to: those that it has already tried, and those that its
/// data plane does not allow. A small list that never allocates: a request is not retried once the
/// list is full.
class ExcludedBackends {
 public:
  static constexpr std::size_t capacity = 8;

  bool empty() const { return count_ == 0 && only_ == nullptr; }
  bool full() const { return count_ == capacity; }
  std::size_t size() const { return count_; }
  bool contains(const Backend* backend) const {
    return std::find(begin(), end(), backend) != end() || is_outside(backend);
  }
  /// Excludes all but these backends, which outlive it.
  void keep_to(const std::vector<const Backend*>& only) { only_ = &only; }
  /// All that are not excluded by `keep_to`; null: none is.
  const std::vector<const Backend*>* only() const { return only_; }
  /// REQUIRES: !full().
  void add(const Backend* backend) {
    assert(!full());
    if (!contains(backend)) backends_[count_++] = backend;
  }
  /// The backends that were tried, up to `end`.
  const Backend* const* begin() const { return backends_.data(); }
  const Backend* const* end() const { return backends_.data() + count_; }

 private:
  bool is_outside(const Backend* backend) const {
    return only_ != nullptr && std::find(only_->begin(), only_->end(), backend) == only_->end();
  }

  std::array<const Backend*, capacity> backends_{};
  std::size_t count_ = 0;
  const std::vector<const Backend*>* only_ = nullptr;
};

/// What binds a request to the backend of earlier ones: see AffinityTable.
struct SessionHint {
  std::uint64_t key = 0;        ///< a hash of what names the session
  bool has_state = false;       ///< the backend has state: no other one can continue the session
  bool starts = false;          ///< a sequence, with this request: no earlier pin is its own
  bool is_unconfirmed = false;  ///< the client has yet to return the name that it is given now
  bool began_here = false;      ///< with this very request, whose earlier attempts failed
  bool is_soft = false;         ///< it moves while its backend is saturated
  bool ends = false;            ///< with this request
  /// The key of the session whose prompt this one's begins with, as that of an agent's child does;
  /// 0: none.
  std::uint64_t parent = 0;
};

/// What a request's prompt begins with, as far as it was read: see InferenceRequest.
struct PromptBeginning {
  std::span<const std::uint64_t> blocks;  ///< each hash covers all that precedes the block's end
  std::uint64_t conversation = 0;         ///< 0: none
};

/// The part of a request that decides where it may go.
struct Hint {
  /// consistent-hash: `hash_of` the value that requests share; prefix-affinity: `Picker::key_of`
  std::optional<std::uint64_t> key;
  /// Never picked; outlives `Pool::acquire`.
  ExcludedBackends excluded;
  std::optional<SessionHint> session;  ///< only read by pools that pin sessions
  std::uint32_t subset = 0;  ///< a number of BackendSet: only these, while some serve; 0: all
  std::uint32_t session_subset =
      0;  ///< a pin to a backend outside does not hold; 0: every one does
  const SharedBackend* pinned =
      nullptr;  ///< only the backend with these counters; Pool::acquire sets it
  /// expected-time: where its soft session was; Pool::acquire sets it. Null: it has none.
  const SharedBackend* preferred = nullptr;
  Priority priority = Priority::standard;  ///< its place in the queue
  std::uint32_t tenant = 0;                ///< whose places in the queue it shares; 0: the client's
  std::string_view client;                 ///< its address; outlives `Pool::acquire`
  /// expected-time: what the scheduler is to know of the request; null: a request that generates no
  /// text, which goes where connections are fewest. Outlives `Pool::acquire`.
  const RequestCost* cost = nullptr;
  /// The id of a request whose pick is recorded; empty: it is not. Outlives `Pool::acquire`.
  std::string_view explained_id = {};
  Instant now{};  ///< the time of the pick; Pool::acquire sets it
};

}  // namespace evenkeel
