#include "server/worker.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <string>

#include "evenkeel/base/descriptor_limit.h"

namespace evenkeel {
namespace {

/// Whether a worker with `own` connections hands a new one to the worker with the `least`. The
/// kernel distributes connections by hash, which is uneven while there are few.
bool should_hand_over(std::uint32_t own, std::uint32_t least) {
  return own > least + 8 + least / 4;
}

constexpr int close_batch_on_fd_exhaustion = 16;  // idle connections
constexpr std::size_t link_close_batch = 32;      // links to removed backends, per turn of the loop

/// The kernel assigns the lowest free number: a new descriptor at or above this one shows that few
/// are left. Those are reserved for links to backends and for the admin listener.
int compute_fd_reserve_threshold() {
  constexpr std::uint64_t unlimited = std::numeric_limits<int>::max();
  const std::uint64_t all = std::min(descriptor_limit().value_or(unlimited), unlimited);
  const std::uint64_t reserved = std::clamp<std::uint64_t>(all / 16, 16, 1024);
  return static_cast<int>(all - std::min(all, reserved));
}

}  // namespace

Worker::Worker(unsigned index, MetricsRegistry& metrics_registry, AccessLogRing* ring)
    : index_(index),
      fd_reserve_threshold_(compute_fd_reserve_threshold()),
      metrics_registry_(metrics_registry),
      worker_metrics_(metrics_registry.worker_metrics(index)),
      recorder_(loop_, worker_metrics_, ring) {}

Worker::~Worker() {
  stop();
  recorder_.start_draining();
  loop_.drop_spawned();  // connections use the members below
  listeners_.clear();
  plan_.reset();
}

void Worker::adopt(std::shared_ptr<const Config> config, std::shared_ptr<const PoolSet> pool_set) {
  auto next = std::make_shared<Plan>(std::move(config), std::move(pool_set),
                                     WorkerContext{loop_, metrics_registry_, index_, recorder_},
                                     plan_.get());
  const auto before = std::exchange(plan_, std::move(next));
  for (WorkerListener& listener : listeners_) listener.refresh_tls();
  if (before == nullptr) return;
  auto left = before->links_not_in(*plan_);
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
      listener = &listeners_.emplace_back(*this, entry.id, entry.config);
      listener->open(entry.fds);
    }
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

void Worker::accepted(WorkerListener& listener, int fd, const Endpoint& peer) {
  const bool full =
      listener.max_connections() != 0 && metrics_registry_.connections(listener.index()) >=
                                             static_cast<std::int64_t>(listener.max_connections());
  const bool low_on_fds = fd >= fd_reserve_threshold_;
  if (full || low_on_fds) {
    // Two where descriptors are scarce: the next connection then gets one of their low numbers.
    const int made = full ? listener.close_idle(1) : close_idle(2);
    if (made == 0) {
      close(fd);
      return;
    }
  }
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

/// Of all listeners, in order.
int Worker::close_idle(int count) {
  int closed = 0;
  for (WorkerListener& listener : listeners_) closed += listener.close_idle(count - closed);
  return closed;
}

void Worker::descriptors_exhausted() { close_idle(close_batch_on_fd_exhaustion); }

void Worker::refused(const Refusal& refusal) {
  recorder_.refused(refusal.method, refusal.host, refusal.path, refusal.info);
}

}  // namespace evenkeel
