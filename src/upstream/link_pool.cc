#include "evenkeel/upstream/link_pool.h"

#include <algorithm>

namespace evenkeel {
namespace {

/// A link that has been idle for longer is checked by a system call before use. For shorter times
/// it suffices that the loop has not reported a close.
constexpr Duration liveness_check_after = std::chrono::seconds(1);

/// `protocol: auto` in cleartext: a server that does not respond to the HTTP/2 preface for this
/// long is taken for an HTTP/1.1 server that waits for more input.
constexpr Duration preface_timeout = std::chrono::seconds(1);

/// How long such a guess lasts; then HTTP/2 is tried again.
constexpr Duration protocol_guess_ttl = std::chrono::seconds(10);

Error no_stream_available() {
  return {.fault = Fault::connect_failed,
          .side = Side::backend,
          .not_processed = true,
          .detail = "the backend accepts no streams"};
}

}  // namespace

bool may_resend(const Error& error, const Request& request) {
  if (!error.idle_close_race && !error.not_processed) return false;
  return request.body == nullptr || request.body->rewind();
}

void LinkLease::PooledLink::on_idle_close() { pool.on_idle_closed(*this); }

LinkLease& LinkLease::operator=(LinkLease&& other) noexcept {
  if (this != &other) {
    release();
    pooled_ = std::exchange(other.pooled_, nullptr);
    newly_connected_ = other.newly_connected_;
  }
  return *this;
}

void LinkLease::release() {
  if (PooledLink* pooled = std::exchange(pooled_, nullptr)) pooled->pool.return_link(*pooled);
}

LinkPool::LinkPool(Loop& loop, std::vector<Endpoint> addresses, const LinkPoolOptions& options,
                   BackendMetrics& metrics)
    : loop_(loop),
      connector_(loop, std::move(addresses), options.connector),
      options_(options),
      metrics_(metrics),
      peer_protocol_(options.protocol == BackendProtocol::http1   ? PeerProtocol::http1
                     : options.protocol == BackendProtocol::http2 ? PeerProtocol::http2
                                                                  : PeerProtocol::unknown) {}

LinkPool::~LinkPool() {
  dial_.drop();
  metrics_.links_idle.remove(static_cast<std::int64_t>(idle_.size() + shared_.size()));
}

Task<Result<LinkLease>> LinkPool::acquire(LinkChoice link_choice, LinkProtocol protocol) {
  if (protocol_guess_expires_ < loop_.now()) {
    protocol_guess_expires_ = never;
    peer_protocol_ = PeerProtocol::unknown;
  }
  const bool needs_http1 =
      protocol == LinkProtocol::http1 && options_.protocol != BackendProtocol::http2;
  if (link_choice == LinkChoice::any) {
    if (!needs_http1) {
      if (auto lease = take_shared(link_choice)) return Result<LinkLease>(std::move(*lease));
    }
    if (auto lease = take_idle()) return Result<LinkLease>(std::move(*lease));
  }
  if (needs_http1) return connect(AlpnOffer::http1);
  if (peer_protocol_ == PeerProtocol::http1) return connect(options_.connector.alpn);
  return wait_for_dial(link_choice);
}

/// Takes the first link with room, so that requests share few links and the others become idle. The
/// newest comes first, and is the only one that is fresh.
std::optional<LinkLease> LinkPool::take_shared(LinkChoice link_choice) {
  for (const auto& pooled : shared_) {
    if (pooled->link->available_capacity() > 0 && pooled->link->alive(false)) {
      return lease_shared(*pooled);
    }
    if (link_choice == LinkChoice::fresh) break;
  }
  return std::nullopt;
}

LinkLease LinkPool::lease_shared(PooledLink& pooled) {
  if (pooled.users++ == 0) {
    metrics_.links_idle.remove();
    metrics_.links_busy.add();
  }
  return LinkLease(&pooled);
}

LinkPool::PooledLink& LinkPool::track_busy(PooledLink& pooled) {
  metrics_.links_busy.add();
  pooled.insert_before(busy_);
  if (max_silence_ != Duration::max()) pooled.link->suspect(max_silence_);
  return pooled;
}

std::optional<LinkLease> LinkPool::take_idle() {
  while (!idle_.empty()) {
    std::unique_ptr<PooledLink> pooled = std::move(idle_.back());
    idle_.pop_back();
    metrics_.links_idle.remove();
    pooled->link->on_idle_close(nullptr);
    if (!pooled->link->alive(loop_.now() - pooled->idle_since > liveness_check_after)) continue;
    return LinkLease(&track_busy(*pooled.release()));
  }
  return std::nullopt;
}

// ---- opening links -----------------------------------------------------------------------------

/// Opens a link for one request.
Task<Result<LinkLease>> LinkPool::connect(AlpnOffer alpn) {
  auto socket = co_await connector_.connect(alpn);
  if (!socket) co_return std::move(socket.error());
  const TlsConnectionInfo* tls = (*socket)->tls();
  if (tls != nullptr && tls->alpn == "h2") {  // although earlier connections chose HTTP/1.1
    const Instant deadline = loop_.now() + options_.connector.connect_timeout;
    auto opened = co_await open_http2_link(std::move(*socket), options_.link, deadline);
    if (!opened) co_return std::move(opened.error());
    peer_protocol_ = PeerProtocol::http2;
    co_return lease_new(std::move(*opened));
  }
  co_return lease_new(make_http1_link(std::move(*socket), options_.link));
}

Result<LinkLease> LinkPool::lease_new(std::unique_ptr<Link> link) {
  if (!link->multiplexed()) {
    LinkLease lease(&track_busy(*new PooledLink(*this, std::move(link))));
    return std::move(lease.as_newly_connected());
  }
  if (link->available_capacity() == 0) return no_stream_available();
  return std::move(lease_shared(add_link(std::move(link))).as_newly_connected());
}

/// Waits for the link that is being opened, and starts opening one if none is. Takes it, or opens
/// its own if the backend turns out to speak HTTP/1.
Task<Result<LinkLease>> LinkPool::wait_for_dial(LinkChoice link_choice) {
  while (true) {
    DialWaiter waiter(loop_, link_choice);
    waiter.insert_before(dial_waiters_);
    if (!dial_.valid() || dial_.ready()) dial_ = dial();
    co_await waiter.made.wait();
    if (waiter.failure) co_return std::move(*waiter.failure);
    auto lease = take_shared(link_choice);
    if (!lease) lease = take_idle();
    if (lease) {
      lease->newly_connected_ = lease->pooled_ == waiter.opened;
      co_return std::move(*lease);
    }
    if (peer_protocol_ == PeerProtocol::http1) {
      auto own = co_await connect(options_.connector.alpn);
      co_return own;
    }
  }
}

Task<void> LinkPool::dial() {
  auto made = co_await make_link();
  std::optional<Error> failure;
  const PooledLink* added = nullptr;
  if (made) {
    added = &add_link(std::move(*made));
  } else {
    failure = std::move(made.error());
  }
  bool replaces_unused = false;
  while (dial_waiters_.linked()) {
    auto& waiter = static_cast<DialWaiter&>(*dial_waiters_.next);
    waiter.unlink();
    waiter.opened = added;
    waiter.failure = failure;
    waiter.made.raise();
    replaces_unused = replaces_unused || waiter.link_choice == LinkChoice::fresh;
  }
  if (replaces_unused && added != nullptr) drop_unused_shared(*added);
}

Task<Result<std::unique_ptr<Link>>> LinkPool::make_link() {
  auto socket = co_await connector_.connect();
  if (!socket) co_return std::move(socket.error());
  const Instant deadline = loop_.now() + options_.connector.connect_timeout;
  bool probing = false;
  if ((*socket)->tls() != nullptr) {
    const bool agreed = (*socket)->tls()->alpn == "h2";
    const bool http2 = agreed || options_.protocol == BackendProtocol::http2;
    if (!http2) {
      peer_protocol_ = PeerProtocol::http1;  // from now on each request opens its own link
      co_return Result<std::unique_ptr<Link>>(make_http1_link(std::move(*socket), options_.link));
    }
  } else {
    probing = peer_protocol_ == PeerProtocol::unknown;
  }
  const Instant preface_deadline =
      probing ? std::min(deadline, loop_.now() + preface_timeout) : deadline;
  auto opened = co_await open_http2_link(std::move(*socket), options_.link, preface_deadline);
  if (opened) {
    if (probing) peer_protocol_ = PeerProtocol::http2;
    if ((*opened)->available_capacity() == 0) {  // another link would not help
      co_return no_stream_available();
    }
    co_return std::move(opened);
  }
  if (!probing) {
    // The server that spoke HTTP/2 may have been replaced by one that does not.
    if (options_.protocol == BackendProtocol::automatic) peer_protocol_ = PeerProtocol::unknown;
    opened.error().not_processed = true;
    co_return std::move(opened.error());
  }
  // A timeout does not prove HTTP/1.1: the server may be busy. So this is only a guess.
  if (opened.error().fault == Fault::connect_timeout)
    protocol_guess_expires_ = loop_.now() + protocol_guess_ttl;
  peer_protocol_ = PeerProtocol::http1;
  auto again = co_await connector_.connect();
  if (!again) co_return std::move(again.error());
  co_return Result<std::unique_ptr<Link>>(make_http1_link(std::move(*again), options_.link));
}

/// Makes a new link available to the requests that wait for it.
LinkPool::PooledLink& LinkPool::add_link(std::unique_ptr<Link> link) {
  const bool multiplexed = link->multiplexed();
  if (max_silence_ != Duration::max()) link->suspect(max_silence_);
  auto pooled = std::make_unique<PooledLink>(*this, std::move(link));
  pooled->idle_since = loop_.now();
  pooled->link->on_idle_close(&pooled->idle_close);
  sweep_from(pooled->idle_since);
  PooledLink& added = *pooled;
  if (multiplexed) {
    shared_.insert(shared_.begin(), std::move(pooled));
  } else {
    idle_.push_back(std::move(pooled));
  }
  metrics_.links_idle.add();
  return added;
}

/// Drops the links of a list that no request uses and that meet a condition.
template <class Condition>
void LinkPool::drop_if(std::vector<std::unique_ptr<PooledLink>>& links, Condition condition) {
  const auto dropped = std::erase_if(
      links, [&](const auto& pooled) { return pooled->users == 0 && condition(*pooled); });
  metrics_.links_idle.remove(static_cast<std::int64_t>(dropped));
}

/// A request has a new link because the others were in doubt: those that are not in use go.
void LinkPool::drop_unused_shared(const PooledLink& kept) {
  drop_if(shared_, [&](const PooledLink& pooled) { return &pooled != &kept; });
}

// ---- returning links ---------------------------------------------------------------------------

void LinkPool::return_link(PooledLink& pooled) {
  if (pooled.link->multiplexed()) return return_shared_link(pooled);
  std::unique_ptr<PooledLink> owned(&pooled);
  metrics_.links_busy.remove();
  pooled.unlink();
  if (pooled.link->available_capacity() == 0 || idle_.size() >= options_.keep_alive.max_idle ||
      !pooled.link->alive(false)) {
    return;  // `owned` closes it
  }
  pooled.idle_since = loop_.now();
  pooled.link->on_idle_close(&pooled.idle_close);
  sweep_from(pooled.idle_since);
  idle_.push_back(std::move(owned));
  metrics_.links_idle.add();
}

void LinkPool::return_shared_link(PooledLink& pooled) {
  if (--pooled.users > 0) return;
  metrics_.links_busy.remove();
  metrics_.links_idle.add();
  pooled.idle_since = loop_.now();
  if (options_.keep_alive.max_idle > 0 && pooled.link->alive(false)) {
    sweep_from(pooled.idle_since);
  } else {
    on_idle_closed(pooled);
  }
}

void LinkPool::suspect(Duration max_silence) {
  max_silence_ = max_silence;
  for (Node* node = busy_.next; node != &busy_; node = node->next) {
    static_cast<PooledLink&>(*node).link->suspect(max_silence);
  }
  for (const auto& pooled : shared_) pooled->link->suspect(max_silence);
  for (const auto& pooled : idle_) pooled->link->suspect(max_silence);
}

std::size_t LinkPool::retire_links(std::size_t max_count) {
  options_.keep_alive.max_idle = 0;
  const auto unused = std::partition(shared_.begin(), shared_.end(),
                                     [](const auto& pooled) { return pooled->users > 0; });
  const auto of_shared = std::min(max_count, static_cast<std::size_t>(shared_.end() - unused));
  shared_.resize(shared_.size() - of_shared);
  const auto of_idle = std::min(max_count - of_shared, idle_.size());
  idle_.resize(idle_.size() - of_idle);
  metrics_.links_idle.remove(static_cast<std::int64_t>(of_shared + of_idle));
  return of_shared + of_idle;
}

/// Drops a link that the server has closed, if no request uses it.
void LinkPool::on_idle_closed(const PooledLink& pooled) {
  drop_if(pooled.link->multiplexed() ? shared_ : idle_,
          [&](const PooledLink& each) { return &each == &pooled; });
}

void LinkPool::sweep_from(Instant idle_since) {
  if (!sweep_.armed()) sweep_.arm(loop_, idle_since + options_.keep_alive.idle);
}

void LinkPool::sweep() {
  const Instant expired = loop_.now() - options_.keep_alive.idle;
  for (auto* links : {&idle_, &shared_}) {
    drop_if(*links, [&](const PooledLink& pooled) { return pooled.idle_since <= expired; });
  }

  Instant oldest = never;
  if (!idle_.empty()) oldest = idle_.front()->idle_since;
  for (const auto& pooled : shared_) {
    if (pooled->users == 0) oldest = std::min(oldest, pooled->idle_since);
  }
  if (oldest != never) sweep_.arm(loop_, oldest + options_.keep_alive.idle);
}

}  // namespace evenkeel
