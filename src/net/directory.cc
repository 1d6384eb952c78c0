#include "evenkeel/net/directory.h"

#include <algorithm>
#include <utility>

#include "evenkeel/base/log.h"

namespace evenkeel {
namespace {

/// Until a question that nobody could answer is put again: doubled each time.
constexpr Duration first_pause = std::chrono::milliseconds(500);
constexpr Duration longest_pause = std::chrono::seconds(10);

std::vector<Endpoint> sorted(std::vector<Endpoint> addresses) {
  std::sort(addresses.begin(), addresses.end(),
            [](const Endpoint& a, const Endpoint& b) { return a.text() < b.text(); });
  return addresses;
}

}  // namespace

struct Directory::Entry {
  std::string host;
  std::vector<Endpoint> addresses;  // sorted: name servers shuffle. Ports are 0
  bool known = false;               // somebody has answered
  bool settled = false;             // the first question is over
  Task<void> keeping;
};

Directory::Directory(Loop& loop, const DnsConfig& config, std::uint64_t seed,
                     std::function<void()> changed)
    : loop_(loop),
      resolver_(loop, config.servers),
      rng_(seed),
      least_(config.min_ttl),
      most_(config.max_ttl),
      changed_(std::move(changed)),
      settled_(loop) {}

Directory::~Directory() = default;

void Directory::keep_for(milliseconds least, milliseconds most) {
  least_ = least;
  most_ = std::max(least, most);
}

void Directory::follow(const std::set<std::string>& hosts) {
  std::erase_if(entries_, [&](const auto& each) { return !hosts.contains(each.first); });
  for (const std::string& host : hosts) {
    if (parse_ip(host) || entries_.contains(host)) continue;
    auto& entry = entries_[host];
    entry = std::make_unique<Entry>();
    entry->host = host;
    entry->keeping = keep(*entry);
  }
}

Task<void> Directory::keep(Entry& entry) {
  Duration pause = first_pause;
  while (true) {
    auto answer = co_await resolver_.ask(entry.host, 0);
    Duration rest = pause;
    if (answer) {
      pause = first_pause;
      auto addresses = sorted(std::move(answer->addresses));
      const bool moved = entry.known && addresses != entry.addresses;
      const bool lost = addresses.empty() && (moved || !entry.known);
      const bool late = entry.settled && !entry.known;  // somebody went on without it
      if (lost) log::warning("the host name '" + entry.host + "' has no address");
      entry.known = true;
      // What has no address may get one any moment.
      rest =
          addresses.empty() ? Duration(least_) : std::clamp<Duration>(answer->ttl, least_, most_);
      entry.addresses = std::move(addresses);
      if (moved || late) changed_();
    } else {
      if (!entry.settled) log::warning(answer.error().detail);
      pause = std::min(2 * pause, longest_pause);
    }
    entry.settled = true;
    if (all_settled()) settled_.raise();
    // Many names that were asked for together shall not be for ever.
    co_await loop_.sleep_for(std::chrono::duration_cast<Duration>(rest * (1 + 0.1 * rng_.unit())));
  }
}

bool Directory::all_settled() const {
  return std::all_of(entries_.begin(), entries_.end(),
                     [](const auto& each) { return each.second->settled; });
}

Task<void> Directory::settled(Instant deadline) {
  while (!all_settled() && loop_.now() < deadline) {
    co_await settled_.wait(deadline);
  }
  for (auto& [host, entry] : entries_) entry->settled = true;
}

std::vector<Endpoint> Directory::find(const Address& address) const {
  std::vector<Endpoint> addresses;
  if (const auto found = entries_.find(address.host); found != entries_.end()) {
    addresses = found->second->addresses;
  } else if (parse_ip(address.host)) {
    auto literal = resolve(address.host, address.port);
    if (literal) addresses = std::move(*literal);
  }
  for (Endpoint& each : addresses) each.set_port(address.port);
  return addresses;
}

}  // namespace evenkeel
