#include "server/worker.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <string>

#include "evenkeel/base/descriptor_limit.h"
#include "evenkeel/scaling/external_scaler.h"

namespace evenkeel {
namespace {

/// True if a worker with `own` connections hands a new one to the worker with the `least`. The
/// kernel distributes connections by hash, which is uneven while there are few.
bool should_hand_over(std::uint32_t own, std::uint32_t least) {
  return own > least + 8 + least / 4;
}

/// Sooner, the next request of its client may be on the way.
constexpr Duration min_idle_time = std::chrono::milliseconds(250);
/// Clients that mean it are through their handshake by then.
constexpr Duration usual_handshake_time = std::chrono::seconds(1);
constexpr int shed_on_fd_exhaustion = 16;  // idle connections
/// Connections beyond a listener's limit, while those that are closed for them still count.
constexpr std::int64_t max_excess = 64;
constexpr std::size_t link_close_batch = 32;  // links to removed backends, per turn of the loop

/// The kernel assigns the lowest free number: a new descriptor at or above this one shows that few
/// are left. Those are reserved for links to backends and for the admin listener.
int compute_fd_reserve_threshold() {
  constexpr std::uint64_t unlimited = std::numeric_limits<int>::max();
  const std::uint64_t all = std::min(descriptor_limit().value_or(unlimited), unlimited);
  const std::uint64_t reserved = std::clamp<std::uint64_t>(all / 16, 16, 1024);
  return static_cast<int>(all - std::min(all, reserved));
}

}  // namespace

Worker::Worker(unsigned index, MetricsRegistry& metrics_registry, AccessLogRing* ring,
               AccessLogRing* usage_ring, AuditLog* audit_log,
               const MemoryPressureLevel& memory_pressure, bool may_busy_poll, ScalingFeed* scaling)
    : index_(index),
      may_busy_poll_(may_busy_poll),
      fd_reserve_threshold_(compute_fd_reserve_threshold()),
      metrics_registry_(metrics_registry),
      worker_metrics_(metrics_registry.worker_metrics(index)),
      memory_pressure_(memory_pressure),
      held_bodies_(loop_, worker_metrics_.replay(), &memory_pressure),
      recorder_(loop_, worker_metrics_, ring, usage_ring),
      external_scaler_(std::make_shared<ExternalScaler>(scaling, loop_)) {
  if (audit_log != nullptr) recorder_.observe_credentials(audited_credentials_.emplace(*audit_log));
}

Worker::~Worker() {
  stop();
  recorder_.start_draining();
  loop_.drop_spawned();  // connections use the members below
  listeners_.clear();
  plan_.reset();
}

void Worker::adopt(std::shared_ptr<const Config> config, std::shared_ptr<const PoolSet> pool_set,
                   std::shared_ptr<const KeyTable> keys,
                   std::shared_ptr<const TokenIssuers> issuers) {
  loop_.set_busy_polling(may_busy_poll_ && config->busy_polling);
  recorder_.set_log(config->access_log);
  recorder_.set_usage(config->usage);
  auto next = std::make_shared<Plan>(
      std::move(config), std::move(pool_set),
      WorkerContext{loop_, metrics_registry_, index_, recorder_, held_bodies_, &memory_pressure_,
                    &models_, &plan_, &windows_},
      plan_.get(), std::move(keys), std::move(issuers));
  std::erase_if(former_plans_, [](const auto& each) { return each.expired(); });
  auto left = plan_ == nullptr ? std::vector<std::shared_ptr<LinkPool>>{}
                               : plan_->links().not_in(next->links());
  const auto before = std::exchange(plan_, std::move(next));
  for (WorkerListener& listener : listeners_) listener.refresh_tls();
  if (before == nullptr) return;
  former_plans_.push_back(before);
  for (const auto& each : former_plans_) {
    if (const auto former = each.lock()) former->hand_queues_to(plan_);
  }
  if (!left.empty()) loop_.spawn(retire_links(std::move(left)));
}

/// Closes links that no plan uses any more, a few per turn of the loop: there may be thousands, and
/// requests must not wait for that.
Task<void> Worker::retire_links(std::vector<std::shared_ptr<LinkPool>> pools) {
  std::size_t left = 0;
  for (const auto& pool : pools) {
    while (true) {
      if (left == 0) {
        co_await loop_.yield();
        left = link_close_batch;
      }
      const std::size_t closed = pool->retire_links(left);
      left -= closed;
      if (left > 0) break;
    }
  }
}

void Worker::listen(const ListenerAssignment& assignments) {
  if (draining_) {
    for (const ListenerAssignment::Entry& entry : assignments.entries) {
      if (find_listener(entry.id) != nullptr) continue;
      for (const int fd : entry.fds) close(fd);
    }
    return;
  }
  // Those that retire now stay: another worker may be handing them a connection.
  listeners_.remove_if(
      [](const WorkerListener& listener) { return listener.retired() && listener.empty(); });
  std::vector<const WorkerListener*> wanted;
  for (const ListenerAssignment::Entry& entry : assignments.entries) {
    WorkerListener* listener = find_listener(entry.id);
    if (listener != nullptr) {
      listener->update(entry.config);
    } else {
      listener = &listeners_.emplace_back(
          *this, entry, idle_.at(metrics_registry_.label_index().listener(entry.config.name)));
    }
    listener->open(entry.fds);  // those that it has not opened
    wanted.push_back(listener);
  }
  for (WorkerListener& listener : listeners_) {
    const bool stays = std::find(wanted.begin(), wanted.end(), &listener) != wanted.end();
    if (!stays && !listener.retired()) listener.retire(Retire::closing);
  }
}

WorkerListener* Worker::find_listener(ListenerId id) {
  const auto found =
      std::find_if(listeners_.begin(), listeners_.end(),
                   [&](const WorkerListener& listener) { return listener.id() == id; });
  return found == listeners_.end() ? nullptr : &*found;
}

void Worker::start(const std::vector<std::unique_ptr<Worker>>& peers) {
  peers_ = &peers;
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), ("worker-" + std::to_string(index_)).c_str());
    loop_.run();
  });
}

void Worker::begin_drain(Retire how) {
  loop_.post([this, how] {
    draining_ = true;
    for (WorkerListener& listener : listeners_) {
      if (!listener.retired()) listener.retire(how);
    }
  });
}

void Worker::stop() {
  if (!thread_.joinable()) return;
  loop_.stop();
  thread_.join();
}

Worker& Worker::least_loaded() {
  Worker* least = this;
  for (const auto& peer : *peers_) {
    if (peer->connections() < least->connections()) least = peer.get();
  }
  return *least;
}

Listener::Room Worker::make_room(const WorkerListener& listener, int fd, const Endpoint& peer) {
  const auto most = static_cast<std::int64_t>(listener.max_connections());
  const std::int64_t excess =
      most == 0 ? -1 : metrics_registry_.connections(listener.index()) - most;
  const bool lacks_memory = memory_pressure_.get() != MemoryPressure::none && any_connection();
  const bool lacks_descriptors = fd >= fd_reserve_threshold_;
  if (lacks_memory) {  // the control thread closes idle connections
    paused_ = true;
    return Listener::Room::none;
  }
  if (excess < 0 && !lacks_descriptors) return Listener::Room::free;
  // Connections that are closed for others still count until the loop's next step: far beyond the
  // limit, two are closed for one. Where descriptors are scarce too, so that the next connection
  // gets one of their low numbers.
  const ShedReason reason = excess >= 0 ? ShedReason::max_connections : ShedReason::descriptors;
  const WorkerListener* const only = excess >= 0 ? &listener : nullptr;
  const ClientSize size = listener.size_of(peer);
  bool made = false;
  for (int left = excess >= 0 && excess <= max_excess ? 1 : 2; left > 0; --left) {
    if (!shed(only, reason, size)) break;
    made = true;
  }
  if (made) return Listener::Room::free;
  if (size == ClientSize::large) {
    listener.count_shed(reason);
    return Listener::Room::refused;
  }
  paused_ = true;
  return Listener::Room::none;
}

/// Closes a connection to this listener or, null, to any, for one of a client of this size.
bool Worker::shed(const WorkerListener* only, ShedReason reason, ClientSize for_client) {
  const Instant idle_before = loop_.now() - min_idle_time;
  const Instant begun_before = loop_.now() - usual_handshake_time;
  // For others, large clients give up what may be in use in a moment.
  const bool is_large = for_client == ClientSize::large;
  return shed_longest_idle(only, ClientSize::large, reason, is_large ? idle_before : never) ||
         shed_handshake(only, ClientSize::large, reason, is_large ? begun_before : never) ||
         (!is_large && (shed_longest_idle(only, ClientSize::usual, reason, idle_before) ||
                        shed_handshake(only, ClientSize::usual, reason, begun_before)));
}

/// Closes the connection of clients of this size that is idle longest over all workers; false: none
/// is, or not since before `idle_before`.
bool Worker::shed_longest_idle(const WorkerListener* only, ClientSize size, ShedReason reason,
                               Instant idle_before) {
  Worker* holder = nullptr;
  WorkerListener* oldest = nullptr;
  Instant since = idle_before;
  for (const auto& peer : *peers_) {
    const std::uint32_t requested = peer->requested_sheds_.load(std::memory_order_relaxed);
    for (WorkerListener& listener : listeners_) {
      if (listener.retired() || (only != nullptr && &listener != only)) continue;
      const BySize<IdleSummary>* all = peer->idle_.find(listener.index());
      if (all == nullptr) continue;
      const IdleSummary& idle = all->of(size);
      if (idle.count.load(std::memory_order_relaxed) <= requested) continue;
      const Instant oldest_there = idle.oldest_since.load(std::memory_order_relaxed);
      if (oldest_there >= since) continue;
      since = oldest_there;
      holder = peer.get();
      oldest = &listener;
    }
  }
  if (oldest == nullptr) return false;
  if (holder == this) return oldest->shed_idle(size, reason, idle_before);
  shed_for(*holder, oldest->id(), size, reason, idle_before);
  return true;
}

/// Makes another worker close a connection. If that has none left, the next new connection makes
/// up for it.
void Worker::shed_for(Worker& other, ListenerId id, ClientSize size, ShedReason reason,
                      Instant idle_before) {
  other.requested_sheds_.fetch_add(1, std::memory_order_relaxed);
  other.loop_.post([&other, id, size, reason, idle_before] {
    other.requested_sheds_.fetch_sub(1, std::memory_order_relaxed);
    if (WorkerListener* same = other.find_listener(id)) same->shed_idle(size, reason, idle_before);
  });
}

bool Worker::shed_handshake(const WorkerListener* only, ClientSize size, ShedReason reason,
                            Instant begun_before) {
  for (WorkerListener& listener : listeners_) {
    if (only != nullptr && &listener != only) continue;
    if (listener.shed_handshake(size, reason, begun_before)) return true;
  }
  return false;
}

void Worker::shed_idle(double share, ShedReason reason) {
  loop_.post([this, share, reason] {
    for (WorkerListener& listener : listeners_) listener.shed_idle_share(share, reason);
  });
}

bool Worker::any_connection() const {
  return std::any_of(peers_->begin(), peers_->end(),
                     [](const auto& peer) { return peer->connections() > 0; });
}

void Worker::resume_accepting() {
  paused_ = false;
  for (WorkerListener& listener : listeners_) listener.resume_accepting();
}

void Worker::accepted(WorkerListener& listener, int fd, const Endpoint& peer) {
  Worker& chosen = least_loaded();
  if (&chosen == this || !should_hand_over(connections(), chosen.connections())) {
    connection_began();
    listener.serve(fd, peer);
    return;
  }
  chosen.loop_.post([this, &chosen, handoff = std::make_shared<ConnectionHandoff>(chosen, fd), peer,
                     id = listener.id()] {
    if (WorkerListener* same = chosen.find_listener(id)) return same->serve(handoff->take(), peer);
    // The other worker does not have this listener yet; the one that accepted does.
    const auto back = std::make_shared<ConnectionHandoff>(*this, handoff->cancel());
    loop_.post([this, back, peer, id] {
      if (WorkerListener* own = find_listener(id)) own->serve(back->take(), peer);
    });
  });
}

/// A connection on its way to another worker, counted there; closed if it does not arrive.
Worker::ConnectionHandoff::ConnectionHandoff(Worker& to, int fd) : worker_(to), fd_(fd) {
  worker_.connection_began();
}

Worker::ConnectionHandoff::~ConnectionHandoff() {
  if (fd_ >= 0) close(cancel());
}

int Worker::ConnectionHandoff::cancel() {
  worker_.connections_.fetch_sub(1, std::memory_order_relaxed);
  return take();
}

void Worker::descriptors_exhausted() {
  for (int i = 0; i < shed_on_fd_exhaustion; ++i) {
    const bool made =
        shed_longest_idle(nullptr, ClientSize::large, ShedReason::descriptors, never) ||
        shed_longest_idle(nullptr, ClientSize::usual, ShedReason::descriptors, never);
    if (!made) shed(nullptr, ShedReason::descriptors, ClientSize::usual);
  }
}

void Worker::refused(const Refusal& refusal) {
  recorder_.refused({.method = refusal.method, .host = refusal.host, .path = refusal.path},
                    refusal.info);
}

}  // namespace evenkeel
