#include <algorithm>
#include <string>
#include <utility>

#include "discovery/source.h"
#include "discovery/srv_records.h"
#include "evenkeel/base/rng.h"

namespace evenkeel {
namespace {

constexpr Duration min_retry_delay = std::chrono::milliseconds(500);
constexpr Duration max_retry_delay = std::chrono::seconds(10);

class SrvSource final : public DiscoverySource {
 public:
  SrvSource(const SourceParts& parts, std::string name, const DnsConfig& dns)
      : loop_(parts.loop),
        environment_(parts.environment),
        found_(parts.found),
        rng_(parts.seed),
        name_(std::move(name)),
        min_ttl_(dns.min_ttl),
        max_ttl_(std::max(dns.min_ttl, dns.max_ttl)),
        reading_(run()) {}

 private:
  Task<void> run() {
    co_await loop_.yield();  // not from inside the constructor
    Duration retry_delay = min_retry_delay;
    while (true) {
      Duration pause = retry_delay;
      auto answer = co_await environment_.find_services(name_);
      if (!answer) {
        found_.note_failure(answer.error().detail);
        retry_delay = std::min(2 * retry_delay, max_retry_delay);
      } else {
        retry_delay = min_retry_delay;
        const bool counts = found_.offer(backends_of(answer->services));
        pause = std::clamp(answer->ttl, min_ttl_, max_ttl_);
        // Nothing says how long it is true that there are none.
        if (answer->services.empty()) pause = min_ttl_;
        if (!counts) pause = FoundList::second_look;
      }
      const double share = 1 + 0.1 * rng_.unit();
      co_await loop_.sleep_for(std::chrono::duration_cast<Duration>(pause * share));
    }
  }

  Loop& loop_;
  const DiscoveryEnvironment& environment_;
  FoundList& found_;
  Rng rng_;
  std::string name_;
  Duration min_ttl_;
  Duration max_ttl_;
  Task<void> reading_;
};

}  // namespace

std::vector<BackendConfig> backends_of(const std::vector<Resolver::Service>& services) {
  if (services.empty()) return {};
  const auto first = std::ranges::min(services, {}, &Resolver::Service::priority).priority;
  constexpr std::uint32_t max_weight = 1000;
  std::uint32_t heaviest = 0;
  for (const Resolver::Service& each : services) {
    if (each.priority == first) heaviest = std::max<std::uint32_t>(heaviest, each.weight);
  }
  std::vector<BackendConfig> backends;
  for (const Resolver::Service& each : services) {
    if (each.priority != first || each.port == 0) continue;
    std::uint32_t weight = each.weight;
    if (heaviest > max_weight) weight = weight * max_weight / heaviest;
    backends.push_back({.address = {.host = each.host, .port = each.port},
                        .weight = std::max<std::uint32_t>(weight, 1)});
  }
  return backends;
}

DiscoverySourcePtr make_srv_source(const SourceParts& parts, const std::string& name,
                                   const DnsConfig& dns) {
  return std::make_unique<SrvSource>(parts, name, dns);
}

}  // namespace evenkeel
