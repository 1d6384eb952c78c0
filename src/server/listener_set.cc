#include "server/listener_set.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "evenkeel/net/listener.h"

namespace evenkeel {
namespace {

constexpr int first_inherited_fd = 3;
constexpr long max_inherited_fds = 1024;

std::optional<long> number_in(const std::optional<std::string>& text) {
  if (!text) return std::nullopt;
  long number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error != std::errc() || end != text->data() + text->size()) return std::nullopt;
  return number;
}

bool is_listening(int fd) {
  int answer = 0;
  socklen_t size = sizeof answer;
  return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &answer, &size) == 0 && answer != 0;
}

void close_all(const std::vector<ListenerAssignment>& assignments) {
  for (const ListenerAssignment& each : assignments) {
    for (const ListenerAssignment::Entry& entry : each.entries) {
      if (entry.fd >= 0) close(entry.fd);
    }
  }
}

}  // namespace

// ---- InheritedSockets -------------------------------------------------------------------------

InheritedSockets::InheritedSockets(const Variable& variable) {
  if (number_in(variable("LISTEN_PID")) != static_cast<long>(getpid())) return;
  const long count = std::min(number_in(variable("LISTEN_FDS")).value_or(0), max_inherited_fds);
  std::string names = variable("LISTEN_FDNAMES").value_or("");
  for (int fd = first_inherited_fd; fd < first_inherited_fd + count; ++fd) {
    const std::size_t colon = names.find(':');
    std::string name = names.substr(0, colon);
    names = colon == std::string::npos ? "" : names.substr(colon + 1);
    if (!is_listening(fd)) continue;
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    sockets_.push_back({fd, std::move(name), Listener::local_endpoint(fd)});
  }
}

InheritedSockets::~InheritedSockets() {
  for (const Inherited& socket : sockets_) close(socket.fd);
}

int InheritedSockets::take(std::string_view name, const Address& address, const Endpoint& endpoint,
                           unsigned index) {
  std::vector<Inherited*> candidates;
  for (Inherited& socket : sockets_) {
    const bool name_matches =
        socket.name == name && (!socket.taken_for || *socket.taken_for == address);
    if (name_matches || socket.endpoint == endpoint) candidates.push_back(&socket);
  }
  if (candidates.empty()) return -1;
  Inherited& chosen = *candidates[index % candidates.size()];
  const int taken = fcntl(chosen.fd, F_DUPFD_CLOEXEC, 0);
  if (taken >= 0) chosen.taken_for = address;
  return taken;
}

std::vector<std::string> InheritedSockets::close_unused(const std::vector<Address>& used) {
  std::vector<std::string> unused;
  std::erase_if(sockets_, [&](const Inherited& socket) {
    const bool is_used =
        socket.taken_for && std::find(used.begin(), used.end(), *socket.taken_for) != used.end();
    if (is_used) return false;
    unused.push_back(socket.name + " at " + socket.endpoint.text());
    close(socket.fd);
    return true;
  });
  return unused;
}

// ---- Doorkeeper -------------------------------------------------------------------------------

Result<std::vector<ListenerAssignment>> ListenerSet::open(
    const std::vector<ListenerConfig>& listeners) {
  std::vector<ListenerAssignment> assignments(workers_);
  std::vector<OpenListener> open;
  for (const ListenerConfig& listener : listeners) {
    if (const OpenListener* stays = find_open(listener)) {
      open.push_back({stays->number, listener.name, listener.address, stays->endpoint});
      for (ListenerAssignment& each : assignments)
        each.entries.push_back({listener, stays->number, -1});
      continue;
    }
    const std::uint32_t number = next_number_++;
    auto endpoint = bind(listener, number, assignments);
    if (!endpoint) {
      close_all(assignments);
      endpoint.error().detail = "listener " + listener.name + ": " + endpoint.error().detail;
      return std::move(endpoint.error());
    }
    open.push_back({number, listener.name, listener.address, *endpoint});
  }
  open_ = std::move(open);
  return assignments;
}

/// The open listener whose sockets this one takes over: the one in the same place, and where the
/// kernel chose the place, of the same name.
const ListenerSet::OpenListener* ListenerSet::find_open(const ListenerConfig& listener) const {
  const auto found = std::find_if(open_.begin(), open_.end(), [&](const OpenListener& each) {
    return each.address == listener.address &&
           (listener.address.port != 0 || each.name == listener.name);
  });
  return found == open_.end() ? nullptr : &*found;
}

/// A socket per worker, all on the port that the first one got.
Result<Endpoint> ListenerSet::bind(const ListenerConfig& listener, std::uint32_t number,
                                   std::vector<ListenerAssignment>& assignments) {
  auto endpoints = resolve(listener.address.host, listener.address.port);
  if (!endpoints) return std::move(endpoints.error());
  Endpoint endpoint = endpoints->front();
  // One of ours may have the port under a wider or a narrower address; it goes when we have it too.
  const bool shared = std::any_of(open_.begin(), open_.end(), [&](const OpenListener& each) {
    return each.endpoint.port() == endpoint.port();
  });
  for (unsigned worker = 0; worker < workers_; ++worker) {
    int fd = inherited_.take(listener.name, listener.address, endpoint, worker);
    if (fd < 0) {
      auto bound =
          worker == 0 && !shared ? Listener::bind(endpoint) : Listener::bind_shared(endpoint);
      if (!bound) return std::move(bound.error());
      fd = *bound;
    }
    assignments[worker].entries.push_back({listener, number, fd});
    endpoint = Listener::local_endpoint(fd);
  }
  return endpoint;
}

std::vector<std::string> ListenerSet::startup_lines() const {
  std::vector<std::string> startup_lines;
  for (const OpenListener& each : open_) {
    startup_lines.push_back(
        fmt::format("listening name={} address={}", each.name, each.endpoint.text()));
  }
  return startup_lines;
}

}  // namespace evenkeel
