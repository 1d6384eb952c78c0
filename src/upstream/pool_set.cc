#include "evenkeel/upstream/pool_set.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "evenkeel/base/hash.h"
#include "evenkeel/base/log.h"
#include "evenkeel/config/named_files.h"
#include "evenkeel/config/selector.h"
#include "evenkeel/inference/engine.h"
#include "evenkeel/upstream/subsets.h"
#include "upstream/health_check_spec.h"

namespace evenkeel {
namespace {

using ResolvedBackend = PoolSet::ResolvedBackend;

bool speaks_tls(const PoolConfig& pool) {
  return pool.tls ||
         std::any_of(pool.backends.begin(), pool.backends.end(),
                     [](const BackendConfig& backend) { return backend.address.secure; });
}

/// The name by which a backend is verified, which SNI has if it is no address; in its normal form.
std::string server_name_of(const PoolConfig& pool, const BackendConfig& backend) {
  const bool named = pool.tls && !pool.tls->server_name.empty();
  return normal_host(named ? pool.tls->server_name : backend.address.host);
}

/// The servers that a name stands for. One IPv4 and one IPv6 address are two ways to one server.
/// Several of one family are several servers; IPv4 addresses are preferred, since a server that has
/// both would be listed twice.
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
  // Name servers shuffle; the order of a pool may not depend on that.
  std::sort(each.begin(), each.end(),
            [](const auto& a, const auto& b) { return a.front().text() < b.front().text(); });
  each.erase(std::unique(each.begin(), each.end()), each.end());
  return each;
}

/// The servers that each name of a pool stood for so far.
class KnownServers {
 public:
  /// `saved`: of the process before, which counts for servers that this one has not had.
  KnownServers(const PoolSet::PoolEntry* pool_entry, const std::string& pool,
               const decltype(BuildInputs::ids)& saved)
      : pool_(pool), saved_(saved) {
    if (pool_entry == nullptr) return;
    for (std::size_t i = 0; i < pool_entry->backends.size(); ++i) {
      const ResolvedBackend& resolved = pool_entry->backends[i];
      servers_.emplace(to_string(resolved.config.address),
                       Known{&resolved, pool_entry->state->backends()[i]->id()});
    }
  }

  /// Some server of this `host:port`; null: none.
  const ResolvedBackend* any_of(const std::string& address) const {
    const auto found = servers_.find(address);
    return found == servers_.end() ? nullptr : found->second.resolved;
  }
  /// The id of the server at these addresses; empty: none.
  std::string id_of(const std::string& address, const std::vector<Endpoint>& addresses) const {
    const auto [begin, end] = servers_.equal_range(address);
    for (auto each = begin; each != end; ++each) {
      const auto& [resolved, id] = each->second;
      if (!addresses.empty() && !resolved->addresses.empty() &&
          resolved->addresses.front() == addresses.front()) {
        return std::string(id);
      }
    }
    if (addresses.empty()) return {};
    const auto saved = saved_.find({pool_, address, addresses.front().text()});
    return saved == saved_.end() || is_used(address, saved->second) ? "" : saved->second;
  }

 private:
  /// True if another server has this id.
  bool is_used(const std::string& address, const std::string& id) const {
    const auto [begin, end] = servers_.equal_range(address);
    return std::any_of(begin, end, [&](const auto& each) {
      return each.second.id == id && !each.second.resolved->addresses.empty();
    });
  }

  struct Known {
    const ResolvedBackend* resolved;
    std::string_view id;
  };
  const std::string& pool_;
  const decltype(BuildInputs::ids)& saved_;
  std::unordered_multimap<std::string, Known> servers_;
};

/// True if a request that a backend fails goes to another one, whatever its method.
bool retries_failures(const PoolConfig& pool) {
  const bool by_rule =
      std::ranges::find(pool.retry.on, RetryOn::server_error) != pool.retry.on.end();
  return pool.retry.attempts > 1 && (by_rule || engine_named(pool.engine).refusals.early_errors);
}

/// True if no check of the pool's backends requires an answer of the server: the kernel of one that
/// hangs still accepts connections.
bool lacks_answered_checks(const PoolConfig& pool) {
  const HealthCheckKind kind = resolved_check_kind({.config = pool.health,
                                                    .engine = pool.engine,
                                                    .models = pool.models,
                                                    .protocol = pool.protocol,
                                                    .engine_is_auto = false});
  return kind == HealthCheckKind::off || kind == HealthCheckKind::tcp;
}

/// The key of a backend. `same`: a backend whose key it keeps; null: none.
Result<BackendCredential> key_of(const BackendConfig& backend, const ResolvedBackend* same) {
  if (backend.api_key_file.empty()) return BackendCredential();
  if (same != nullptr) return same->key;
  auto key = read_api_key(backend.api_key_file);
  if (key && backend.api_key_header.empty()) return BackendCredential{.value = "Bearer " + *key};
  if (key) return BackendCredential{.field = backend.api_key_header, .value = std::move(*key)};
  key.error().detail = "api_key_file: '" + backend.api_key_file + "' " + key.error().detail;
  return std::move(key.error());
}

/// `before`: of the predecessor, or null.
Result<RedisOptions> redis_options_of(const SharedStateConfig& config,
                                      const BuildInputs& build_inputs,
                                      const std::optional<RedisOptions>* before) {
  const bool keeps_files = !build_inputs.reload_files && before != nullptr && before->has_value();
  RedisOptions options{.addresses = build_inputs.find(config.redis.server),
                       .connector = {.server_name = config.redis.server.host},
                       .user = config.user,
                       .password = {},
                       .database = config.redis.database,
                       .timeout = config.timeout};
  if (keeps_files) {
    options.password = (*before)->password;
    options.connector = (*before)->connector;
    return options;
  }
  if (!config.password_file.empty()) {
    auto password = read_api_key(config.password_file);
    if (!password) {
      password.error().detail =
          "shared_state.password_file: '" + config.password_file + "' " + password.error().detail;
      return std::move(password.error());
    }
    options.password = std::move(*password);
  }
  if (!config.tls && !config.redis.server.secure) return options;
  auto tls = TlsClientContext::build(
      config.tls.value_or(PoolTlsConfig{}),
      before == nullptr || !before->has_value() ? nullptr : (*before)->connector.tls);
  if (!tls) {
    tls.error().detail = "shared_state.tls: " + tls.error().detail;
    return std::move(tls.error());
  }
  options.connector.tls = std::move(*tls);
  if (!options.connector.tls->server_name().empty())
    options.connector.server_name = options.connector.tls->server_name();
  return options;
}

}  // namespace

BackendHost host_of_backend(const PoolConfig& pool, const BackendConfig& backend) {
  const bool secure = pool.tls || backend.address.secure;
  const std::string name = server_name_of(pool, backend);
  if (!pool.host.empty() && pool.host != "backend" && pool.host != "client") {
    return {.own = pool.host, .is_text = true, .replaces_client = true};
  }
  const bool by_default = secure && !parse_ip(name);
  return {.own = authority_of(name, backend.address.port, secure),
          .replaces_client = pool.host.empty() ? by_default : pool.host == "backend"};
}

Result<std::shared_ptr<const PoolSet>> PoolSet::build(const Config& config,
                                                      const BuildInputs& build_inputs,
                                                      const PoolSet* predecessor) {
  auto pool_set = std::make_shared<PoolSet>();
  pool_set->token_estimates_ =
      predecessor == nullptr ? std::make_shared<TokenEstimates>() : predecessor->token_estimates_;
  if (predecessor != nullptr) pool_set->limit_use_ = predecessor->limit_use_;
  if (pool_set->limit_use_ == nullptr && has_limits(config))
    pool_set->limit_use_ = std::make_shared<LimitUse>();
  if (config.shared_state) {
    auto options = redis_options_of(*config.shared_state, build_inputs,
                                    predecessor == nullptr ? nullptr : &predecessor->shared_state_);
    if (!options) return std::move(options.error());
    pool_set->shared_state_ = std::move(*options);
  }
  if (config.auth && !config.auth->jwt.empty()) {
    pool_set->token_issuers_ = predecessor == nullptr ? nullptr : predecessor->token_issuers_;
    if (build_inputs.reload_files || pool_set->token_issuers_ == nullptr) {
      auto issuers = TokenIssuers::read(config.auth->jwt);
      if (!issuers) return std::move(issuers.error());
      pool_set->token_issuers_ = std::move(*issuers);
    }
  }
  if (predecessor != nullptr && !build_inputs.reload_files) {
    pool_set->error_pages_ = predecessor->error_pages_;
  } else {
    auto pages = read_error_pages(config);
    if (!pages) return std::move(pages.error());
    pool_set->error_pages_ = std::make_shared<const ErrorPageTexts>(std::move(*pages));
  }
  for (const ListenerConfig& listener : config.listeners) {
    if (!listener.tls) continue;
    auto tls = tls_for(listener, build_inputs, predecessor);
    if (!tls) return std::move(tls.error());
    pool_set->listeners_[listener.name] = std::move(*tls);
  }
  pool_set->add_canaries(config, predecessor);
  auto subsets = subsets_of(config);
  for (const PoolConfig& pool : config.pools) {
    const PoolEntry* before = predecessor == nullptr ? nullptr : predecessor->find(pool.name);
    auto pool_entry = build_entry(pool, std::move(subsets[pool.name]), build_inputs, before);
    if (!pool_entry) {
      pool_entry.error().detail = "pool " + pool.name + ": " + pool_entry.error().detail;
      return std::move(pool_entry.error());
    }
    pool_set->numbers_.emplace(pool_entry->state->config().name, pool_set->pools_.size());
    pool_set->pools_.push_back(std::move(*pool_entry));
  }
  return std::shared_ptr<const PoolSet>(std::move(pool_set));
}

void PoolSet::add_canaries(const Config& config, const PoolSet* predecessor) {
  for (const RouteConfig& route : config.routes) {
    if (!route.canary) continue;
    const Canary* const before =
        predecessor == nullptr ? nullptr : predecessor->canary_of(route.name);
    const bool continues =
        before != nullptr && before->config == *route.canary && before->targets == route.targets;
    canaries_.push_back({.route = route.name,
                         .config = *route.canary,
                         .targets = route.targets,
                         .trial = continues ? before->trial
                                            : std::make_shared<CanaryTrial>(CanaryBounds{
                                                  .error_rate = route.canary->error_rate,
                                                  .ttft = route.canary->ttft,
                                                  .window = route.canary->window,
                                                  .min_requests = route.canary->min_requests})});
  }
}

std::uint64_t PoolSet::Canary::key() const {
  std::string text = fmt::format("{}\n{}\n{}\n{}\n{}\n{}", route, config.target, config.error_rate,
                                 config.ttft.count(), config.window.count(), config.min_requests);
  for (const RouteTarget& each : targets)
    text += fmt::format("\n{} {} {}", each.pool, selector_of(each.labels), each.weight);
  return hash_of(text);
}

const PoolSet::Canary* PoolSet::canary_of(std::string_view route) const {
  const auto found = std::ranges::find(canaries_, route, &Canary::route);
  return found == canaries_.end() ? nullptr : &*found;
}

Result<std::shared_ptr<const TlsServerContext>> PoolSet::tls_for(const ListenerConfig& listener,
                                                                 const BuildInputs& build_inputs,
                                                                 const PoolSet* predecessor) {
  const auto before = predecessor == nullptr ? nullptr : predecessor->tls_of(listener.name);
  if (before != nullptr && !build_inputs.reload_files) return before;
  auto tls = TlsServerContext::build(*listener.tls, listener.name, {}, before.get());
  if (!tls) return std::move(tls.error());
  for (const TlsProblem& warning : (*tls)->warnings()) {
    log::tls.warning("listener " + listener.name + ": " + warning.message + "; " + warning.help);
  }
  return tls;
}

Result<PoolSet::PoolEntry> PoolSet::build_entry(const PoolConfig& pool,
                                                std::vector<SubsetSpec> subsets,
                                                const BuildInputs& build_inputs,
                                                const PoolEntry* before) {
  const bool keeps_files = before != nullptr && !build_inputs.reload_files;
  PoolSpec spec{.config = pool,
                .retries_trials = retries_failures(pool),
                .notices_silence = lacks_answered_checks(pool),
                .backends = {},
                .subsets = std::move(subsets)};
  const KnownServers known(before, pool.name, build_inputs.ids);
  PoolEntry pool_entry;
  for (const BackendConfig& backend : pool.backends) {
    const std::string address = to_string(backend.address);
    const ResolvedBackend* const same = known.any_of(address);
    auto key = key_of(backend, keeps_files ? same : nullptr);
    if (!key) return std::move(key.error());
    auto servers = servers_of(backend.address, build_inputs.find(backend.address));
    const bool several = servers.size() > 1;
    for (std::vector<Endpoint>& addresses : servers) {
      std::string id = known.id_of(address, addresses);
      if (id.empty()) id = several ? address + "@" + addresses.front().host() : address;
      spec.backends.push_back({.id = id,
                               .address = id == address ? address : addresses.front().text(),
                               .max_in_flight = pool.limits.max_in_flight,
                               .config = backend});
      const auto weight = build_inputs.weights.find({pool.name, id});
      if (weight != build_inputs.weights.end()) spec.backends.back().config.weight = weight->second;
      const bool drained = build_inputs.drained.contains({pool.name, id});
      pool_entry.backends.push_back({.config = backend,
                                     .addresses = std::move(addresses),
                                     .key = *key,
                                     .host = host_of_backend(pool, backend),
                                     .drained = drained});
    }
  }
  if (speaks_tls(pool)) {
    if (keeps_files && before->tls != nullptr) {
      pool_entry.tls = before->tls;
    } else {
      auto tls = TlsClientContext::build(pool.tls.value_or(PoolTlsConfig{}),
                                         before == nullptr ? nullptr : before->tls);
      if (!tls) return std::move(tls.error());
      pool_entry.tls = std::move(*tls);
    }
  }
  pool_entry.state =
      PoolState::build(std::move(spec), before == nullptr ? nullptr : before->state.get());
  return pool_entry;
}

void PoolSet::activate() const {
  for (const PoolEntry& pool_entry : pools_) {
    pool_entry.state->activate();
    for (std::size_t i = 0; i < pool_entry.backends.size(); ++i) {
      BackendState& state = pool_entry.state->backends()[i]->state();
      if (pool_entry.backends[i].drained) state.take_out(OutOfRotation::draining);
      if (pool_entry.backends[i].addresses.empty()) state.take_out(OutOfRotation::unresolved);
    }
  }
}

void PoolSet::leave(const PoolSet& successor) const {
  for (const PoolEntry& pool_entry : pools_) {
    Affinity* const affinity = pool_entry.state->affinity();
    const PoolEntry* const next = successor.find(pool_entry.state->config().name);
    const bool goes_on = next != nullptr && next->state->affinity() != nullptr;
    // Requests that are still here have no sessions either.
    if (affinity != nullptr && !goes_on) affinity->close();
  }
}

std::vector<std::shared_ptr<const void>> PoolSet::release_tables(const PoolSet& successor) const {
  std::vector<std::shared_ptr<const void>> released;
  for (const PoolEntry& pool_entry : pools_) {
    const PoolState& pool = *pool_entry.state;
    const PoolEntry* const next = successor.find(pool.config().name);
    if (pool.scheduled() != nullptr) {
      const ScheduledPool* const going_on =
          next == nullptr ? nullptr : next->state->scheduled().get();
      if (auto index = pool.scheduled()->release_index(going_on))
        released.push_back(std::move(index));
    }
    if (pool.affinity() == nullptr) continue;
    if (auto pins = pool.affinity()->take_former()) released.push_back(std::move(pins));
  }
  return released;
}

void PoolSet::reopen_resolved() const {
  for (const PoolEntry& pool_entry : pools_) {
    for (std::size_t i = 0; i < pool_entry.backends.size(); ++i) {
      if (pool_entry.backends[i].addresses.empty()) continue;
      pool_entry.state->backends()[i]->put_back(OutOfRotation::unresolved);
    }
  }
}

const PoolSet::PoolEntry* PoolSet::find(std::string_view pool) const {
  const auto found = numbers_.find(pool);
  return found == numbers_.end() ? nullptr : &pools_[found->second];
}

std::shared_ptr<const TlsServerContext> PoolSet::tls_of(std::string_view listener) const {
  const auto found = listeners_.find(listener);
  return found == listeners_.end() ? nullptr : found->second;
}

LinkPoolOptions link_options_of(const PoolConfig& pool, const BackendConfig& backend,
                                const std::shared_ptr<const TlsClientContext>& tls) {
  LinkPoolOptions options{
      .link = {.first_byte_timeout = pool.timeouts.first_byte, .idle_timeout = pool.timeouts.idle},
      .connector = {.connect_timeout = pool.timeouts.connect},
      .protocol = pool.protocol,
      .keep_alive = pool.keep_alive};
  if (!pool.tls && !backend.address.secure) return options;
  options.connector.tls = tls;
  switch (pool.protocol) {
    case BackendProtocol::automatic: options.connector.alpn = AlpnOffer::http2_or_http1; break;
    case BackendProtocol::http1: options.connector.alpn = AlpnOffer::http1; break;
    case BackendProtocol::http2: options.connector.alpn = AlpnOffer::http2; break;
  }
  options.connector.server_name = server_name_of(pool, backend);
  return options;
}

}  // namespace evenkeel
