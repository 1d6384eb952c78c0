// One worker's links to one backend. Of the idle ones, the most recently used is taken first. Idle
// links are closed before the server would close them.
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
#include "evenkeel/stats/worker_metrics.h"
#include "evenkeel/upstream/connector.h"
#include "evenkeel/wire/link.h"

namespace evenkeel {

class LinkPool;

struct LinkPoolOptions {
  LinkOptions link;
  ConnectorOptions connector;
  BackendProtocol protocol = BackendProtocol::http1;
  KeepAliveConfig keep_alive;

  bool operator==(const LinkPoolOptions&) const = default;
};

/// The use of a link by one request. Its destructor returns the link to its pool if the link takes
/// further requests, and closes it otherwise.
class [[nodiscard]] LinkLease {
 public:
  LinkLease() = default;
  LinkLease(LinkLease&& other) noexcept
      : pooled_(std::exchange(other.pooled_, nullptr)), newly_connected_(other.newly_connected_) {}
  LinkLease& operator=(LinkLease&& other) noexcept;
  ~LinkLease() { release(); }

  Link* operator->() const { return pooled_->link.get(); }
  Link& operator*() const { return *pooled_->link; }

  /// True if the connection was made during the `acquire` that granted this lease. False: it was
  /// kept.
  bool newly_connected() const { return newly_connected_; }

 private:
  friend class LinkPool;
  /// An exclusive link belongs to its lease while it is in use; a shared one always belongs to the
  /// pool.
  struct PooledLink : Pooled, Node {
    PooledLink(LinkPool& owner, std::unique_ptr<Link> made) : pool(owner), link(std::move(made)) {}
    void on_idle_close();
    LinkPool& pool;
    std::unique_ptr<Link> link;
    Instant idle_since{};
    std::uint32_t users = 0;
    MethodWaiter<&PooledLink::on_idle_close> idle_close{*this};
  };
  explicit LinkLease(PooledLink* pooled) : pooled_(pooled) {}
  LinkLease& as_newly_connected() {
    newly_connected_ = true;
    return *this;
  }
  void release();

  PooledLink* pooled_ = nullptr;
  bool newly_connected_ = false;
};

/// True if a request that failed with `error` may be sent to the same server again: the server says
/// that it has not processed it (HTTP/2), or was probably closing an idle link, and the body can be
/// sent from its beginning.
bool may_resend(const Error& error, const Request& request);

/// Thread: one worker's. Outlives its leases.
class LinkPool {
 public:
  /// `addresses`: as for a Connector.
  LinkPool(Loop& loop, std::vector<Endpoint> addresses, const LinkPoolOptions& options,
           BackendMetrics& metrics);
  LinkPool(const LinkPool&) = delete;
  LinkPool& operator=(const LinkPool&) = delete;
  ~LinkPool();

  enum class LinkChoice { any, fresh };
  enum class LinkProtocol { any, http1 };
  /// A link with room: an existing one at once, or a new one. While a link that can be shared is
  /// being opened, all requests that need one wait for it. `fresh`: one that is made from now
  /// on; then the shared links that are not in use are closed, since it replaces them.
  /// Errors: connect_failed, connect_timeout, tls_failed, backend_protocol; overloaded as of
  /// Connector::connect.
  /// `http1`: not HTTP/2, for an upgrade; of no effect if the pool's `protocol` is HTTP/2.
  Task<Result<LinkLease>> acquire(LinkChoice link_choice = LinkChoice::any,
                                  LinkProtocol protocol = LinkProtocol::any);

  std::size_t idle() const { return idle_.size(); }

  /// The server may be dead: see Link::suspect. Applies to links in use and to those opened from
  /// now on; `Duration::max()` ends it, and has shared links checked once more.
  void suspect(Duration max_silence);

  /// Stops keeping links: closes up to `max_count` idle ones now, and those in use when they are
  /// returned. Returns how many it closed; fewer than `max_count` means that no idle one is left.
  std::size_t retire_links(std::size_t max_count);

 private:
  friend class LinkLease;
  using PooledLink = LinkLease::PooledLink;
  enum class PeerProtocol : std::uint8_t { unknown, http1, http2 };

  std::optional<LinkLease> take_shared(LinkChoice link_choice);
  std::optional<LinkLease> take_idle();
  Task<Result<LinkLease>> connect(AlpnOffer alpn);
  Result<LinkLease> lease_new(std::unique_ptr<Link> link);
  LinkLease lease_shared(PooledLink& pooled);
  PooledLink& track_busy(PooledLink& pooled);
  Task<Result<LinkLease>> wait_for_dial(LinkChoice link_choice);
  Task<void> dial();
  Task<Result<std::unique_ptr<Link>>> make_link();
  PooledLink& add_link(std::unique_ptr<Link> link);
  void drop_unused_shared(const PooledLink& kept);
  void return_link(PooledLink& pooled);
  void return_shared_link(PooledLink& pooled);
  template <class Condition>
  void drop_if(std::vector<std::unique_ptr<PooledLink>>& links, Condition condition);
  void on_idle_closed(const PooledLink& pooled);
  void sweep();
  void sweep_from(Instant idle_since);

  /// Waits for the link that is being opened.
  struct DialWaiter : Node {
    DialWaiter(Loop& loop, LinkChoice choice) : made(loop), link_choice(choice) {}
    Signal made;
    LinkChoice link_choice;
    const PooledLink* opened = nullptr;  // to compare with; it may be gone
    std::optional<Error> failure;
  };

  Loop& loop_;
  Connector connector_;
  LinkPoolOptions options_;
  BackendMetrics& metrics_;
  PeerProtocol peer_protocol_;
  Instant protocol_guess_expires_ = never;         // when a guessed `peer_protocol_` is tried again
  std::vector<std::unique_ptr<PooledLink>> idle_;  // the most recently used is at the back
  std::vector<std::unique_ptr<PooledLink>> shared_;  // in use or not, the newest in front
  Node busy_;                                        // exclusive links in use
  Duration max_silence_ = Duration::max();           // of the links in use
  Node dial_waiters_;
  Task<void> dial_;  // opens a shared link; outlives the request that needed it
  MethodTimer<&LinkPool::sweep> sweep_{*this};
};

}  // namespace evenkeel
