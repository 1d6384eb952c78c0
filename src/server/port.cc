#include "server/port.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "evenkeel/base/bytes.h"
#include "evenkeel/net/proxy_header.h"
#include "server/worker.h"

namespace evenkeel {
namespace {

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

Port::Port(Worker& worker, std::uint32_t number, const ListenerConfig& config)
    : worker_(worker), number_(number), tls_(worker.plan()->tls_of(config.name)) {
  terms_.push_back(terms_of(config));
}

Port::~Port() = default;

Port::Terms Port::terms_of(const ListenerConfig& config) const {
  return {.options = options_of(config),
          .proxies = cidrs_of(config.proxy_protocol),
          .handshake_timeout = config.timeouts.handshake,
          .most_connections = config.limits.max_connections,
          .index = worker_.sheets().names().listener(config.name)};
}

void Port::open(int fd) {
  listener_ = std::make_unique<Listener>(
      worker_.loop(), fd,
      [this](int accepted, const Endpoint& peer) { worker_.accepted(*this, accepted, peer); },
      [this] { worker_.descriptors_exhausted(); });
}

void Port::change(const ListenerConfig& config) {
  terms_.push_back(terms_of(config));
  forget_old_terms();
  tls_ = worker_.plan()->tls_of(config.name);
}

void Port::renew_tls() {
  auto renewed = retired_ ? nullptr : worker_.plan()->tls_of(name());
  if (tls_ != nullptr && renewed != nullptr) tls_ = std::move(renewed);
}

void Port::forget_old_terms() {
  for (auto each = terms_.begin(); std::next(each) != terms_.end();) {
    each = each->connections == 0 ? terms_.erase(each) : std::next(each);
  }
}

void Port::retire() {
  // Whoever is in the kernel's queue has been told that he is connected.
  if (listener_ != nullptr) listener_->accept_rest();
  listener_.reset();
  retired_ = true;
  idle_.wake_all();
  drain_watchers_.wake_all();
}

bool Port::empty() const {
  return std::all_of(terms_.begin(), terms_.end(),
                     [](const Terms& terms) { return terms.connections == 0; });
}

int Port::close_idle(int count) {
  int closed = 0;
  for (; closed < count && !beginning_.empty(); ++closed) beginning_.wake_first();
  for (; closed < count && !idle_.empty(); ++closed) idle_.wake_first();
  return closed;
}

std::shared_ptr<Handler> Port::plan() { return worker_.plan(); }

void Port::refused(const Refusal& refusal) { worker_.refused(refusal); }

void Port::serve(int fd, const Endpoint& peer) {
  auto socket = Socket::adopt(worker_.loop(), fd);
  if (socket == nullptr) {
    worker_.connection_ended();
    return;
  }
  Terms& terms = terms_.back();
  ++terms.connections;
  worker_.sheet().listener(terms.index).opened.add();
  const bool named_by_proxy = any_contains(terms.proxies, peer);
  if (named_by_proxy || tls_ != nullptr) {
    worker_.loop().spawn(begin(terms, std::move(socket), peer, named_by_proxy, tls_));
  } else {
    worker_.loop().spawn(serve_http(std::move(socket), peer, terms.options, *this));
  }
}

/// What comes before HTTP: who the client is, then TLS.
Task<void> Port::begin(Terms& terms, std::unique_ptr<Socket> socket, Endpoint peer,
                       bool named_by_proxy, std::shared_ptr<const TlsServer> tls) {
  // Until somebody serves the connection, its end is told here.
  struct Unserved {
    Port& port;
    Terms& terms;
    bool served = false;
    ~Unserved() {
      if (!served) port.closed(terms.options);
    }
  } unserved{*this, terms};
  Loop& loop = worker_.loop();

  // Whoever has been at it longest makes room: a newcomer with something to say is through in a
  // moment, and those who say nothing cannot keep others out.
  if (beginnings_ >= most_beginnings && !beginning_.empty()) beginning_.wake_first();
  std::optional<Beginning> beginning(std::in_place, *this, socket->watch());
  if (named_by_proxy) {
    auto named =
        co_await read_proxy_header(*socket, peer, loop.now() + terms.options.header_timeout);
    if (!named) co_return;
    peer = *named;
  }
  if (tls != nullptr) {
    auto& counters = worker_.sheet().listener(terms.index).handshakes;
    const auto count = [&counters](TlsOutcome outcome) {
      counters[static_cast<std::size_t>(outcome)].add();
    };
    auto secured =
        co_await socket->accept_tls(std::move(tls), loop.now() + terms.handshake_timeout);
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
  loop.spawn(serve_http(std::move(socket), peer, terms.options, *this));
}

void Port::closed(const FrontendOptions& options) {
  const auto terms = std::find_if(terms_.begin(), terms_.end(),
                                  [&](const Terms& each) { return &each.options == &options; });
  --terms->connections;
  worker_.sheet().listener(terms->index).closed.add();
  worker_.connection_ended();
}

}  // namespace evenkeel
