#include "server/worker.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <string>

namespace evenkeel {
namespace {

/// How far ahead of the least busy worker a worker may be before it hands new connections over:
/// the kernel spreads them by hash, which is uneven where there are few.
bool far_ahead(std::uint32_t own, std::uint32_t least) { return own > least + 8 + least / 4; }

constexpr int closed_when_exhausted = 16;           // idle connections, at a time
constexpr std::size_t links_closed_at_a_time = 32;  // of backends that are gone

/// The kernel gives the lowest free number: a new descriptor from here on says that few are left.
/// They are kept for links to backends and for the admin listener.
int find_first_scarce_descriptor() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::numeric_limits<int>::max();
  const rlim_t all = std::min<rlim_t>(limit.rlim_cur, std::numeric_limits<int>::max());
  const rlim_t kept_back = std::clamp<rlim_t>(all / 16, 16, 1024);
  return static_cast<int>(all - std::min(all, kept_back));
}

}  // namespace

Worker::Worker(unsigned index, Sheets& sheets, LineRing* ring)
    : index_(index),
      first_scarce_descriptor_(find_first_scarce_descriptor()),
      sheets_(sheets),
      sheet_(sheets.sheet(index)),
      ledger_(loop_, sheet_, ring) {}

Worker::~Worker() {
  stop();
  ledger_.leave();
  loop_.drop_spawned();  // connections use all that follows
  ports_.clear();
  plan_.reset();
}

void Worker::adopt(std::shared_ptr<const Config> config, std::shared_ptr<const Fleet> fleet) {
  auto next = std::make_shared<Plan>(std::move(config), std::move(fleet),
                                     WorkerContext{loop_, sheets_, index_, ledger_}, plan_.get());
  const auto before = std::exchange(plan_, std::move(next));
  for (Port& port : ports_) port.renew_tls();
  if (before == nullptr) return;
  auto left = before->links_not_in(*plan_);
  if (!left.empty()) loop_.spawn(let_go(std::move(left)));
}

/// Closes links that nobody will use any more, a few at a time: there may be thousands, and
/// requests do not wait for that.
Task<void> Worker::let_go(std::vector<std::shared_ptr<LinkPool>> pools) {
  std::size_t left = 0;
  for (const auto& pool : pools) {
    while (true) {
      if (left == 0) {
        co_await loop_.yield();
        left = links_closed_at_a_time;
      }
      const std::size_t closed = pool->let_go(left);
      left -= closed;
      if (left > 0) break;
    }
  }
}

void Worker::listen(const Doors& doors) {
  if (draining_) {
    for (const Doors::Door& door : doors.doors) {
      if (door.fd >= 0) close(door.fd);
    }
    return;
  }
  // Those that retire now stay: somebody may be on his way to them from another worker.
  ports_.remove_if([](const Port& port) { return port.retired() && port.empty(); });
  std::vector<const Port*> wanted;
  for (const Doors::Door& door : doors.doors) {
    Port* port = port_numbered(door.number);
    if (port != nullptr) {
      port->change(door.config);
    } else {
      port = &ports_.emplace_back(*this, door.number, door.config);
      port->open(door.fd);
    }
    wanted.push_back(port);
  }
  for (Port& port : ports_) {
    const bool stays = std::find(wanted.begin(), wanted.end(), &port) != wanted.end();
    if (!stays && !port.retired()) port.retire();
  }
}

Port* Worker::port_numbered(std::uint32_t number) {
  const auto found = std::find_if(ports_.begin(), ports_.end(),
                                  [&](const Port& port) { return port.number() == number; });
  return found == ports_.end() ? nullptr : &*found;
}

void Worker::start(const std::vector<std::unique_ptr<Worker>>& peers) {
  peers_ = &peers;
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), ("worker-" + std::to_string(index_)).c_str());
    loop_.run();
  });
}

void Worker::begin_drain() {
  loop_.post([this] {
    draining_ = true;
    for (Port& port : ports_) {
      if (!port.retired()) port.retire();
    }
  });
}

void Worker::stop() {
  if (!thread_.joinable()) return;
  loop_.stop();
  thread_.join();
}

Worker& Worker::least_busy() {
  Worker* least = this;
  for (const auto& peer : *peers_) {
    if (peer->connections() < least->connections()) least = peer.get();
  }
  return *least;
}

void Worker::accepted(Port& port, int fd, const Endpoint& peer) {
  const bool full =
      port.most_connections() != 0 &&
      sheets_.connections(port.index()) >= static_cast<std::int64_t>(port.most_connections());
  const bool scarce = fd >= first_scarce_descriptor_;
  if (full || scarce) {
    // Two where descriptors are scarce: the next newcomer will get one of their low numbers.
    const int made = full ? port.close_idle(1) : close_idle(2);
    if (made == 0) {
      close(fd);
      return;
    }
  }
  Worker& chosen = least_busy();
  if (&chosen == this || !far_ahead(connections(), chosen.connections())) {
    connections_.fetch_add(1, std::memory_order_relaxed);
    port.serve(fd, peer);
    return;
  }
  chosen.loop_.post([this, &chosen, handed = std::make_shared<HandedOver>(chosen, fd), peer,
                     number = port.number()] {
    if (Port* same = chosen.port_numbered(number)) return same->serve(handed->take(), peer);
    // It is about to learn of this listener: who accepted knows it.
    const auto back = std::make_shared<HandedOver>(*this, handed->give_up());
    loop_.post([this, back, peer, number] {
      if (Port* own = port_numbered(number)) own->serve(back->take(), peer);
    });
  });
}

/// A connection on its way to another worker; closed if it does not arrive.
Worker::HandedOver::HandedOver(Worker& to, int fd) : worker_(to), fd_(fd) {
  worker_.connections_.fetch_add(1, std::memory_order_relaxed);
}

Worker::HandedOver::~HandedOver() {
  if (fd_ >= 0) close(give_up());
}

int Worker::HandedOver::give_up() {
  worker_.connections_.fetch_sub(1, std::memory_order_relaxed);
  return take();
}

/// Of all listeners, in their order.
int Worker::close_idle(int count) {
  int closed = 0;
  for (Port& port : ports_) closed += port.close_idle(count - closed);
  return closed;
}

void Worker::descriptors_exhausted() { close_idle(closed_when_exhausted); }

void Worker::refused(const Refusal& refusal) {
  ledger_.refused(refusal.method, refusal.path, refusal.about);
}

}  // namespace evenkeel
