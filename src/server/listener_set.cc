#include "server/listener_set.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "evenkeel/config/address.h"
#include "evenkeel/net/listener.h"
#include "evenkeel/net/resolver.h"

namespace evenkeel {
namespace {

/// How long `look_up_listener_hosts` waits for all names, and how often it looks.
constexpr Duration max_lookup_time = std::chrono::seconds(2);
constexpr Duration lookup_poll_interval = std::chrono::milliseconds(20);

Error with_name(Error error, const ListenerConfig& listener) {
  error.detail = "listener " + listener.name + ": " + error.detail;
  return error;
}

Error unresolved(const std::string& host, const char* why) {
  return {.fault = Fault::connect_failed, .detail = "'" + host + "' " + why};
}

Result<Endpoint> first_address(const std::string& host) {
  auto endpoints = resolve(host, 0);
  if (!endpoints) return std::move(endpoints.error());
  return endpoints->front();
}

}  // namespace

Result<Endpoint> endpoint_of(const Address& address, const ListenerHosts& hosts) {
  Endpoint endpoint;
  if (const auto found = hosts.find(address.host); found != hosts.end()) {
    if (!found->second) return found->second.error();
    endpoint = *found->second;
  } else if (parse_ip(address.host)) {
    auto literal = first_address(address.host);
    if (!literal) return std::move(literal.error());
    endpoint = *literal;
  } else {
    return Error{.fault = Fault::internal,
                 .detail = "'" + address.host + "' has not been resolved"};
  }
  endpoint.set_port(address.port);
  return endpoint;
}

ListenerHosts resolve_listener_hosts(const std::vector<std::string>& hosts) {
  ListenerHosts resolved;
  for (const std::string& host : hosts) {
    if (!resolved.contains(host)) resolved.emplace(host, first_address(host));
  }
  return resolved;
}

Task<Result<ListenerHosts>> look_up_listener_hosts(Loop& loop, std::vector<std::string> hosts,
                                                   std::stop_token left) {
  Resolver resolver(loop);
  std::vector<Task<Result<Resolver::Answer>>> lookups;
  for (const std::string& host : hosts) lookups.push_back(resolver.lookup(host, 0));
  const Instant deadline = loop.read_clock() + max_lookup_time;
  const auto ready = [](const auto& lookup) { return lookup.ready(); };
  while (!std::ranges::all_of(lookups, ready) && loop.read_clock() < deadline) {
    if (left.stop_requested()) {
      co_return Error{.fault = Fault::client_gone, .detail = "the client has left"};
    }
    co_await loop.sleep_for(lookup_poll_interval);
  }
  ListenerHosts resolved;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    if (!lookups[i].ready()) {
      resolved.emplace(hosts[i], unresolved(hosts[i], "has not been resolved in time"));
      continue;
    }
    auto answer = lookups[i].take();
    if (!answer) {
      resolved.emplace(hosts[i], std::move(answer.error()));
    } else if (answer->addresses.empty()) {
      resolved.emplace(hosts[i], unresolved(hosts[i], "has no address"));
    } else {
      resolved.emplace(hosts[i], answer->addresses.front());
    }
  }
  co_return resolved;
}

PreparedListeners::~PreparedListeners() {
  for (const ListenerAssignment& assignment : assignments_) {
    for (const ListenerAssignment::Entry& entry : assignment.entries) {
      for (const int fd : entry.fds) close(fd);
    }
  }
}

std::vector<std::string> ListenerSet::hosts_to_resolve(
    const std::vector<ListenerConfig>& listeners) const {
  std::vector<std::string> hosts;
  for (const ListenerConfig& listener : listeners) {
    if (find_open(listener) == nullptr && !parse_ip(listener.address.host)) {
      hosts.push_back(listener.address.host);
    }
  }
  return hosts;
}

Result<PreparedListeners> ListenerSet::prepare(const std::vector<ListenerConfig>& listeners,
                                               const ListenerHosts& hosts, std::size_t& reached) {
  PreparedListeners prepared(workers_);
  for (reached = 0; reached < listeners.size(); ++reached) {
    const ListenerConfig& listener = listeners[reached];
    if (const OpenListener* kept = find_open(listener)) {
      prepared.open_.push_back(*kept);
      prepared.open_.back().name = listener.name;
      for (ListenerAssignment& each : prepared.assignments_)
        each.entries.push_back({listener, kept->id, {}, kept->clients});
      continue;
    }
    auto endpoint = endpoint_of(listener.address, hosts);
    if (!endpoint) return with_name(std::move(endpoint.error()), listener);
    auto opened = open_new(listener, *endpoint, prepared.assignments_);
    if (!opened) return with_name(std::move(opened.error()), listener);
    prepared.open_.push_back(std::move(*opened));
  }
  std::vector<int> fds;
  for (const ListenerAssignment& assignment : prepared.assignments_) {
    for (const ListenerAssignment::Entry& entry : assignment.entries) {
      fds.insert(fds.end(), entry.fds.begin(), entry.fds.end());
    }
  }
  auto watched = Listener::check_watches(fds);
  if (!watched) return std::move(watched.error());
  return prepared;
}

Result<Done> ListenerSet::check(const std::vector<ListenerConfig>& listeners,
                                const ListenerHosts& hosts, std::size_t& reached) const {
  for (reached = 0; reached < listeners.size(); ++reached) {
    const ListenerConfig& listener = listeners[reached];
    if (find_open(listener) != nullptr) continue;
    auto endpoint = endpoint_of(listener.address, hosts);
    if (!endpoint) return with_name(std::move(endpoint.error()), listener);
    if (!inherited_.find(listener.name, *endpoint, listener.address).empty()) continue;
    auto can_bind = Listener::check_bind(*endpoint, shares_port(*endpoint));
    if (!can_bind) return with_name(std::move(can_bind.error()), listener);
  }
  return Done{};
}

std::vector<ListenerAssignment> ListenerSet::commit(PreparedListeners prepared) {
  open_ = std::move(prepared.open_);
  for (const OpenListener& listener : open_) {
    for (const InheritedSockets::Handle socket : listener.inherited) inherited_.claim(socket);
  }
  return std::exchange(prepared.assignments_, {});
}

/// The open listener whose sockets this one takes over: the one with the same configured address;
/// where the kernel chose the port (0), the one that also has the same name.
const OpenListener* ListenerSet::find_open(const ListenerConfig& listener) const {
  const auto found = std::find_if(open_.begin(), open_.end(), [&](const OpenListener& each) {
    return each.address == listener.address &&
           (listener.address.port != 0 || each.name == listener.name);
  });
  return found == open_.end() ? nullptr : &*found;
}

/// True also if one of our listeners holds the port under a wider or narrower address, and closes
/// only after the new one is open.
bool ListenerSet::shares_port(const Endpoint& endpoint) const {
  return inherited_.shares_port(endpoint.port()) ||
         std::any_of(open_.begin(), open_.end(), [&](const OpenListener& each) {
           return each.endpoint.port() == endpoint.port();
         });
}

/// Opens at least one socket per worker, all on the port that the first one got.
Result<OpenListener> ListenerSet::open_new(const ListenerConfig& listener, const Endpoint& endpoint,
                                           std::vector<ListenerAssignment>& assignments) {
  OpenListener opened{.id = ListenerId{++last_id_},
                      .name = listener.name,
                      .address = listener.address,
                      .endpoint = endpoint,
                      .inherited = inherited_.find(listener.name, endpoint, listener.address),
                      .fds = {},
                      .clients = std::make_shared<ClientConnections>()};
  const std::size_t first = assignments.front().entries.size();
  for (ListenerAssignment& each : assignments)
    each.entries.push_back({listener, opened.id, {}, opened.clients});
  const bool shared = shares_port(endpoint);
  const std::size_t count = std::max<std::size_t>(workers_, opened.inherited.size());
  for (std::size_t i = 0; i < count; ++i) {
    auto fd = open_socket(opened, i, shared || i > 0);
    if (!fd) return std::move(fd.error());
    assignments[i % workers_].entries[first].fds.push_back(*fd);
    opened.fds.push_back(*fd);
    opened.endpoint = Listener::local_endpoint(*fd);
  }
  return opened;
}

/// The listener's socket number `index`. Where it inherits fewer than there are workers, more join
/// the port; on a port that cannot be shared, workers accept from the same socket.
Result<int> ListenerSet::open_socket(const OpenListener& listener, std::size_t index, bool shared) {
  const auto& inherited = listener.inherited;
  if (inherited_.shares_port(listener.endpoint.port()) && index >= inherited.size()) {
    // The process that this one replaces serves the port until the workers accept.
    auto added = Listener::bind_shared_idle(listener.endpoint);
    if (added || inherited.empty()) return added;
  }
  if (inherited.empty()) {
    return shared ? Listener::bind_shared(listener.endpoint) : Listener::bind(listener.endpoint);
  }
  const int fd = InheritedSockets::duplicate(inherited[index % inherited.size()]);
  if (fd >= 0) return fd;
  return Error{.fault = Fault::internal,
               .detail = std::string("cannot use an inherited socket: ") + std::strerror(errno)};
}

}  // namespace evenkeel
