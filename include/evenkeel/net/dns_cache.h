// The addresses of the host names in use, kept current.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "evenkeel/base/clock.h"
#include "evenkeel/base/loop.h"
#include "evenkeel/base/rng.h"
#include "evenkeel/base/task.h"
#include "evenkeel/config/config.h"
#include "evenkeel/net/endpoint.h"
#include "evenkeel/net/resolver.h"

namespace evenkeel {

/// Looks up every host again when its answer expires, IPv4 and IPv6 each on their own. When name
/// servers fail or do not answer, the last known addresses stay. When they answer that a name has
/// no address (any more), its addresses are held for at least 30 s, and for as long as its servers
/// pass their checks: more likely the name servers are wrong.
///
/// Thread: the loop's.
class DnsCache {
 public:
  /// Whether servers of a host pass their checks.
  using Passes = std::function<bool(const std::string& host)>;

  /// The loop calls `changed` when the addresses of a known host change. `hold`: the least time for
  /// which denied addresses stay.
  DnsCache(Loop& loop, const DnsConfig& config, std::uint64_t seed, std::function<void()> changed,
           Passes passes = nullptr, Duration hold = std::chrono::seconds(30));
  DnsCache(const DnsCache&) = delete;
  DnsCache& operator=(const DnsCache&) = delete;
  ~DnsCache();

  /// Replaces the set of hosts. IP addresses need not be in it.
  void set_hosts(const std::set<std::string>& hosts);
  /// Asks other name servers from now on, at once for all hosts. Known addresses stay until these
  /// answer. Lookups by `resolver()` that have begun go on.
  void set_servers(std::vector<Address> servers);
  /// Limits how long answers are kept, from the next one on.
  void set_ttl_limits(milliseconds min_ttl, milliseconds max_ttl);
  /// Waits until every host has an answer or an error, or for the deadline. From then on address
  /// changes are reported by `changed`.
  Task<void> resolved(Instant deadline);
  /// The known endpoints of an address, with its port; empty if none is known.
  std::vector<Endpoint> find(const Address& address) const;
  /// Keep the pointer during a lookup: `set_servers` replaces the resolver.
  std::shared_ptr<Resolver> resolver() { return resolver_; }

 private:
  struct Entry;
  struct FamilyRecord;

  void begin_refreshing(Entry& entry);
  Task<void> refresh(Entry& entry, FamilyRecord& record, const FamilyRecord& other);
  bool holds(Entry& entry, FamilyRecord& record, const FamilyRecord& other);
  void take(Entry& entry, FamilyRecord& record, const FamilyRecord& other,
            Resolver::Answer& answer);

  Loop& loop_;
  std::shared_ptr<Resolver> resolver_;
  Rng rng_;
  milliseconds min_ttl_;
  milliseconds max_ttl_;
  std::function<void()> changed_;
  const Passes passes_;
  const Duration hold_;
  Signal resolved_;
  std::map<std::string, std::unique_ptr<Entry>> entries_;
};

}  // namespace evenkeel
