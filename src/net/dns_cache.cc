#include "evenkeel/net/dns_cache.h"

#include <algorithm>
#include <utility>

#include "evenkeel/base/log.h"

namespace evenkeel {
namespace {

/// The delay after a failed lookup; doubles with each failure.
constexpr Duration min_retry_delay = std::chrono::milliseconds(500);
/// The most addresses of one name, since each address becomes a backend with its checks and links.
constexpr std::size_t max_addresses = 1024;
/// Empty answers in a row before the addresses of one family are dropped, while there are others.
constexpr int empty_answers_required = 3;
constexpr Duration max_retry_delay = std::chrono::seconds(10);
/// Some name servers never answer one of the two queries (RFC 8305, section 3).
constexpr Duration resolution_delay = std::chrono::milliseconds(100);

std::vector<Endpoint> sorted(std::vector<Endpoint> addresses) {
  std::sort(addresses.begin(), addresses.end(),
            [](const Endpoint& a, const Endpoint& b) { return a.text() < b.text(); });
  return addresses;
}

}  // namespace

/// What is known of one address family of a host; each has lookups of its own.
struct DnsCache::FamilyRecord {
  Resolver::Family family;
  std::vector<Endpoint> addresses;  // sorted, since name servers shuffle them; ports are 0
  Duration refresh_after{};         // until the next lookup
  bool known = false;               // a name server has answered
  int empty_answers = 0;            // in a row, after there were addresses
  Instant denied_since{};           // the first of these
  bool resolved = false;            // the first lookup is done
  Task<void> refreshing;
};

struct DnsCache::Entry {
  bool found() const { return !v4.addresses.empty() || !v6.addresses.empty(); }
  bool known() const { return v4.known && v6.known; }
  /// True if nothing more is worth waiting for.
  bool resolved(Instant now) const {
    return (v4.resolved && v6.resolved) || (found() && now >= resolution_delay_ends);
  }

  std::string host;
  FamilyRecord v4{.family = Resolver::Family::v4};
  FamilyRecord v6{.family = Resolver::Family::v6};
  Instant resolution_delay_ends{};  // of the other family, once one has addresses
  bool in_use = false;              // `find` may have been called: changes are reported
};

DnsCache::DnsCache(Loop& loop, const DnsConfig& config, std::uint64_t seed,
                   std::function<void()> changed, Passes passes, Duration hold)
    : loop_(loop),
      resolver_(std::make_shared<Resolver>(loop, config.servers)),
      rng_(seed),
      min_ttl_(config.min_ttl),
      max_ttl_(config.max_ttl),
      changed_(std::move(changed)),
      passes_(std::move(passes)),
      hold_(hold),
      resolved_(loop) {}

DnsCache::~DnsCache() = default;

void DnsCache::set_ttl_limits(milliseconds min_ttl, milliseconds max_ttl) {
  min_ttl_ = min_ttl;
  max_ttl_ = std::max(min_ttl, max_ttl);
}

void DnsCache::set_hosts(const std::set<std::string>& hosts) {
  std::erase_if(entries_, [&](const auto& each) { return !hosts.contains(each.first); });
  for (const std::string& host : hosts) {
    if (parse_ip(host) || entries_.contains(host)) continue;
    auto& entry = entries_[host];
    entry = std::make_unique<Entry>();
    entry->host = host;
    begin_refreshing(*entry);
  }
}

void DnsCache::set_servers(std::vector<Address> servers) {
  resolver_ = std::make_shared<Resolver>(loop_, std::move(servers));
  for (const auto& [host, entry] : entries_) begin_refreshing(*entry);
}

/// Ends the lookups that have begun.
void DnsCache::begin_refreshing(Entry& entry) {
  entry.v4.refreshing = refresh(entry, entry.v4, entry.v6);
  entry.v6.refreshing = refresh(entry, entry.v6, entry.v4);
}

Task<void> DnsCache::refresh(Entry& entry, FamilyRecord& record, const FamilyRecord& other) {
  const std::shared_ptr<Resolver> resolver = resolver_;
  Duration retry_delay = min_retry_delay;
  while (true) {
    auto answer = co_await resolver->lookup(entry.host, 0, record.family);
    if (answer) {
      retry_delay = min_retry_delay;
      if (log::dns.writes(log::Level::debug)) {
        log::dns.debug("the host name '" + entry.host + "' is looked up: " +
                       std::to_string(answer->addresses.size()) + " addresses");
      }
      take(entry, record, other, *answer);
    } else {
      if (!record.resolved && !entry.found()) log::dns.warning(answer.error().detail);
      record.refresh_after = retry_delay;
      retry_delay = std::min(2 * retry_delay, max_retry_delay);
    }
    record.resolved = true;
    resolved_.raise();
    // Spreads the lookups of names that were added together.
    const double share = 1 + 0.1 * rng_.unit();
    co_await loop_.sleep_for(std::chrono::duration_cast<Duration>(record.refresh_after * share));
  }
}

/// True if the addresses of a family stay although name servers have just answered that there are
/// none. A name server that has just started, is loading a zone, or has lost one, denies names that
/// exist. If the servers are really gone, their checks fail.
bool DnsCache::holds(Entry& entry, FamilyRecord& record, const FamilyRecord& other) {
  const Instant now = loop_.now();
  if (++record.empty_answers == 1) record.denied_since = now;
  // Most names have none of one family.
  if (!other.addresses.empty()) return record.empty_answers < empty_answers_required;
  const bool held = now - record.denied_since < hold_ || (passes_ && passes_(entry.host));
  if (record.empty_answers == 1) {
    log::dns.warning("the host name '" + entry.host +
                     "' has no address any more, say its name servers; its " +
                     std::to_string(record.addresses.size()) + " stay for " +
                     std::to_string(std::chrono::ceil<std::chrono::seconds>(hold_).count()) +
                     " s at least, and while their servers pass their checks");
  }
  return held;
}

void DnsCache::take(Entry& entry, FamilyRecord& record, const FamilyRecord& other,
                    Resolver::Answer& answer) {
  auto addresses = sorted(std::move(answer.addresses));
  if (addresses.size() > max_addresses) {
    if (record.addresses.size() < max_addresses) {
      log::dns.warning("the host name '" + entry.host + "' has " +
                       std::to_string(addresses.size()) + " addresses; the first " +
                       std::to_string(max_addresses) + " are used");
    }
    addresses.resize(max_addresses);
  }
  if (addresses.empty() && !record.addresses.empty() && holds(entry, record, other)) {
    record.refresh_after = min_ttl_;
    return;
  }
  if (record.empty_answers > 0 && !addresses.empty() && other.addresses.empty()) {
    log::dns.info("the host name '" + entry.host + "' has addresses again");
  }
  record.empty_answers = 0;
  const bool first = !record.known;
  const bool changed = addresses != record.addresses;
  if (!entry.found() && !addresses.empty()) {
    entry.resolution_delay_ends = loop_.now() + resolution_delay;
  }
  if (!addresses.empty()) {
    record.refresh_after = std::clamp<Duration>(answer.ttl, min_ttl_, max_ttl_);
  } else {
    // A name without addresses may get one at any moment; but most names have none of one family.
    record.refresh_after = other.addresses.empty() ? Duration(min_ttl_) : other.refresh_after;
  }
  record.addresses = std::move(addresses);
  record.known = true;
  if (!entry.found() && entry.known() && (changed || first)) {
    log::dns.warning("the host name '" + entry.host + "' has no address");
  }
  if (changed && entry.in_use) changed_();
}

Task<void> DnsCache::resolved(Instant deadline) {
  while (true) {
    const Instant now = loop_.now();
    Instant next = deadline;
    bool all = true;
    for (const auto& [host, entry] : entries_) {
      if (entry->in_use || entry->resolved(now)) continue;
      all = false;
      if (entry->found()) next = std::min(next, entry->resolution_delay_ends);
    }
    if (all || now >= deadline) break;
    co_await resolved_.wait(next);
  }
  for (auto& [host, entry] : entries_) entry->in_use = true;
}

std::vector<Endpoint> DnsCache::find(const Address& address) const {
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
