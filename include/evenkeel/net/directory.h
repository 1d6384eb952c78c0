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
class Directory {
 public:
  /// `changed` is called, from the loop, when a host that was known is somewhere else.
  Directory(Loop& loop, const DnsConfig& config, std::uint64_t seed, std::function<void()> changed);
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  ~Directory();

  /// These are needed from now on, the others no longer. Addresses in text need not be.
  void follow(const std::set<std::string>& hosts);
  /// How long answers are kept from now on.
  void keep_for(milliseconds least, milliseconds most);
  /// Until an answer, or an error, has come for each host, or the deadline. From then on `changed`
  /// is called when a host turns out to be somewhere else.
  Task<void> settled(Instant deadline);
  /// As far as it is known, with the address's port; empty: nowhere.
  std::vector<Endpoint> find(const Address& address) const;
  Resolver& resolver() { return resolver_; }

 private:
  struct Entry;
  struct Half;

  Task<void> keep(Entry& entry, Half& half, const Half& other);
  void take(Entry& entry, Half& half, const Half& other, Resolver::Answer& answer);

  Loop& loop_;
  Resolver resolver_;
  Rng rng_;
  milliseconds least_;
  milliseconds most_;
  std::function<void()> changed_;
  Signal settled_;
  std::map<std::string, std::unique_ptr<Entry>> entries_;
};

}  // namespace evenkeel
