#include "server/listener_set.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "evenkeel/net/listener.h"

namespace evenkeel {
namespace {

Error with_name(Error error, const ListenerConfig& listener) {
  error.detail = "listener " + listener.name + ": " + error.detail;
  return error;
}

Result<Endpoint> endpoint_of(const ListenerConfig& listener) {
  auto endpoints = resolve(listener.address.host, listener.address.port);
  if (!endpoints) return std::move(endpoints.error());
  return endpoints->front();
}

}  // namespace

PreparedListeners::~PreparedListeners() {
  for (const ListenerAssignment& assignment : assignments_) {
    for (const ListenerAssignment::Entry& entry : assignment.entries) {
      if (entry.fd >= 0) close(entry.fd);
    }
  }
}

Result<PreparedListeners> ListenerSet::prepare(const std::vector<ListenerConfig>& listeners) {
  PreparedListeners prepared(workers_);
  for (const ListenerConfig& listener : listeners) {
    if (const OpenListener* kept = find_open(listener)) {
      prepared.open_.push_back(*kept);
      prepared.open_.back().name = listener.name;
      for (ListenerAssignment& each : prepared.assignments_)
        each.entries.push_back({listener, kept->id, -1});
      continue;
    }
    auto opened = open_new(listener, prepared.assignments_);
    if (!opened) return with_name(std::move(opened.error()), listener);
    prepared.open_.push_back(std::move(*opened));
  }
  return prepared;
}

Result<Done> ListenerSet::check(const std::vector<ListenerConfig>& listeners) const {
  for (const ListenerConfig& listener : listeners) {
    if (find_open(listener) != nullptr) continue;
    auto endpoint = endpoint_of(listener);
    if (!endpoint) return with_name(std::move(endpoint.error()), listener);
    if (!inherited_.find(listener.name, *endpoint).empty()) continue;
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

/// One of our listeners may hold the port under a wider or narrower address, and closes only after
/// the new one is open.
bool ListenerSet::shares_port(const Endpoint& endpoint) const {
  return std::any_of(open_.begin(), open_.end(), [&](const OpenListener& each) {
    return each.endpoint.port() == endpoint.port();
  });
}

/// One socket per worker, all on the port that the first one got.
Result<OpenListener> ListenerSet::open_new(const ListenerConfig& listener,
                                           std::vector<ListenerAssignment>& assignments) {
  auto resolved = endpoint_of(listener);
  if (!resolved) return std::move(resolved.error());
  OpenListener opened{.id = ListenerId{++last_id_},
                      .name = listener.name,
                      .address = listener.address,
                      .endpoint = *resolved,
                      .inherited = inherited_.find(listener.name, *resolved)};
  const bool shared = shares_port(*resolved);
  for (unsigned worker = 0; worker < workers_; ++worker) {
    Result<int> fd = -1;
    if (!opened.inherited.empty()) {
      fd = InheritedSockets::duplicate(opened.inherited[worker % opened.inherited.size()]);
    } else if (worker == 0 && !shared) {
      fd = Listener::bind(opened.endpoint);
    } else {
      fd = Listener::bind_shared(opened.endpoint);
    }
    if (!fd) return std::move(fd.error());
    if (*fd < 0) {
      return Error{
          .fault = Fault::internal,
          .detail = std::string("cannot use an inherited socket: ") + std::strerror(errno)};
    }
    assignments[worker].entries.push_back({listener, opened.id, *fd});
    opened.endpoint = Listener::local_endpoint(*fd);
  }
  return opened;
}

}  // namespace evenkeel
