// Links to one backend, kept by one worker: the one used last is used first, idle ones are let go
// before the server would close them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "evenkeel/base/loop.h"
#include "evenkeel/base/result.h"
#include "evenkeel/base/task.h"
#include "evenkeel/config/config.h"
#include "evenkeel/fleet/connector.h"
#include "evenkeel/stats/sheet.h"
#include "evenkeel/wire/link.h"

namespace evenkeel {

class LinkPool;

struct LinkPoolOptions {
  LinkOptions link;
  ConnectorOptions connector;
  BackendProtocol protocol = BackendProtocol::http1;
  Duration idle_timeout = std::chrono::seconds(4);  ///< below the server's own
  std::size_t max_idle = 256;

  bool operator==(const LinkPoolOptions&) const = default;
};

/// A place on a link, for one request. Dropping it gives the link back to its pool when another
/// request fits, and closes it otherwise.
class [[nodiscard]] LinkLease {
 public:
  LinkLease() = default;
  LinkLease(LinkLease&& other) noexcept : kept_(std::exchange(other.kept_, nullptr)) {}
  LinkLease& operator=(LinkLease&& other) noexcept;
  ~LinkLease() { give_back(); }

  Link* operator->() const { return kept_->link.get(); }
  Link& operator*() const { return *kept_->link; }

 private:
  friend class LinkPool;
  /// A link with its place in the pool. One for a single request belongs to that request's lease
  /// while it is in use; one that is shared always belongs to the pool.
  struct Kept : Waiter, Pooled {
    Kept(LinkPool& owner, std::unique_ptr<Link> made);
    LinkPool& pool;
    std::unique_ptr<Link> link;
    Instant idle_since{};
    std::uint32_t users = 0;
  };
  explicit LinkLease(Kept* kept) : kept_(kept) {}
  void give_back();

  Kept* kept_ = nullptr;
};

/// Thread: one worker's. Outlives its leases.
class LinkPool {
 public:
  /// `addresses`: as a Connector's.
  LinkPool(Loop& loop, std::vector<Endpoint> addresses, const LinkPoolOptions& options,
           BackendCells& cells);
  LinkPool(const LinkPool&) = delete;
  LinkPool& operator=(const LinkPool&) = delete;
  ~LinkPool();

  enum class Want { any, fresh };
  /// A link with room: one that is there and alive, at once, or a new one. While a link that can be
  /// shared is being made, all who need one wait for it. Errors: connect_failed, connect_timeout,
  /// tls_failed, backend_protocol.
  Task<Result<LinkLease>> acquire(Want want = Want::any);

  std::size_t idle() const { return idle_.size(); }

  /// Keeps no link any more: those that come back are closed, and of the idle ones up to `most`
  /// now. How many; less than `most` when there are no more.
  std::size_t let_go(std::size_t most);

 private:
  friend class LinkLease;
  using Kept = LinkLease::Kept;
  enum class Speaks : std::uint8_t { unknown, http1, http2 };

  std::optional<LinkLease> take_shared();
  std::optional<LinkLease> take_idle();
  Task<Result<LinkLease>> connect();
  Task<Result<LinkLease>> join();
  Task<void> dial();
  Task<Result<std::unique_ptr<Link>>> make_link();
  void keep(std::unique_ptr<Link> link);
  void take_back(Kept& kept);
  void take_back_shared(Kept& kept);
  void forget(Kept& kept);
  void drop_shared(const Kept& kept);
  void sweep();
  void sweep_from(Instant idle_since);

  struct Sweep : Timer {
    explicit Sweep(LinkPool& owner)
        : Timer([](Timer& self) { static_cast<Sweep&>(self).pool.sweep(); }), pool(owner) {}
    LinkPool& pool;
  };
  /// Waits for the link that is being made.
  struct Joiner : Node {
    explicit Joiner(Loop& loop) : made(loop) {}
    Signal made;
    std::optional<Error> failure;
  };

  Loop& loop_;
  Connector connector_;
  LinkPoolOptions options_;
  BackendCells& cells_;
  Speaks speaks_;
  Instant guess_ends_ = never;                 // of `speaks_`, where nobody has said so
  std::vector<std::unique_ptr<Kept>> idle_;    // the one used last at the back
  std::vector<std::unique_ptr<Kept>> shared_;  // in use or not
  Node joiners_;
  Task<void> dial_;  // of a link that may be shared: whoever asked for it may leave
  Sweep sweep_;
};

}  // namespace evenkeel
