#include "evenkeel/fleet/link_pool.h"

#include <algorithm>

namespace evenkeel {
namespace {

/// An idle link is looked at in the kernel before use when it has been idle this long; before that
/// the loop would have told of its end by now.
constexpr Duration trusted_for = std::chrono::seconds(1);

/// How long a server in the clear may think about the preface of HTTP/2 before it is taken for one
/// of HTTP/1.1 that waits for more.
constexpr Duration preface_patience = std::chrono::seconds(1);

/// After that, such a server is tried again.
constexpr Duration guess_lasts = std::chrono::seconds(10);

Error no_room() {
  return {.fault = Fault::connect_failed,
          .side = Side::backend,
          .replayable = true,
          .detail = "the backend takes no requests"};
}

}  // namespace

LinkLease::Kept::Kept(LinkPool& owner, std::unique_ptr<Link> made)
    : Waiter([](Waiter& self) {
        auto& kept = static_cast<Kept&>(self);
        kept.pool.forget(kept);
      }),
      pool(owner),
      link(std::move(made)) {}

LinkLease& LinkLease::operator=(LinkLease&& other) noexcept {
  if (this != &other) {
    give_back();
    kept_ = std::exchange(other.kept_, nullptr);
  }
  return *this;
}

void LinkLease::give_back() {
  if (Kept* kept = std::exchange(kept_, nullptr)) kept->pool.take_back(*kept);
}

LinkPool::LinkPool(Loop& loop, std::vector<Endpoint> addresses, const LinkPoolOptions& options,
                   BackendCells& cells)
    : loop_(loop),
      connector_(loop, std::move(addresses), options.connector),
      options_(options),
      cells_(cells),
      speaks_(options.protocol == BackendProtocol::http1   ? Speaks::http1
              : options.protocol == BackendProtocol::http2 ? Speaks::http2
                                                           : Speaks::unknown),
      sweep_(*this) {}

LinkPool::~LinkPool() {
  dial_.drop();
  cells_.links_idle.remove(static_cast<std::int64_t>(idle_.size() + shared_.size()));
}

Task<Result<LinkLease>> LinkPool::acquire(Want want) {
  if (guess_ends_ < loop_.now()) {
    guess_ends_ = never;
    speaks_ = Speaks::unknown;
  }
  if (want == Want::any) {
    if (auto lease = take_shared()) return Result<LinkLease>(std::move(*lease));
    if (auto lease = take_idle()) return Result<LinkLease>(std::move(*lease));
  }
  return speaks_ == Speaks::http1 ? connect() : join();
}

/// A place on the first link that has one: few links with many requests are better than many.
std::optional<LinkLease> LinkPool::take_shared() {
  for (const auto& kept : shared_) {
    if (kept->link->room() == 0 || !kept->link->alive(false)) continue;
    if (kept->users++ == 0) {
      cells_.links_idle.remove();
      cells_.links_busy.add();
    }
    return LinkLease(kept.get());
  }
  return std::nullopt;
}

std::optional<LinkLease> LinkPool::take_idle() {
  while (!idle_.empty()) {
    std::unique_ptr<Kept> kept = std::move(idle_.back());
    idle_.pop_back();
    cells_.links_idle.remove();
    kept->link->on_idle_end(nullptr);
    if (!kept->link->alive(loop_.now() - kept->idle_since > trusted_for)) continue;
    cells_.links_busy.add();
    return LinkLease(kept.release());
  }
  return std::nullopt;
}

// ---- making links -----------------------------------------------------------------------------

/// A link for one request, made by it.
Task<Result<LinkLease>> LinkPool::connect() {
  auto socket = co_await connector_.connect();
  if (!socket) co_return std::move(socket.error());
  const TlsFacts* tls = (*socket)->tls();
  if (tls != nullptr && tls->alpn == "h2") {  // it did not when it was asked before
    const Instant deadline = loop_.now() + options_.connector.connect_timeout;
    auto opened = co_await open_http2_link(std::move(*socket), options_.link, deadline);
    if (!opened) co_return std::move(opened.error());
    speaks_ = Speaks::http2;
    keep(std::move(*opened));
    if (auto lease = take_shared()) co_return std::move(*lease);
    co_return no_room();
  }
  auto link = make_http1_link(std::move(*socket), options_.link);
  cells_.links_busy.add();
  co_return LinkLease(new Kept(*this, std::move(link)));
}

/// Waits for a link that others may use too, and has it made if nobody has done so.
Task<Result<LinkLease>> LinkPool::join() {
  while (true) {
    Joiner joiner(loop_);
    joiner.insert_before(joiners_);
    if (!dial_.valid() || dial_.ready()) dial_ = dial();
    auto wake = co_await joiner.made.wait();
    static_cast<void>(wake);
    if (joiner.failure) co_return std::move(*joiner.failure);
    if (auto lease = take_shared()) co_return std::move(*lease);
    if (auto lease = take_idle()) co_return std::move(*lease);
    if (speaks_ == Speaks::http1) {
      auto own = co_await connect();
      co_return own;
    }
  }
}

Task<void> LinkPool::dial() {
  auto made = co_await make_link();
  std::optional<Error> failure;
  if (made) {
    keep(std::move(*made));
  } else {
    failure = std::move(made.error());
  }
  while (joiners_.linked()) {
    auto& joiner = static_cast<Joiner&>(*joiners_.next);
    joiner.unlink();
    joiner.failure = failure;
    joiner.made.raise();
  }
}

Task<Result<std::unique_ptr<Link>>> LinkPool::make_link() {
  auto socket = co_await connector_.connect();
  if (!socket) co_return std::move(socket.error());
  const Instant deadline = loop_.now() + options_.connector.connect_timeout;
  bool probes = false;
  if ((*socket)->tls() != nullptr) {
    const bool agreed = (*socket)->tls()->alpn == "h2";
    const bool http2 = agreed || options_.protocol == BackendProtocol::http2;
    if (!http2) {
      speaks_ = Speaks::http1;  // from now on each request dials for itself
      co_return Result<std::unique_ptr<Link>>(make_http1_link(std::move(*socket), options_.link));
    }
  } else {
    probes = speaks_ == Speaks::unknown;
  }
  const Instant patience = probes ? std::min(deadline, loop_.now() + preface_patience) : deadline;
  auto opened = co_await open_http2_link(std::move(*socket), options_.link, patience);
  if (opened) {
    if (probes) speaks_ = Speaks::http2;
    if ((*opened)->room() == 0) {  // another link would be no better
      co_return no_room();
    }
    co_return std::move(opened);
  }
  if (!probes) {
    // Who understood HTTP/2 before may be another server now.
    if (options_.protocol == BackendProtocol::automatic) speaks_ = Speaks::unknown;
    opened.error().replayable = true;
    co_return std::move(opened.error());
  }
  // Silence is no answer: it may only have been busy.
  if (opened.error().fault == Fault::connect_timeout) guess_ends_ = loop_.now() + guess_lasts;
  speaks_ = Speaks::http1;
  auto again = co_await connector_.connect();
  if (!again) co_return std::move(again.error());
  co_return Result<std::unique_ptr<Link>>(make_http1_link(std::move(*again), options_.link));
}

/// Puts a new link where those find it who wait for it.
void LinkPool::keep(std::unique_ptr<Link> link) {
  const bool shared = link->shared();
  auto kept = std::make_unique<Kept>(*this, std::move(link));
  kept->idle_since = loop_.now();
  kept->link->on_idle_end(kept.get());
  sweep_from(kept->idle_since);
  (shared ? shared_ : idle_).push_back(std::move(kept));
  cells_.links_idle.add();
}

// ---- giving back ------------------------------------------------------------------------------

void LinkPool::take_back(Kept& kept) {
  if (kept.link->shared()) return take_back_shared(kept);
  std::unique_ptr<Kept> owned(&kept);
  cells_.links_busy.remove();
  if (kept.link->room() == 0 || idle_.size() >= options_.max_idle || !kept.link->alive(false)) {
    return;  // closed here
  }
  kept.idle_since = loop_.now();
  kept.link->on_idle_end(&kept);
  sweep_from(kept.idle_since);
  idle_.push_back(std::move(owned));
  cells_.links_idle.add();
}

void LinkPool::take_back_shared(Kept& kept) {
  if (--kept.users > 0) return;
  cells_.links_busy.remove();
  cells_.links_idle.add();
  kept.idle_since = loop_.now();
  if (options_.max_idle > 0 && kept.link->alive(false)) {
    sweep_from(kept.idle_since);
  } else {
    drop_shared(kept);
  }
}

std::size_t LinkPool::let_go(std::size_t most) {
  options_.max_idle = 0;
  const auto unused = std::partition(shared_.begin(), shared_.end(),
                                     [](const auto& kept) { return kept->users > 0; });
  const auto of_shared = std::min(most, static_cast<std::size_t>(shared_.end() - unused));
  shared_.resize(shared_.size() - of_shared);
  const auto of_idle = std::min(most - of_shared, idle_.size());
  idle_.resize(idle_.size() - of_idle);
  cells_.links_idle.remove(static_cast<std::int64_t>(of_shared + of_idle));
  return of_shared + of_idle;
}

void LinkPool::drop_shared(const Kept& kept) {
  const auto place = std::find_if(shared_.begin(), shared_.end(),
                                  [&](const auto& item) { return item.get() == &kept; });
  shared_.erase(place);
  cells_.links_idle.remove();
}

/// The server ended an idle link.
void LinkPool::forget(Kept& kept) {
  if (kept.link->shared()) {
    if (kept.users == 0) drop_shared(kept);
    return;
  }
  const auto place = std::find_if(idle_.begin(), idle_.end(),
                                  [&](const auto& item) { return item.get() == &kept; });
  if (place == idle_.end()) return;
  idle_.erase(place);
  cells_.links_idle.remove();
}

void LinkPool::sweep_from(Instant idle_since) {
  if (!sweep_.armed()) sweep_.arm(loop_, idle_since + options_.idle_timeout);
}

void LinkPool::sweep() {
  const Instant expired = loop_.now() - options_.idle_timeout;
  const auto first_kept = std::find_if(
      idle_.begin(), idle_.end(), [&](const auto& kept) { return kept->idle_since > expired; });
  cells_.links_idle.remove(first_kept - idle_.begin());
  idle_.erase(idle_.begin(), first_kept);
  const auto unused = std::remove_if(shared_.begin(), shared_.end(), [&](const auto& kept) {
    return kept->users == 0 && kept->idle_since <= expired;
  });
  cells_.links_idle.remove(shared_.end() - unused);
  shared_.erase(unused, shared_.end());

  Instant oldest = never;
  if (!idle_.empty()) oldest = idle_.front()->idle_since;
  for (const auto& kept : shared_) {
    if (kept->users == 0) oldest = std::min(oldest, kept->idle_since);
  }
  if (oldest != never) sweep_.arm(loop_, oldest + options_.idle_timeout);
}

}  // namespace evenkeel
