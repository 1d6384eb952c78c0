#include "evenkeel/net/directory.h"

#include <algorithm>
#include <utility>

#include "evenkeel/base/log.h"

namespace evenkeel {
namespace {

/// Until a question that nobody could answer is put again: doubled each time.
constexpr Duration first_pause = std::chrono::milliseconds(500);
/// Of one name: as many backends, each with its checks and its links.
constexpr std::size_t most_addresses = 1024;
/// How often in a row it has to be said that a name has no address any more.
constexpr int denials_believed = 3;
constexpr Duration longest_pause = std::chrono::seconds(10);
/// Name servers there are that never answer one of the two questions (RFC 8305, 3).
constexpr Duration patience_with_other = std::chrono::milliseconds(100);

std::vector<Endpoint> sorted(std::vector<Endpoint> addresses) {
  std::sort(addresses.begin(), addresses.end(),
            [](const Endpoint& a, const Endpoint& b) { return a.text() < b.text(); });
  return addresses;
}

}  // namespace

/// What is known of one family of a host: it is asked for, found and lost by itself.
struct Directory::Half {
  Resolver::Family family;
  std::vector<Endpoint> addresses;  // sorted: name servers shuffle. Ports are 0
  Duration rest{};                  // until it is asked for again
  bool known = false;               // somebody has answered
  int denials = 0;                  // "there is none", in a row, of what had some
  bool settled = false;             // the first question is over
  Task<void> keeping;
};

struct Directory::Entry {
  bool found() const { return !v4.addresses.empty() || !v6.addresses.empty(); }
  bool known() const { return v4.known && v6.known; }
  /// Everything is known that can be waited for.
  bool settled(Instant now) const {
    return (v4.settled && v6.settled) || (found() && now >= patience_ends);
  }

  std::string host;
  Half v4{.family = Resolver::Family::v4};
  Half v6{.family = Resolver::Family::v6};
  Instant patience_ends{};  // with the other family, once one has addresses
  bool relied_on = false;   // somebody went on with what was known
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
    entry->v4.keeping = keep(*entry, entry->v4, entry->v6);
    entry->v6.keeping = keep(*entry, entry->v6, entry->v4);
  }
}

Task<void> Directory::keep(Entry& entry, Half& half, const Half& other) {
  Duration pause = first_pause;
  while (true) {
    auto answer = co_await resolver_.ask(entry.host, 0, half.family);
    if (answer) {
      pause = first_pause;
      take(entry, half, other, *answer);
    } else {
      if (!half.settled && !entry.found()) log::warning(answer.error().detail);
      half.rest = pause;
      pause = std::min(2 * pause, longest_pause);
    }
    half.settled = true;
    settled_.raise();
    // Many names that were asked for together shall not be for ever.
    const double share = 1 + 0.1 * rng_.unit();
    co_await loop_.sleep_for(std::chrono::duration_cast<Duration>(half.rest * share));
  }
}

void Directory::take(Entry& entry, Half& half, const Half& other, Resolver::Answer& answer) {
  auto addresses = sorted(std::move(answer.addresses));
  if (addresses.size() > most_addresses) {
    if (half.addresses.size() < most_addresses) {
      log::warning("the host name '" + entry.host + "' has " + std::to_string(addresses.size()) +
                   " addresses; the first " + std::to_string(most_addresses) + " are used");
    }
    addresses.resize(most_addresses);
  }
  // A name server that has just started, or a zone that is being loaded, denies everything for a
  // moment; a pool that has really gone fails its checks.
  const bool denies = addresses.empty() && !half.addresses.empty();
  half.denials = denies ? half.denials + 1 : 0;
  if (denies && half.denials < denials_believed) {
    half.rest = least_;
    return;
  }
  half.denials = 0;
  const bool first = !half.known;
  const bool moved = addresses != half.addresses;
  if (!entry.found() && !addresses.empty()) {
    entry.patience_ends = loop_.now() + patience_with_other;
  }
  if (!addresses.empty()) {
    half.rest = std::clamp<Duration>(answer.ttl, least_, most_);
  } else {
    // What has no address may get one any moment; most names have none of one family.
    half.rest = other.addresses.empty() ? Duration(least_) : other.rest;
  }
  half.addresses = std::move(addresses);
  half.known = true;
  if (!entry.found() && entry.known() && (moved || first)) {
    log::warning("the host name '" + entry.host + "' has no address");
  }
  if (moved && entry.relied_on) changed_();
}

Task<void> Directory::settled(Instant deadline) {
  while (true) {
    const Instant now = loop_.now();
    Instant next = deadline;
    bool all = true;
    for (const auto& [host, entry] : entries_) {
      if (entry->relied_on || entry->settled(now)) continue;
      all = false;
      if (entry->found()) next = std::min(next, entry->patience_ends);
    }
    if (all || now >= deadline) break;
    auto wake = co_await settled_.wait(next);
    static_cast<void>(wake);
  }
  for (auto& [host, entry] : entries_) entry->relied_on = true;
}

std::vector<Endpoint> Directory::find(const Address& address) const {
  std::vector<Endpoint> addresses;
  if (const auto found = entries_.find(address.host); found != entries_.end()) {
    const Entry& entry = *found->second;
    addresses = entry.v4.addresses;
    addresses.insert(addresses.end(), entry.v6.addresses.begin(), entry.v6.addresses.end());
  } else if (parse_ip(address.host)) {
    auto literal = resolve(address.host, address.port);
    if (literal) addresses = std::move(*literal);
  }
  for (Endpoint& each : addresses) each.set_port(address.port);
  return addresses;
}

}  // namespace evenkeel
