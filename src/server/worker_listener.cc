#include "server/worker_listener.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "evenkeel/base/buffer.h"
#include "evenkeel/base/log.h"
#include "evenkeel/epp/endpoint_picker.h"
#include "evenkeel/net/proxy_header.h"
#include "server/worker.h"

namespace evenkeel {
namespace {

/// A handshake costs a hundred times what a request does. Beyond this many at a time, a new
/// connection evicts the oldest handshake, so that not all of them wait.
constexpr unsigned max_pending_handshakes = 1024;

/// The limit of the PROXY header and the handshake in a drain.
constexpr Duration handshake_drain_timeout = std::chrono::seconds(1);
/// How long idle connections of a listener that was handed over stay open.
constexpr Duration handed_over_idle_timeout = std::chrono::seconds(5);

constexpr std::string_view plaintext_on_tls_response =
    "HTTP/1.1 400 Bad Request\r\n"
    "content-type: text/plain; charset=utf-8\r\n"
    "content-length: 21\r\n"
    "connection: close\r\n"
    "\r\n"
    "this port speaks TLS\n";

std::vector<Cidr> cidrs_of(const std::vector<Network>& networks) {
  std::vector<Cidr> cidrs;
  for (const Network& network : networks) {
    auto cidr = Cidr::parse(network.text);  // checked when the file was read
    if (cidr) cidrs.push_back(*cidr);
  }
  return cidrs;
}

bool any_contains(const std::vector<Cidr>& networks, const Endpoint& peer) {
  return std::any_of(networks.begin(), networks.end(),
                     [&](const Cidr& network) { return network.contains(peer); });
}

/// Ends a connection so that the response arrives: a close with unread bytes sends a reset, which
/// discards what the client has not read yet.
Task<void> send_and_close(std::unique_ptr<Socket> socket, std::string_view response) {
  constexpr int max_reads = 16;
  socket->write_now(response);
  socket->shutdown_write();
  const Instant deadline = socket->loop().now() + std::chrono::seconds(1);
  const Block block = Block::take(Block::small);
  for (int reads = 0; reads < max_reads; ++reads) {
    const auto got = socket->read_some(block.data(), block.size());
    if (got.status == Socket::ReadStatus::bytes) continue;
    if (got.status != Socket::ReadStatus::would_block) co_return;
    auto wake = co_await socket->watch().until_readable(deadline);
    if (wake == Wake::expired) co_return;
  }
}

}  // namespace

// ---- ListenerSettings -------------------------------------------------------------------------

WorkerListener::ListenerSettings::ListenerSettings(WorkerListener& owner,
                                                   const ListenerConfig& listener_config)
    : listener(owner),
      config(listener_config),
      proxy_protocol_sources(cidrs_of(config.proxy_protocol)),
      trusted_proxies(cidrs_of(config.trusted_proxies)),
      index(owner.worker_.metrics_registry().label_index().listener(config.name)) {}

std::shared_ptr<Handler> WorkerListener::ListenerSettings::plan() {
  if (config.scaler) [[unlikely]]
    return listener.worker_.external_scaler();
  const std::shared_ptr<Plan>& plan = listener.worker_.plan();
  if (!config.endpoint_picker) [[likely]]
    return plan;
  return std::make_shared<EndpointPicker>(listener.worker_.loop(), plan, plan->config(), config,
                                          *this);
}

void WorkerListener::ListenerSettings::refused(const Refusal& refusal) {
  listener.worker_.refused(refusal);
}

ClientNumber WorkerListener::ListenerSettings::number_of(const Endpoint& peer) const {
  return any_contains(trusted_proxies, peer) ? 0 : listener.clients_->number_of(peer);
}

void WorkerListener::ListenerSettings::closed(const ListenerConfig&, ClientNumber client) {
  --connections;
  listener.clients_->closed(client);
  listener.worker_.worker_metrics().listener(index).closed.add();
  listener.worker_.connection_ended();
}

// ---- WorkerListener ---------------------------------------------------------------------------

WorkerListener::WorkerListener(Worker& worker, const ListenerAssignment::Entry& entry,
                               BySize<IdleSummary>& idle)
    : worker_(worker),
      id_(entry.id),
      tls_(worker.plan()->tls_of(entry.config.name)),
      clients_(entry.clients),
      idle_{IdleList(&idle.usual), IdleList(&idle.large)} {
  settings_.emplace_back(*this, entry.config);
  clients_->set_limit(max_connections());
}

WorkerListener::~WorkerListener() = default;

void WorkerListener::open(const std::vector<int>& fds) {
  for (; opened_ < fds.size(); ++opened_) {
    const int fd = fds[opened_];
    auto listening = Listener::begin_listening(fd);
    if (!listening) {
      log::listener.error("listener " + name() + ": " + listening.error().detail);
      close(fd);
      continue;
    }
    listeners_.emplace_back(
        worker_.loop(), fd,
        [this](int accepted, const Endpoint& peer) { worker_.accepted(*this, accepted, peer); },
        [this] { worker_.descriptors_exhausted(); },
        [this](int accepted, const Endpoint& peer) {
          return worker_.make_room(*this, accepted, peer);
        });
  }
}

void WorkerListener::update(const ListenerConfig& config) {
  settings_.emplace_back(*this, config);
  clients_->set_limit(max_connections());
  drop_unused_settings();
  tls_ = worker_.plan()->tls_of(config.name);
}

void WorkerListener::refresh_tls() {
  auto renewed = retired_ ? nullptr : worker_.plan()->tls_of(name());
  if (tls_ != nullptr && renewed != nullptr) tls_ = std::move(renewed);
}

void WorkerListener::drop_unused_settings() {
  for (auto each = settings_.begin(); std::next(each) != settings_.end();) {
    each = each->connections == 0 ? settings_.erase(each) : std::next(each);
  }
}

void WorkerListener::retire(Retire how) {
  // Clients whose connections wait in the kernel's queue see them as established. Another process
  // accepts them only if it has kept this listener.
  for (Listener& each : listeners_) {
    each.accept_pending();
    each.accept_kept();
  }
  listeners_.clear();
  retired_ = true;
  const Instant now = worker_.loop().now();
  if (how == Retire::closing) {
    end_idle();
  } else {
    idle_drain_.arm(worker_.loop(), now + handed_over_idle_timeout);
  }
  drain_watchers_.wake_all();
  handshake_drain_.arm(worker_.loop(), now + handshake_drain_timeout);
}

void WorkerListener::end_idle() {
  closes_idle_ = true;
  idle_.usual.wake_all();
  idle_.large.wake_all();
}

void WorkerListener::end_handshakes() {
  pending_handshakes_.usual.wake_all();
  pending_handshakes_.large.wake_all();
}

/// A timeout before HTTP, for a connection that may begin during the drain.
Duration WorkerListener::limit_in_drain(Duration timeout) const {
  return retired_ ? std::min(timeout, handshake_drain_timeout) : timeout;
}

bool WorkerListener::empty() const {
  return std::all_of(settings_.begin(), settings_.end(),
                     [](const ListenerSettings& settings) { return settings.connections == 0; });
}

void WorkerListener::count_shed(ShedReason reason) const {
  worker_.worker_metrics().listener(index()).shed[static_cast<std::size_t>(reason)].add();
}

ClientSize WorkerListener::size_of(const Endpoint& peer) const {
  const ListenerSettings& settings = settings_.back();
  // The client is known after the header.
  if (any_contains(settings.proxy_protocol_sources, peer)) return ClientSize::usual;
  return clients_->size_of(settings.number_of(peer));
}

bool WorkerListener::shed_idle(ClientSize size, ShedReason reason, Instant idle_before) {
  IdleList& idle = idle_.of(size);
  if (idle.oldest_since() >= idle_before) return false;
  count_shed(reason);
  idle.wake_first();
  return true;
}

void WorkerListener::shed_idle_share(double share, ShedReason reason) {
  const auto count = std::ceil(share * (idle_.usual.count() + idle_.large.count()));
  for (auto left = static_cast<std::uint32_t>(count); left > 0; --left) {
    if (!shed_idle(ClientSize::large, reason)) shed_idle(ClientSize::usual, reason);
  }
}

bool WorkerListener::shed_handshake(ClientSize size, ShedReason reason, Instant begun_before) {
  IdleList& pending = pending_handshakes_.of(size);
  if (pending.oldest_since() >= begun_before) return false;
  count_shed(reason);
  pending.wake_first();
  return true;
}

/// Lets the oldest make room, one of a large client first: a client that sends is through in a
/// moment, and silent clients cannot keep others out. Returns false if the new one, of a large
/// client, would take the place of another client's.
bool WorkerListener::make_room_for_handshake(ClientSize size) {
  auto& [usual, large] = pending_handshakes_;
  if (usual.count() + large.count() < max_pending_handshakes) return true;
  if (large.empty() && size == ClientSize::large) return false;
  (large.empty() ? usual : large).wake_first();
  return true;
}

void WorkerListener::resume_accepting() {
  for (Listener& each : listeners_) each.resume();
}

void WorkerListener::serve(int fd, const Endpoint& peer) {
  auto socket = Socket::adopt(worker_.loop(), fd);
  if (socket == nullptr) {
    worker_.connection_ended();
    return;
  }
  ListenerSettings& settings = settings_.back();
  ++settings.connections;
  worker_.worker_metrics().listener(settings.index).opened.add();
  const bool expects_proxy_header = any_contains(settings.proxy_protocol_sources, peer);
  const ClientNumber client = expects_proxy_header ? 0 : settings.number_of(peer);
  clients_->opened(client);
  if (expects_proxy_header || tls_ != nullptr) {
    worker_.loop().spawn(
        begin(settings, std::move(socket), peer, client, expects_proxy_header, tls_));
  } else {
    serve_http(settings, std::move(socket), peer, client);
  }
}

void WorkerListener::serve_http(ListenerSettings& settings, std::unique_ptr<Socket> socket,
                                const Endpoint& peer, ClientNumber client) {
  worker_.loop().spawn(
      evenkeel::serve_http(std::move(socket), peer, settings.config, settings, client));
}

/// The steps before HTTP: the PROXY header, then TLS.
Task<void> WorkerListener::begin(ListenerSettings& settings, std::unique_ptr<Socket> socket,
                                 Endpoint peer, ClientNumber client, bool expects_proxy_header,
                                 std::shared_ptr<const TlsServerContext> tls) {
  // Counts the connection's end until serve_http does.
  struct CloseGuard {
    ListenerSettings& settings;
    ClientNumber& client;
    bool dismissed = false;
    ~CloseGuard() {
      if (!dismissed) settings.closed(settings.config, client);
    }
  } close_guard{settings, client};
  Loop& loop = worker_.loop();

  if (!make_room_for_handshake(clients_->size_of(client))) {
    if (tls != nullptr) count_handshake(settings, TlsOutcome::overload);
    co_return;
  }
  std::optional<PendingHandshake> pending(std::in_place, *this, socket->watch(), client);
  if (expects_proxy_header) {
    const Instant deadline = loop.now() + limit_in_drain(settings.config.timeouts.header);
    auto named = co_await read_proxy_header(*socket, peer, deadline);
    if (!named) co_return;
    peer = *named;
    client = settings.number_of(peer);
    clients_->opened(client);
    pending->enter(client);
  }
  if (tls != nullptr) {
    auto secured = co_await accept_tls(settings, socket, pending, std::move(tls));
    if (!secured) co_return;
  }
  close_guard.dismissed = true;
  pending.reset();
  // Not awaited: this frame would live as long as the connection.
  serve_http(settings, std::move(socket), peer, client);
}

void WorkerListener::count_handshake(const ListenerSettings& settings, TlsOutcome outcome) {
  auto& handshakes = worker_.worker_metrics().listener(settings.index).handshakes;
  handshakes[static_cast<std::size_t>(outcome)].add();
}

/// Returns false if the connection ends, after a plain-text answer where the client did not speak
/// TLS.
Task<bool> WorkerListener::accept_tls(ListenerSettings& settings, std::unique_ptr<Socket>& socket,
                                      std::optional<PendingHandshake>& pending,
                                      std::shared_ptr<const TlsServerContext> tls) {
  const Instant deadline =
      worker_.loop().now() + limit_in_drain(settings.config.timeouts.handshake);
  auto secured = co_await socket->accept_tls(std::move(tls), deadline);
  const TlsOutcome outcome = pending->evicted ? TlsOutcome::overload : socket->tls_outcome();
  count_handshake(settings, outcome);
  if (pending->evicted) co_return false;
  if (secured) co_return true;
  if (outcome == TlsOutcome::not_tls) {
    socket->discard_tls();
    pending.reset();
    co_await send_and_close(std::move(socket), plaintext_on_tls_response);
  }
  co_return false;
}

}  // namespace evenkeel
