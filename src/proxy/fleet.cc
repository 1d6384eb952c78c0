#include "evenkeel/proxy/fleet.h"

#include <sys/socket.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <variant>

#include "evenkeel/base/file.h"
#include "evenkeel/base/log.h"

namespace evenkeel {
namespace {

using Seat = Fleet::Seat;

bool speaks_tls(const PoolConfig& pool) {
  return pool.tls ||
         std::any_of(pool.backends.begin(), pool.backends.end(),
                     [](const BackendConfig& backend) { return backend.address.secure; });
}

Result<std::string> read_key(const std::string& path) {
  constexpr std::size_t longest_key = 16 * 1024;
  const auto fail = [&path](const std::string& why) {
    return Error{.fault = Fault::internal, .detail = "api_key_file: '" + path + "' " + why};
  };
  auto read = read_file(path, longest_key);
  if (const auto* failure = std::get_if<FileFailure>(&read)) {
    return fail("cannot be read: " + failure->why + "; give a file with the key");
  }
  std::string key = std::move(std::get<std::string>(read));
  const auto visible = [](char c) { return c > ' ' && c < '\x7f'; };
  while (!key.empty() && !visible(key.back())) key.pop_back();
  if (key.empty() || !std::all_of(key.begin(), key.end(), visible)) {
    return fail("holds no key: one word of printable ASCII is one");
  }
  return key;
}

/// Who a name stands for. Addresses of IPv4 and IPv6 side by side are taken for two ways to one
/// server; several of one family are several servers, of IPv4 where there are any: a server that
/// has both would be there twice.
std::vector<std::vector<Endpoint>> servers_of(const Address& address,
                                              std::vector<Endpoint> addresses) {
  const auto is_v4 = [](const Endpoint& each) { return each.family() == AF_INET; };
  const auto v4 =
      static_cast<std::size_t>(std::count_if(addresses.begin(), addresses.end(), is_v4));
  const bool has_v4 = v4 > 0;
  const std::size_t servers = has_v4 ? v4 : addresses.size();
  if (servers <= 1 || address.host == "localhost") return {std::move(addresses)};
  std::vector<std::vector<Endpoint>> each;
  for (const Endpoint& endpoint : addresses) {
    if (is_v4(endpoint) == has_v4) each.push_back({endpoint});
  }
  // Name servers shuffle; the same servers shall be the same pool.
  std::sort(each.begin(), each.end(),
            [](const auto& a, const auto& b) { return a.front().text() < b.front().text(); });
  each.erase(std::unique(each.begin(), each.end()), each.end());
  return each;
}

/// The servers that stood for each name of a pool.
class KnownSeats {
 public:
  explicit KnownSeats(const Fleet::Member* member) {
    if (member == nullptr) return;
    for (std::size_t i = 0; i < member->seats.size(); ++i) {
      const Seat& seat = member->seats[i];
      seats_.emplace(to_string(seat.config.address),
                     Known{&seat, member->state->backends()[i]->id()});
    }
  }

  /// One of those of this `host:port`, or null.
  const Seat* any_of(const std::string& address) const {
    const auto found = seats_.find(address);
    return found == seats_.end() ? nullptr : found->second.seat;
  }
  /// Of the one that is reached there; empty: none was.
  std::string id_of(const std::string& address, const std::vector<Endpoint>& addresses) const {
    const auto [begin, end] = seats_.equal_range(address);
    for (auto each = begin; each != end; ++each) {
      const auto& [seat, id] = each->second;
      if (!addresses.empty() && !seat->addresses.empty() &&
          seat->addresses.front() == addresses.front()) {
        return std::string(id);
      }
    }
    return {};
  }

 private:
  struct Known {
    const Seat* seat;
    std::string_view id;
  };
  std::unordered_multimap<std::string, Known> seats_;
};

}  // namespace

Result<std::shared_ptr<const Fleet>> Fleet::build(const Config& config) {
  std::optional<Error> unknown;
  const Circumstances now{.find =
                              [&unknown](const Address& address) {
                                auto addresses = resolve(address.host, address.port);
                                if (addresses) return std::move(*addresses);
                                unknown = std::move(addresses.error());
                                return std::vector<Endpoint>();
                              },
                          .weights = {}};
  auto fleet = build(config, now);
  if (unknown) return std::move(*unknown);
  return fleet;
}

Result<std::shared_ptr<const Fleet>> Fleet::build(const Config& config,
                                                  const Circumstances& circumstances,
                                                  const Fleet* predecessor) {
  auto fleet = std::make_shared<Fleet>();
  for (const ListenerConfig& listener : config.listeners) {
    if (!listener.tls) continue;
    auto tls = tls_for(listener, circumstances, predecessor);
    if (!tls) return std::move(tls.error());
    fleet->listeners_[listener.name] = std::move(*tls);
  }
  for (const PoolConfig& pool : config.pools) {
    const Member* before = predecessor == nullptr ? nullptr : predecessor->find(pool.name);
    auto member = member_for(pool, circumstances, before);
    if (!member) {
      member.error().detail = "pool " + pool.name + ": " + member.error().detail;
      return std::move(member.error());
    }
    fleet->pools_.push_back(std::move(*member));
  }
  return std::shared_ptr<const Fleet>(std::move(fleet));
}

Result<std::shared_ptr<const TlsServer>> Fleet::tls_for(const ListenerConfig& listener,
                                                        const Circumstances& circumstances,
                                                        const Fleet* predecessor) {
  const auto before = predecessor == nullptr ? nullptr : predecessor->tls_of(listener.name);
  if (before != nullptr && !circumstances.reads_files) return before;
  auto tls = TlsServer::build(*listener.tls, listener.name, {}, before.get());
  if (!tls) return std::move(tls.error());
  for (const TlsProblem& warning : (*tls)->warnings()) {
    log::warning("listener " + listener.name + ": " + warning.message + "; " + warning.help);
  }
  return tls;
}

Result<Fleet::Member> Fleet::member_for(const PoolConfig& pool, const Circumstances& circumstances,
                                        const Member* before) {
  const bool keeps_files = before != nullptr && !circumstances.reads_files;
  PoolSpec spec{.name = pool.name,
                .picker = pool.picker,
                .load_factor = pool.hash.load_factor,
                .memory_guard = pool.picker == "gpu" ? pool.gpu.memory_guard : 0,
                .observed_weights = pool.weights == WeightSource::observed,
                .queue = {pool.limits.queue.size, pool.limits.queue.timeout},
                .spares = {pool.spares.enter, pool.spares.leave, pool.spares.dwell}};
  const KnownSeats known(before);
  Member member;
  for (const BackendConfig& backend : pool.backends) {
    const std::string address = to_string(backend.address);
    const Seat* const same = known.any_of(address);
    std::string authorization;
    if (!backend.api_key_file.empty() && keeps_files && same != nullptr) {
      authorization = same->authorization;
    } else if (!backend.api_key_file.empty()) {
      auto key = read_key(backend.api_key_file);
      if (!key) return std::move(key.error());
      authorization = "Bearer " + *key;
    }
    auto servers = servers_of(backend.address, circumstances.find(backend.address));
    const bool several = servers.size() > 1;
    for (std::vector<Endpoint>& addresses : servers) {
      std::string id = known.id_of(address, addresses);
      if (id.empty()) id = several ? address + "@" + addresses.front().host() : address;
      const auto weight = circumstances.weights.find({pool.name, id});
      spec.backends.push_back(
          {.id = id,
           .address = id == address ? address : addresses.front().text(),
           .weight = weight == circumstances.weights.end() ? backend.weight : weight->second,
           .zone = backend.zone,
           .labels = backend.labels,
           .max_in_flight = pool.limits.max_in_flight,
           .standby = backend.standby});
      const bool drained = circumstances.drained.contains({pool.name, id});
      member.seats.push_back({backend, std::move(addresses), authorization, drained});
    }
  }
  if (speaks_tls(pool)) {
    if (keeps_files && before->tls != nullptr) {
      member.tls = before->tls;
    } else {
      auto tls = TlsClient::build(pool.tls.value_or(PoolTlsConfig{}),
                                  before == nullptr ? nullptr : before->tls);
      if (!tls) return std::move(tls.error());
      member.tls = std::move(*tls);
    }
  }
  member.state =
      PoolState::build(std::move(spec), before == nullptr ? nullptr : before->state.get());
  return member;
}

void Fleet::take_over() const {
  for (const Member& member : pools_) {
    member.state->take_over();
    for (std::size_t i = 0; i < member.seats.size(); ++i) {
      Load& load = member.state->backends()[i]->load();
      if (member.seats[i].drained) load.close(Closure::draining);
      if (member.seats[i].addresses.empty()) load.close(Closure::unresolved);
    }
  }
}

void Fleet::open_found() const {
  for (const Member& member : pools_) {
    for (std::size_t i = 0; i < member.seats.size(); ++i) {
      if (member.seats[i].addresses.empty()) continue;
      member.state->backends()[i]->reopen(Closure::unresolved);
    }
  }
}

const Fleet::Member* Fleet::find(std::string_view pool) const {
  const auto found = std::find_if(pools_.begin(), pools_.end(), [&](const Member& member) {
    return member.state->spec().name == pool;
  });
  return found == pools_.end() ? nullptr : &*found;
}

std::shared_ptr<const TlsServer> Fleet::tls_of(std::string_view listener) const {
  const auto found = listeners_.find(listener);
  return found == listeners_.end() ? nullptr : found->second;
}

}  // namespace evenkeel
