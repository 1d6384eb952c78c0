#include "evenkeel/fleet/link_pool.h"

#include <algorithm>

namespace evenkeel {
namespace {

/// An idle link is looked at in the kernel before use when it has been idle this long; before that
/// the loop would have told of its end by now.
constexpr Duration trusted_for = std::chrono::seconds(1);

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
    kept_ = std::move(other.kept_);
  }
  return *this;
}

void LinkLease::give_back() {
  if (kept_ == nullptr) return;
  LinkPool& pool = kept_->pool;
  pool.take_back(std::move(kept_));
}

LinkPool::LinkPool(Loop& loop, std::vector<Endpoint> addresses, const LinkPoolOptions& options,
                   BackendCells& cells)
    : loop_(loop),
      connector_(loop, std::move(addresses), options.connector),
      options_(options),
      cells_(cells),
      sweep_(*this) {}

LinkPool::~LinkPool() { cells_.links_idle.remove(static_cast<std::int64_t>(idle_.size())); }

Task<Result<LinkLease>> LinkPool::acquire(Want want) {
  while (want == Want::any && !idle_.empty()) {
    std::unique_ptr<Kept> kept = std::move(idle_.back());
    idle_.pop_back();
    cells_.links_idle.remove();
    kept->link->on_idle_end(nullptr);
    if (!kept->link->alive(loop_.now() - kept->idle_since > trusted_for)) continue;
    cells_.links_busy.add();
    return Result<LinkLease>(LinkLease(std::move(kept)));
  }
  return connect();
}

Task<Result<LinkLease>> LinkPool::connect() {
  auto socket = co_await connector_.connect();
  if (!socket) co_return std::move(socket.error());
  auto link = make_http1_link(std::move(*socket), options_.link);
  cells_.links_busy.add();
  co_return LinkLease(std::make_unique<Kept>(*this, std::move(link)));
}

void LinkPool::take_back(std::unique_ptr<Kept> kept) {
  cells_.links_busy.remove();
  if (kept->link->room() == 0 || idle_.size() >= options_.max_idle || !kept->link->alive(false)) {
    return;  // closed here
  }
  kept->idle_since = loop_.now();
  kept->link->on_idle_end(kept.get());
  if (!sweep_.armed()) sweep_.arm(loop_, kept->idle_since + options_.idle_timeout);
  idle_.push_back(std::move(kept));
  cells_.links_idle.add();
}

/// The server ended an idle link.
void LinkPool::forget(Kept& kept) {
  const auto place = std::find_if(idle_.begin(), idle_.end(),
                                  [&](const auto& item) { return item.get() == &kept; });
  if (place == idle_.end()) return;
  idle_.erase(place);
  cells_.links_idle.remove();
}

void LinkPool::sweep() {
  const Instant expired = loop_.now() - options_.idle_timeout;
  const auto first_kept = std::find_if(
      idle_.begin(), idle_.end(), [&](const auto& kept) { return kept->idle_since > expired; });
  cells_.links_idle.remove(first_kept - idle_.begin());
  idle_.erase(idle_.begin(), first_kept);
  if (!idle_.empty()) sweep_.arm(loop_, idle_.front()->idle_since + options_.idle_timeout);
}

}  // namespace evenkeel
