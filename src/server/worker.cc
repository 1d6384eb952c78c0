#include "worker.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <string>
#include <system_error>

namespace evenkeel {
namespace {

/// How far ahead of the least busy worker a worker may be before it hands new connections over:
/// the kernel spreads them by hash, which is uneven where there are few.
bool far_ahead(std::uint32_t own, std::uint32_t least) { return own > least + 8 + least / 4; }

constexpr int closed_when_exhausted = 16;  // idle connections, at a time

/// The kernel gives the lowest free number: a new descriptor from here on says that few are left.
/// They are kept for links to backends and for the admin listener.
int find_first_scarce_descriptor() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::numeric_limits<int>::max();
  const rlim_t all = std::min<rlim_t>(limit.rlim_cur, std::numeric_limits<int>::max());
  const rlim_t kept_back = std::clamp<rlim_t>(all / 16, 16, 1024);
  return static_cast<int>(all - std::min(all, kept_back));
}

FrontendOptions options_of(const ListenerConfig& config) {
  FrontendOptions options{.listener = config.name,
                          .header_timeout = config.timeouts.header,
                          .idle_timeout = config.timeouts.idle,
                          .body_timeout = config.timeouts.body,
                          .write_timeout = config.timeouts.write,
                          .header_bytes = config.limits.header_bytes,
                          .header_fields = config.limits.header_fields,
                          .uri_bytes = config.limits.uri_bytes,
                          .body_bytes = config.limits.body_bytes,
                          .half_close_is_gone = config.half_close == HalfClose::abort};
  for (const Network& network : config.trusted_proxies) {
    auto cidr = Cidr::parse(network.text);  // was checked with the file
    if (cidr) options.trusted_proxies.push_back(*cidr);
  }
  return options;
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
  loop_.drop_spawned();  // connections use all that follows
  ports_.clear();
  plan_.reset();
}

void Worker::adopt(const Config& config, std::shared_ptr<const Fleet> fleet) {
  plan_ = std::make_shared<Plan>(config, std::move(fleet),
                                 WorkerContext{loop_, sheets_, index_, ledger_});
}

void Worker::listen(const ListenerConfig& config, int fd) {
  Port& port = ports_.emplace_back(Port{.options = options_of(config),
                                        .most_connections = config.limits.max_connections,
                                        .index = sheets_.names().listener(config.name)});
  port.listener = std::make_unique<Listener>(
      loop_, fd,
      [this, &port](int accepted, const Endpoint& peer) { accept(port, accepted, peer); },
      [this] { close_idle(closed_when_exhausted); });
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
    for (Port& port : ports_) port.listener.reset();
    idle_.wake_all();
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

void Worker::accept(Port& port, int fd, const Endpoint& peer) {
  const bool full =
      port.most_connections != 0 &&
      sheets_.connections(port.index) >= static_cast<std::int64_t>(port.most_connections);
  const bool scarce = fd >= first_scarce_descriptor_;
  if (full || scarce) {
    if (idle_.empty()) {
      close(fd);
      return;
    }
    // Two where descriptors are scarce: the next newcomer will get one of their low numbers.
    close_idle(scarce ? 2 : 1);
  }
  Worker& chosen = least_busy();
  if (&chosen == this || !far_ahead(connections(), chosen.connections())) {
    connections_.fetch_add(1, std::memory_order_relaxed);
    serve(port, fd, peer);
    return;
  }
  chosen.loop_.post([&chosen, handed = std::make_shared<HandedOver>(chosen, fd), peer,
                     name = port.options.listener] {
    const auto same = std::find_if(chosen.ports_.begin(), chosen.ports_.end(),
                                   [&](const Port& each) { return each.options.listener == name; });
    if (same != chosen.ports_.end()) chosen.serve(*same, handed->take(), peer);
  });
}

/// A connection on its way to another worker; closed if it does not arrive.
Worker::HandedOver::HandedOver(Worker& to, int fd) : worker_(to), fd_(fd) {
  worker_.connections_.fetch_add(1, std::memory_order_relaxed);
}

Worker::HandedOver::~HandedOver() {
  if (fd_ < 0) return;
  worker_.connections_.fetch_sub(1, std::memory_order_relaxed);
  close(fd_);
}

/// Those that are idle longest make room.
void Worker::close_idle(int count) {
  for (int i = 0; i < count && !idle_.empty(); ++i) idle_.wake_first();
}

void Worker::serve(Port& port, int fd, const Endpoint& peer) {
  auto socket = Socket::adopt(loop_, fd);
  if (socket == nullptr) {
    connections_.fetch_sub(1, std::memory_order_relaxed);
    return;
  }
  sheet_.listener(port.index).opened.add();
  loop_.spawn(serve_http1(std::move(socket), peer, port.options, *this));
}

void Worker::closed(const FrontendOptions& listener) {
  connections_.fetch_sub(1, std::memory_order_relaxed);
  for (const Port& port : ports_) {
    if (&port.options == &listener) sheet_.listener(port.index).closed.add();
  }
}

void Worker::refused(const Refusal& refusal) {
  ledger_.refused(refusal.method, refusal.path, refusal.about);
}

}  // namespace evenkeel
