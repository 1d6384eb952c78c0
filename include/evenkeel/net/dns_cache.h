// Where the hosts are that somebody needs, kept current.
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

/// Asks for every host again as its answer runs out, for IPv4 and IPv6 each by itself. Where nobody
/// knows (name servers do not answer), what was known stays; a name that has no address any more
/// has none.
///
/// Thread: the loop's.
class DnsCache {
 public:
  /// `changed` is called, from the loop, when a host that was known is somewhere else.
  DnsCache(Loop& loop, const DnsConfig& config, std::uint64_t seed, std::function<void()> changed);
  DnsCache(const DnsCache&) = delete;
  DnsCache& operator=(const DnsCache&) = delete;
  ~DnsCache();

  /// These are needed from now on, the others no longer. Addresses in text need not be.
  void set_hosts(const std::set<std::string>& hosts);
  /// How long answers are kept from now on.
  void set_ttl_limits(milliseconds min_ttl, milliseconds max_ttl);
  /// Until an answer, or an error, has come for each host, or the deadline. From then on `changed`
  /// is called when a host turns out to be somewhere else.
  Task<void> resolved(Instant deadline);
  /// As far as it is known, with the address's port; empty: nowhere.
  std::vector<Endpoint> find(const Address& address) const;
  Resolver& resolver() { return resolver_; }

 private:
  struct Entry;
  struct FamilyRecord;

  Task<void> refresh(Entry& entry, FamilyRecord& record, const FamilyRecord& other);
  void take(Entry& entry, FamilyRecord& record, const FamilyRecord& other,
            Resolver::Answer& answer);

  Loop& loop_;
  Resolver resolver_;
  Rng rng_;
  milliseconds min_ttl_;
  milliseconds max_ttl_;
  std::function<void()> changed_;
  Signal resolved_;
  std::map<std::string, std::unique_ptr<Entry>> entries_;
};

}  // namespace evenkeel
