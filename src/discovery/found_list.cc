#include "discovery/found_list.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "evenkeel/base/log.h"

namespace evenkeel {
namespace {

/// The least time between two lines that say that a source is away.
constexpr Duration warning_interval = std::chrono::seconds(60);

/// The backends by address; of several with one address, the first.
FoundList::Backends sorted(FoundList::Backends backends) {
  std::map<std::pair<std::string, std::uint16_t>, BackendConfig> by_address;
  for (BackendConfig& each : backends) {
    std::pair address(each.address.host, each.address.port);
    by_address.emplace(std::move(address), std::move(each));
  }
  backends.clear();
  for (auto& [address, each] : by_address) backends.push_back(std::move(each));
  return backends;
}

std::int64_t seconds_between(Instant since, Instant now) {
  return std::chrono::duration_cast<std::chrono::seconds>(now - since).count();
}

}  // namespace

FoundList::FoundList(Loop& loop, std::string pool, std::function<void()> changed)
    : loop_(loop), changed_(std::move(changed)) {
  status_.pool = std::move(pool);
}

void FoundList::take(Backends backends) {
  backends = sorted(std::move(backends));
  if (backends.size() > max_backends) {
    log::discovery.warning(fmt::format("pool {}: {} backends were found; the first {} are used",
                                       pool(), backends.size(), max_backends));
    backends.resize(max_backends);
  }
  holds_ = false;
  note_good();
  if (backends_ == backends) return;
  const std::size_t before = backends_ ? backends_->size() : 0;
  log::discovery.info(
      fmt::format("pool {}: {} backends found, {} before", pool(), backends.size(), before));
  status_.backends = backends.size();
  backends_ = std::move(backends);
  changed_();
}

bool FoundList::offer(Backends backends) {
  const std::size_t known = backends_ ? backends_->size() : 0;
  if (!holds_ && 2 * backends.size() < known) {
    holds_ = true;
    ++status_.held;
    log::discovery.warning(
        fmt::format("pool {}: the list has {} backends, {} before: it counts if a second one says "
                    "the same; the {} stay until then",
                    pool(), backends.size(), known, known));
    return false;
  }
  take(std::move(backends));
  return true;
}

void FoundList::note_good() {
  status_.last_good = loop_.now();
  if (status_.problem.empty()) return;
  log::discovery.info(fmt::format("pool {}: its backends are known again", pool()));
  status_.problem.clear();
}

void FoundList::note_failure(const std::string& why) {
  ++status_.failures;
  const Instant now = loop_.now();
  const bool known = status_.problem == why;
  status_.problem = why;
  if (known && now - warned_at_ < warning_interval) return;
  warned_at_ = now;
  log::discovery.warning(fmt::format("pool {}: {}; {}", pool(), why, what_stays()));
}

void FoundList::complain(std::string why) {
  if (why == complaint_) return;
  complaint_ = std::move(why);
  if (!complaint_.empty()) log::discovery.warning(fmt::format("pool {}: {}", pool(), complaint_));
}

DiscoveryStatus FoundList::status() const {
  DiscoveryStatus status = status_;
  if (status.problem.empty()) status.problem = complaint_;
  return status;
}

std::string FoundList::what_stays() const {
  if (!backends_) return "no backend is found yet";
  if (!status_.last_good) return fmt::format("{} backends stay", backends_->size());
  return fmt::format("the {} backends found {} s ago stay", backends_->size(),
                     seconds_between(*status_.last_good, loop_.now()));
}

void FoundList::inherit(const FoundList& other) {
  backends_ = other.backends_;
  status_ = other.status_;
}

}  // namespace evenkeel
