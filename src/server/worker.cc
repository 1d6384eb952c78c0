#include "worker.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <system_error>

#include "evenkeel/base/bytes.h"
#include "evenkeel/net/proxy_header.h"

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

/// A handshake costs a hundred times what a request does: beyond this many at a time, newcomers are
/// closed rather than everybody kept waiting.
constexpr unsigned most_beginnings = 1024;

constexpr std::string_view not_tls_answer =
    "HTTP/1.1 400 Bad Request\r\n"
    "content-type: text/plain; charset=utf-8\r\n"
    "content-length: 21\r\n"
    "connection: close\r\n"
    "\r\n"
    "this port speaks TLS\n";

std::vector<Cidr> cidrs_of(const std::vector<Network>& networks) {
  std::vector<Cidr> cidrs;
  for (const Network& network : networks) {
    auto cidr = Cidr::parse(network.text);  // was checked with the file
    if (cidr) cidrs.push_back(*cidr);
  }
  return cidrs;
}

bool any_contains(const std::vector<Cidr>& networks, const Endpoint& peer) {
  return std::any_of(networks.begin(), networks.end(),
                     [&](const Cidr& network) { return network.contains(peer); });
}

/// Ends a connection so that its last words arrive: closing on unread bytes would take them away.
Task<void> say_and_close(std::unique_ptr<Socket> socket, std::string_view words) {
  constexpr int most_reads = 16;
  socket->write_now(words);
  socket->shutdown_write();
  const Instant deadline = socket->loop().now() + std::chrono::seconds(1);
  const Block block = Block::take(Block::small);
  for (int reads = 0; reads < most_reads; ++reads) {
    const auto got = socket->read_some(block.data(), block.size());
    if (got.got == Socket::Got::bytes) continue;
    if (got.got != Socket::Got::nothing_yet) co_return;
    auto wake = co_await socket->watch().until_readable(deadline);
    if (wake == Wake::expired) co_return;
  }
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
                          .half_close_is_gone = config.half_close == HalfClose::abort,
                          .streams = config.limits.max_streams,
                          .trusted_proxies = cidrs_of(config.trusted_proxies)};
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
  ledger_.leave();
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
                                        .proxies = cidrs_of(config.proxy_protocol),
                                        .handshake_timeout = config.timeouts.handshake,
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
    drain_watchers_.wake_all();
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
    if (idle_.empty() && beginning_.empty()) {
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

/// Those make room that have been at their PROXY header or handshake longest, then those that are
/// idle longest.
void Worker::close_idle(int count) {
  for (; count > 0 && !beginning_.empty(); --count) beginning_.wake_first();
  for (; count > 0 && !idle_.empty(); --count) idle_.wake_first();
}

void Worker::serve(Port& port, int fd, const Endpoint& peer) {
  auto socket = Socket::adopt(loop_, fd);
  if (socket == nullptr) {
    connections_.fetch_sub(1, std::memory_order_relaxed);
    return;
  }
  sheet_.listener(port.index).opened.add();
  const bool named_by_proxy = any_contains(port.proxies, peer);
  auto tls = plan_->tls_of(port.options.listener);
  if (named_by_proxy || tls != nullptr) {
    loop_.spawn(open(port, std::move(socket), peer, named_by_proxy, std::move(tls)));
  } else {
    loop_.spawn(serve_http(std::move(socket), peer, port.options, *this));
  }
}

/// What comes before HTTP: who the client is, then TLS.
Task<void> Worker::open(Port& port, std::unique_ptr<Socket> socket, Endpoint peer,
                        bool named_by_proxy, std::shared_ptr<const TlsServer> tls) {
  // Until somebody serves the connection, its end is told here.
  struct Unserved {
    Worker& worker;
    Port& port;
    bool served = false;
    ~Unserved() {
      if (!served) worker.closed(port.options);
    }
  } unserved{*this, port};

  // Whoever has been at it longest makes room: a newcomer with something to say is through in a
  // moment, and those who say nothing cannot keep others out.
  if (beginnings_ >= most_beginnings) beginning_.wake_first();
  std::optional<Beginning> beginning(std::in_place, *this, socket->watch());
  if (named_by_proxy) {
    auto named =
        co_await read_proxy_header(*socket, peer, loop_.now() + port.options.header_timeout);
    if (!named) co_return;
    peer = *named;
  }
  if (tls != nullptr) {
    auto& counters = sheet_.listener(port.index).handshakes;
    const auto count = [&counters](TlsOutcome outcome) {
      counters[static_cast<std::size_t>(outcome)].add();
    };
    auto secured =
        co_await socket->accept_tls(std::move(tls), loop_.now() + port.handshake_timeout);
    count(beginning->made_room ? TlsOutcome::overload : socket->tls_outcome());
    if (beginning->made_room) co_return;
    if (!secured) {
      if (socket->tls_outcome() != TlsOutcome::not_tls) co_return;
      socket->forget_tls();
      beginning.reset();
      co_await say_and_close(std::move(socket), not_tls_answer);
      co_return;
    }
  }
  unserved.served = true;
  beginning.reset();
  // Not awaited: what was needed to begin would stay as long as the connection.
  loop_.spawn(serve_http(std::move(socket), peer, port.options, *this));
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
