#include "evenkeel/proxy/plan.h"

#include <algorithm>

#include "evenkeel/base/log.h"

namespace evenkeel {
namespace {

PoolSpec spec_of(const PoolConfig& config) {
  PoolSpec spec{.name = config.name,
                .picker = config.picker,
                .load_factor = config.hash.load_factor,
                .queue = {config.limits.queue.size, config.limits.queue.timeout}};
  for (const BackendConfig& backend : config.backends) {
    const std::string address = to_string(backend.address);
    spec.backends.push_back({.id = address,
                             .address = address,
                             .weight = backend.weight,
                             .zone = backend.zone,
                             .labels = backend.labels,
                             .max_in_flight = config.limits.max_in_flight});
  }
  return spec;
}

LinkPoolOptions link_options_of(const PoolConfig& config) {
  return {.link = {.first_byte_timeout = config.timeouts.first_byte,
                   .idle_timeout = config.timeouts.idle},
          .connector = {.connect_timeout = config.timeouts.connect},
          .protocol = config.protocol,
          .idle_timeout = config.keep_alive.idle,
          .max_idle = config.keep_alive.max_idle};
}

bool speaks_tls(const PoolConfig& pool) {
  return pool.tls ||
         std::any_of(pool.backends.begin(), pool.backends.end(),
                     [](const BackendConfig& backend) { return backend.address.secure; });
}

/// A pool of links is one backend's and one plan's: whatever TLS settings a link was made with are
/// those of every request that may use it, without any of them being part of a key.
void secure(LinkPoolOptions& options, const PoolConfig& pool, const BackendConfig& backend,
            const std::shared_ptr<const TlsClient>& tls) {
  if (!pool.tls && !backend.address.secure) return;
  options.connector.tls = tls;
  switch (pool.protocol) {
    case BackendProtocol::automatic: options.connector.alpn = AlpnOffer::http2_or_http1; break;
    case BackendProtocol::http1: options.connector.alpn = AlpnOffer::http1; break;
    case BackendProtocol::http2: options.connector.alpn = AlpnOffer::http2; break;
  }
  options.connector.server_name =
      tls->server_name().empty() ? backend.address.host : tls->server_name();
}

/// Answers requests that no route matches.
class Unrouted final : public Handler {
 public:
  explicit Unrouted(const Router& router) : router_(router) {}
  Task<Result<Response>> handle(Request& request) override {
    return Result<Response>(std::move(router_.route(request).error()));
  }

 private:
  const Router& router_;
};

}  // namespace

Result<std::shared_ptr<const Fleet>> Fleet::build(const Config& config) {
  auto fleet = std::make_shared<Fleet>();
  for (const ListenerConfig& listener : config.listeners) {
    if (!listener.tls) continue;
    auto tls = TlsServer::build(*listener.tls, listener.name);
    if (!tls) return std::move(tls.error());
    for (const TlsProblem& warning : (*tls)->warnings()) {
      log::warning("listener " + listener.name + ": " + warning.message + "; " + warning.help);
    }
    fleet->listeners_[listener.name] = std::move(*tls);
  }
  for (const PoolConfig& pool : config.pools) {
    Member member;
    for (const BackendConfig& backend : pool.backends) {
      auto addresses = resolve(backend.address.host, backend.address.port);
      if (!addresses) {
        addresses.error().detail = "pool " + pool.name + ": " + addresses.error().detail;
        return std::move(addresses.error());
      }
      member.addresses.push_back(std::move(*addresses));
    }
    if (speaks_tls(pool)) {
      auto tls = TlsClient::build(pool.tls.value_or(PoolTlsConfig{}));
      if (!tls) {
        tls.error().detail = "pool " + pool.name + ": " + tls.error().detail;
        return std::move(tls.error());
      }
      member.tls = std::move(*tls);
    }
    member.state = PoolState::build(spec_of(pool));
    fleet->pools_.push_back(std::move(member));
  }
  return std::shared_ptr<const Fleet>(std::move(fleet));
}

std::shared_ptr<const TlsServer> Fleet::tls_of(std::string_view listener) const {
  const auto found = listeners_.find(listener);
  return found == listeners_.end() ? nullptr : found->second;
}

Plan::Plan(const Config& config, std::shared_ptr<const Fleet> fleet, const WorkerContext& worker)
    : config_(config),
      fleet_(std::move(fleet)),
      router_(config_.routes),
      rng_(static_cast<std::uint64_t>(Clock::now().time_since_epoch().count()) + worker.index),
      access_(worker.ledger),
      grpc_(worker.loop),
      provenance_(rng_()) {
  Sheet& sheet = worker.sheets.sheet(worker.index);
  Names& names = worker.sheets.names();
  std::vector<Handler*> firsts;
  for (std::size_t i = 0; i < config_.pools.size(); ++i) {
    const PoolConfig& pool = config_.pools[i];
    const Fleet::Member& member = fleet_->pools()[i];
    std::unordered_map<const Backend*, Target> targets;
    for (std::size_t j = 0; j < member.addresses.size(); ++j) {
      const Backend& backend = *member.state->backends()[j];
      BackendCells& cells = sheet.backend(names.backend(pool.name, backend.id()));
      LinkPoolOptions options = link_options_of(pool);
      secure(options, pool, pool.backends[j], member.tls);
      targets[&backend] = {
          std::make_shared<LinkPool>(worker.loop, member.addresses[j], options, cells), &cells};
    }
    ForwarderOptions options{.pool = pool.name,
                             .pool_index = names.pool(pool.name),
                             .debug_headers = pool.debug_headers};
    if (pool.picker == "consistent-hash") options.hash_header = pool.hash.header;
    handlers_.push_back(std::make_unique<Forwarder>(worker.loop, member.state, rng_(),
                                                    std::move(targets), sheet, std::move(options)));
    firsts.push_back(&filters_before(*handlers_.back()));
  }

  for (const RouteConfig& route : config_.routes) {
    Road road{.name = route.name,
              .index = names.route(route.name),
              .calls_only = !route.match.grpc.empty()};
    std::uint32_t sum = 0;
    for (const RouteTarget& target : route.targets) {
      const auto pool = std::find_if(config_.pools.begin(), config_.pools.end(),
                                     [&](const PoolConfig& p) { return p.name == target.pool; });
      const auto number = static_cast<std::size_t>(pool - config_.pools.begin());
      const std::uint32_t pool_index = names.pool(pool->name);
      names.lead(road.index, pool_index);
      road.lanes.push_back({firsts[number], pool->name, pool_index, sum += target.weight});
    }
    roads_.push_back(std::move(road));
  }
  handlers_.push_back(std::make_unique<Unrouted>(router_));
  unrouted_ = &filters_before(*handlers_.back());
}

/// THE PAGE: what every request passes, from the inside out, a line and its reason each.
Handler& Plan::filters_before(Handler& last) {
  Handler* first = &last;
  // Who asks: from here inwards the request says nothing that its sender could have made up.
  first = &stage(provenance_, *first);
  // The call: whatever happens further in, a gRPC client gets a status, and gets it in time.
  first = &stage(grpc_, *first);
  // The account: whatever happens further in is answered, counted and logged.
  first = &stage(access_, *first);
  return *first;
}

Handler& Plan::stage(Filter& filter, Handler& next) {
  handlers_.push_back(std::make_unique<Stage>(filter, next));
  return *handlers_.back();
}

Task<Result<Response>> Plan::handle(Request& request) {
  const auto route = router_.route(request);
  if (!route) return unrouted_->handle(request);
  const Road& road = roads_[*route];
  const Lane& lane = choose(road);
  request.about.route = road.name;
  request.about.route_index = road.index;
  request.about.open_ended = road.calls_only;
  request.about.pool = lane.pool;
  request.about.pool_index = lane.pool_index;
  return lane.first->handle(request);
}

const Plan::Lane& Plan::choose(const Road& road) {
  if (road.lanes.size() == 1) return road.lanes.front();
  const std::uint32_t drawn = rng_.below(road.lanes.back().upto);
  const auto lane = std::find_if(road.lanes.begin(), road.lanes.end(),
                                 [drawn](const Lane& each) { return drawn < each.upto; });
  return *lane;
}

}  // namespace evenkeel
