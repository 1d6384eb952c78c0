// Links to one backend, kept by one worker: the one used last is used first, idle ones are let go
// before the server would close them.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "evenkeel/base/loop.h"
#include "evenkeel/base/result.h"
#include "evenkeel/base/task.h"
#include "evenkeel/fleet/connector.h"
#include "evenkeel/stats/sheet.h"
#include "evenkeel/wire/link.h"

namespace evenkeel {

class LinkPool;

struct LinkPoolOptions {
  LinkOptions link;
  ConnectorOptions connector;
  Duration idle_timeout = std::chrono::seconds(4);  ///< below the server's own
  std::size_t max_idle = 256;
};

/// A link that a request is using. Dropping it gives the link back to its pool when another request
/// fits, and closes it otherwise.
class [[nodiscard]] LinkLease {
 public:
  LinkLease() = default;
  LinkLease(LinkLease&& other) noexcept = default;
  LinkLease& operator=(LinkLease&& other) noexcept;
  ~LinkLease() { give_back(); }

  Link* operator->() const { return kept_->link.get(); }
  Link& operator*() const { return *kept_->link; }

 private:
  friend class LinkPool;
  /// A link with its place in the pool.
  struct Kept : Waiter, Pooled {
    Kept(LinkPool& owner, std::unique_ptr<Link> made);
    LinkPool& pool;
    std::unique_ptr<Link> link;
    Instant idle_since{};
  };
  explicit LinkLease(std::unique_ptr<Kept> kept) : kept_(std::move(kept)) {}
  void give_back();

  std::unique_ptr<Kept> kept_;
};

/// Thread: one worker's. Outlives its leases.
class LinkPool {
 public:
  /// `addresses`: of the server, not empty; tried in turn, beginning with the one that answered
  /// last.
  LinkPool(Loop& loop, std::vector<Endpoint> addresses, const LinkPoolOptions& options,
           BackendCells& cells);
  LinkPool(const LinkPool&) = delete;
  LinkPool& operator=(const LinkPool&) = delete;
  ~LinkPool();

  enum class Want { any, fresh };
  /// A link with room: an idle one that is alive, at once, or a new one. Errors: connect_failed,
  /// connect_timeout.
  Task<Result<LinkLease>> acquire(Want want = Want::any);

  std::size_t idle() const { return idle_.size(); }

 private:
  friend class LinkLease;
  using Kept = LinkLease::Kept;

  Task<Result<LinkLease>> connect();
  void take_back(std::unique_ptr<Kept> kept);
  void forget(Kept& kept);
  void sweep();

  struct Sweep : Timer {
    explicit Sweep(LinkPool& owner)
        : Timer([](Timer& self) { static_cast<Sweep&>(self).pool.sweep(); }), pool(owner) {}
    LinkPool& pool;
  };

  Loop& loop_;
  Connector connector_;
  LinkPoolOptions options_;
  BackendCells& cells_;
  std::vector<std::unique_ptr<Kept>> idle_;  // the one used last at the back
  Sweep sweep_;
};

}  // namespace evenkeel
