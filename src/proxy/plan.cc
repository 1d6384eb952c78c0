#include "evenkeel/proxy/plan.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace evenkeel {
namespace {

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

LinkPoolOptions link_options_of(const PoolConfig& pool, const BackendConfig& backend,
                                const std::shared_ptr<const TlsClient>& tls) {
  LinkPoolOptions options{
      .link = {.first_byte_timeout = pool.timeouts.first_byte, .idle_timeout = pool.timeouts.idle},
      .connector = {.connect_timeout = pool.timeouts.connect},
      .protocol = pool.protocol,
      .idle_timeout = pool.keep_alive.idle,
      .max_idle = pool.keep_alive.max_idle};
  if (!pool.tls && !backend.address.secure) return options;
  options.connector.tls = tls;
  switch (pool.protocol) {
    case BackendProtocol::automatic: options.connector.alpn = AlpnOffer::http2_or_http1; break;
    case BackendProtocol::http1: options.connector.alpn = AlpnOffer::http1; break;
    case BackendProtocol::http2: options.connector.alpn = AlpnOffer::http2; break;
  }
  options.connector.server_name =
      tls->server_name().empty() ? backend.address.host : tls->server_name();
  return options;
}

Plan::Plan(std::shared_ptr<const Config> config, std::shared_ptr<const Fleet> fleet,
           const WorkerContext& worker, const Plan* predecessor)
    : config_(std::move(config)),
      fleet_(std::move(fleet)),
      router_(config_->routes),
      rng_(static_cast<std::uint64_t>(Clock::now().time_since_epoch().count()) + worker.index),
      access_(worker.ledger),
      grpc_(worker.loop),
      provenance_(rng_()) {
  for (std::size_t i = 0; i < config_->pools.size(); ++i) {
    add_pool(config_->pools[i], fleet_->pools()[i], worker, predecessor);
  }
  for (const RouteConfig& route : config_->routes) add_road(route, worker.sheets.names());
  handlers_.push_back(std::make_unique<Unrouted>(router_));
  unrouted_ = &filters_before(*handlers_.back());
}

void Plan::add_pool(const PoolConfig& pool, const Fleet::Member& member,
                    const WorkerContext& worker, const Plan* predecessor) {
  Sheet& sheet = worker.sheets.sheet(worker.index);
  Names& names = worker.sheets.names();
  std::unordered_map<std::string_view, const Connected*> before;
  if (predecessor != nullptr) {
    const auto found = predecessor->connected_.find(pool.name);
    if (found != predecessor->connected_.end()) {
      for (const Connected& each : found->second) before.emplace(each.id, &each);
    }
  }
  std::vector<Connected>& connected = connected_[pool.name];
  connected.reserve(member.seats.size());
  std::unordered_map<const Backend*, Target> targets;
  for (std::size_t i = 0; i < member.seats.size(); ++i) {
    const Fleet::Seat& seat = member.seats[i];
    const Backend& backend = *member.state->backends()[i];
    BackendCells& cells = sheet.backend(names.backend(pool.name, backend.id()));
    Connected now{.id = backend.id(),
                  .addresses = seat.addresses,
                  .options = link_options_of(pool, seat.config, member.tls),
                  .links = nullptr};
    const auto same = before.find(now.id);
    if (same != before.end() && same->second->addresses == now.addresses &&
        same->second->options == now.options) {
      now.links = same->second->links;
    } else {
      now.links = std::make_shared<LinkPool>(worker.loop, now.addresses, now.options, cells);
    }
    targets[&backend] = {now.links, &cells, seat.authorization};
    connected.push_back(std::move(now));
  }
  ForwarderOptions options{
      .pool = pool.name, .pool_index = names.pool(pool.name), .debug_headers = pool.debug_headers};
  if (pool.picker == "consistent-hash") options.hash_header = pool.hash.header;
  handlers_.push_back(std::make_unique<Forwarder>(worker.loop, member.state, rng_(),
                                                  std::move(targets), sheet, std::move(options)));
  firsts_.push_back(&filters_before(*handlers_.back()));
}

void Plan::add_road(const RouteConfig& route, Names& names) {
  Road road{.name = route.name,
            .index = names.route(route.name),
            .calls_only = !route.match.grpc.empty(),
            .lanes = {}};
  std::uint32_t sum = 0;
  for (const RouteTarget& target : route.targets) {
    const auto pool = std::find_if(config_->pools.begin(), config_->pools.end(),
                                   [&](const PoolConfig& p) { return p.name == target.pool; });
    const auto number = static_cast<std::size_t>(pool - config_->pools.begin());
    const std::uint32_t pool_index = names.pool(pool->name);
    names.lead(road.index, pool_index);
    road.lanes.push_back({firsts_[number], pool->name, pool_index, sum += target.weight});
  }
  roads_.push_back(std::move(road));
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

std::vector<std::shared_ptr<LinkPool>> Plan::links_not_in(const Plan& successor) const {
  std::unordered_set<const LinkPool*> taken_over;
  for (const auto& [pool, connected] : successor.connected_) {
    for (const Connected& each : connected) taken_over.insert(each.links.get());
  }
  std::vector<std::shared_ptr<LinkPool>> left;
  for (const auto& [pool, connected] : connected_) {
    for (const Connected& each : connected) {
      if (!taken_over.contains(each.links.get())) left.push_back(each.links);
    }
  }
  return left;
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
