#include "evenkeel/net/resolver.h"

#include <ares.h>
#include <netdb.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "evenkeel/base/host.h"
#include "evenkeel/base/refusal_text.h"

namespace evenkeel {
namespace {

constexpr int query_timeout_ms =
    1000;  // of the first try per name server; c-ares doubles it per try
constexpr int tries = 3;
/// Name servers, and the kernel, drop what comes in large bursts, and each name would wait for the
/// timeouts of the others.
constexpr int max_begun_at_once = 200;
constexpr Duration burst_interval = std::chrono::milliseconds(1);  // the next tick of timers
constexpr Duration forever = std::chrono::hours(24);

/// Stands for SRV records where others have an address family.
constexpr int no_family = -1;

/// One lookup; its caller may be gone when the answer arrives.
struct Query {
  Query(Loop& loop, std::string name, int address_family)
      : host(std::move(name)), family(address_family), answered(loop) {}
  const std::string host;
  const int family;  // or `no_family`
  Signal answered;
  bool abandoned = false;
  int status = ARES_ECANCELLED;
  Resolver::Answer answer;
  Resolver::ServiceAnswer services;
};

/// Reads the parts of a DNS message (RFC 1035, section 4).
class MessageReader {
 public:
  explicit MessageReader(std::span<const unsigned char> message) : message_(message) {}

  bool good() const { return at_ <= message_.size(); }
  void skip(std::size_t bytes) { at_ += bytes; }
  std::uint16_t number() {
    if (at_ + 2 > message_.size()) at_ = message_.size() + 1;
    if (!good()) return 0;
    const auto value = static_cast<std::uint16_t>(message_[at_] << 8 | message_[at_ + 1]);
    at_ += 2;
    return value;
  }
  std::string name() {
    char* text = nullptr;
    long size = 0;
    const bool read =
        good() && ares_expand_name(message_.data() + at_, message_.data(),
                                   static_cast<int>(message_.size()), &text, &size) == ARES_SUCCESS;
    at_ = read ? at_ + static_cast<std::size_t>(size) : message_.size() + 1;
    std::string copy(read ? text : "");
    ares_free_string(text);
    return copy;
  }

 private:
  std::span<const unsigned char> message_;
  std::size_t at_ = 0;
};

/// The SRV records of an answer. c-ares 1.18 tells no time to live of them.
std::optional<Resolver::ServiceAnswer> read_services(std::span<const unsigned char> message) {
  constexpr std::uint16_t type_srv = 33;
  MessageReader reader(message);
  reader.skip(4);
  const std::uint16_t questions = reader.number();
  const std::uint16_t records = reader.number();
  reader.skip(4);
  for (std::uint16_t i = 0; i < questions && reader.good(); ++i) {
    reader.name();
    reader.skip(4);
  }
  Resolver::ServiceAnswer answer{.services = {}, .ttl = forever};
  for (std::uint16_t i = 0; i < records && reader.good(); ++i) {
    reader.name();
    const std::uint16_t type = reader.number();
    reader.skip(2);
    const std::uint32_t ttl = std::uint32_t{reader.number()} << 16 | reader.number();
    const std::uint16_t size = reader.number();
    if (type != type_srv) {
      reader.skip(size);
      continue;
    }
    Resolver::Service service;
    service.priority = reader.number();
    service.weight = reader.number();
    service.port = reader.number();
    service.host = normal_host(reader.name());
    if (!reader.good()) return std::nullopt;
    answer.ttl = std::min<Duration>(answer.ttl, std::chrono::seconds(ttl));
    // "." says that there is no such service.
    if (!service.host.empty()) answer.services.push_back(std::move(service));
  }
  if (!reader.good()) return std::nullopt;
  return answer;
}

Endpoint endpoint_of(const sockaddr* address, socklen_t size) {
  Endpoint endpoint;
  std::memcpy(&endpoint.storage, address, size);
  endpoint.size = size;
  return endpoint;
}

}  // namespace

/// The sockets of c-ares are in a level-triggered epoll of their own, which is in the loop's:
/// c-ares need not read them until they are empty.
struct Resolver::State {
  explicit State(Loop& home, std::vector<Address> given) : loop(home), servers(std::move(given)) {}
  ~State() {
    pumping.drop();
    if (channel != nullptr) ares_destroy(channel);
    watch.release();
    if (sockets >= 0) close(sockets);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  Result<Done> open();
  Task<void> pump();
  void read_all();
  void begin(std::shared_ptr<Query> query);
  void begin_waiting();
  void begin_burst() {
    begun = 0;
    begin_waiting();
  }
  static void socket_changed(void* self, int fd, int readable, int writable);
  static void answered(void* query, int status, int timeouts, ares_addrinfo* found);
  static void services_answered(void* query, int status, int timeouts, unsigned char* message,
                                int size);

  Loop& loop;
  std::vector<Address> servers;
  ares_channel channel = nullptr;
  int sockets = -1;
  Watch watch;
  Task<void> pumping;
  std::deque<std::shared_ptr<Query>> waiting;
  int begun = 0;  // of this burst
  MethodTimer<&State::begin_burst> next_burst{*this};
};

namespace {

/// True for "localhost" and the names below it, which never reach a name server (RFC 6761, section
/// 6.3).
bool is_localhost(std::string_view host) {
  const std::string name = normal_host(host);
  return name == "localhost" || name.ends_with(".localhost");
}

Error unusable(std::string why) {
  return Error{.fault = Fault::internal, .detail = "cannot look up host names: " + std::move(why)};
}

}  // namespace

Result<Done> Resolver::State::open() {
  static const int library = ares_library_init(ARES_LIB_INIT_ALL);
  if (library != ARES_SUCCESS) return unusable(ares_strerror(library));
  if (sockets < 0) sockets = epoll_create1(EPOLL_CLOEXEC);
  if (sockets < 0) return unusable(refusal_text("epoll_create", errno));
  if (watch.fd() < 0 && !watch.try_open(loop, sockets)) {
    return unusable(refusal_text("epoll_ctl", errno));
  }
  ares_options options{};
  options.timeout = query_timeout_ms;
  options.tries = tries;
  options.sock_state_cb = &State::socket_changed;
  options.sock_state_cb_data = this;
  const int made = ares_init_options(&channel, &options,
                                     ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_SOCK_STATE_CB);
  if (made != ARES_SUCCESS) return unusable(ares_strerror(made));
  if (!servers.empty()) {
    std::string list;
    for (const Address& server : servers) {
      list += (list.empty() ? "" : ",") + to_string(server);
    }
    const int set = ares_set_servers_ports_csv(channel, list.c_str());
    if (set != ARES_SUCCESS) return unusable(ares_strerror(set));
  }
  pumping = pump();
  return Done{};
}

void Resolver::State::socket_changed(void* self, int fd, int readable, int writable) {
  auto& state = *static_cast<State*>(self);
  epoll_event event{};
  event.data.fd = fd;
  if (readable != 0) event.events |= EPOLLIN;
  if (writable != 0) event.events |= EPOLLOUT;
  if (event.events == 0) {
    epoll_ctl(state.sockets, EPOLL_CTL_DEL, fd, nullptr);
  } else if (epoll_ctl(state.sockets, EPOLL_CTL_MOD, fd, &event) != 0) {
    epoll_ctl(state.sockets, EPOLL_CTL_ADD, fd, &event);
  }
}

/// Runs while the resolver lives: reads answers and expires queries.
Task<void> Resolver::State::pump() {
  while (true) {
    timeval left{};
    const timeval* next = ares_timeout(channel, nullptr, &left);
    const Instant deadline = next == nullptr ? never
                                             : loop.now() + std::chrono::seconds(next->tv_sec) +
                                                   std::chrono::microseconds(next->tv_usec);
    auto wake = co_await watch.until_readable(deadline);
    if (wake == Wake::expired) ares_process_fd(channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
    if (wake != Wake::ready) continue;
    read_all();
    if (watch.readable()) co_await loop.yield();
  }
}

void Resolver::State::read_all() {
  constexpr int max_rounds = 64;  // then the loop's other work runs
  std::array<epoll_event, 16> events;
  for (int round = 0; round < max_rounds; ++round) {
    const int count = epoll_wait(sockets, events.data(), static_cast<int>(events.size()), 0);
    if (count <= 0) {
      watch.mark_not_readable();
      return;
    }
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      const bool in = (event.events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0;
      const bool out = (event.events & EPOLLOUT) != 0;
      ares_process_fd(channel, in ? event.data.fd : ARES_SOCKET_BAD,
                      out ? event.data.fd : ARES_SOCKET_BAD);
    }
  }
}

void Resolver::State::begin(std::shared_ptr<Query> query) {
  waiting.push_back(std::move(query));
  begin_waiting();
}

void Resolver::State::begin_waiting() {
  if (waiting.empty()) return;
  for (; !waiting.empty() && begun < max_begun_at_once; waiting.pop_front()) {
    const std::shared_ptr<Query>& query = waiting.front();
    if (query->abandoned) continue;
    ++begun;
    if (query->family == no_family) {
      constexpr int class_in = 1;
      constexpr int type_srv = 33;
      ares_query(channel, query->host.c_str(), class_in, type_srv, &State::services_answered,
                 new std::shared_ptr<Query>(query));
      continue;
    }
    ares_addrinfo_hints hints{};
    hints.ai_family = query->family;
    hints.ai_socktype = SOCK_STREAM;
    ares_getaddrinfo(channel, query->host.c_str(), nullptr, &hints, &State::answered,
                     new std::shared_ptr<Query>(query));
  }
  watch.interrupt();  // `pump` now has to wait for the timeouts of these too
  if (begun > 0 && !next_burst.armed()) next_burst.arm(loop, loop.now() + burst_interval);
}

void Resolver::State::answered(void* argument, int status, int, ares_addrinfo* found) {
  const std::unique_ptr<std::shared_ptr<Query>> owned(
      static_cast<std::shared_ptr<Query>*>(argument));
  Query& query = **owned;
  query.status = status;
  if (found != nullptr) {
    auto& addresses = query.answer.addresses;
    int ttl = std::numeric_limits<int>::max();
    for (const ares_addrinfo_node* at = found->nodes; at != nullptr; at = at->ai_next) {
      const Endpoint endpoint = endpoint_of(at->ai_addr, at->ai_addrlen);
      if (std::find(addresses.begin(), addresses.end(), endpoint) == addresses.end()) {
        addresses.push_back(endpoint);
      }
      ttl = std::min(ttl, at->ai_ttl);
    }
    query.answer.ttl = std::chrono::seconds(ttl);
    ares_freeaddrinfo(found);
  }
  if (!query.abandoned) query.answered.raise();
}

void Resolver::State::services_answered(void* argument, int status, int, unsigned char* message,
                                        int size) {
  const std::unique_ptr<std::shared_ptr<Query>> owned(
      static_cast<std::shared_ptr<Query>*>(argument));
  Query& query = **owned;
  query.status = status;
  if (status == ARES_SUCCESS) {
    auto services = read_services({message, static_cast<std::size_t>(size)});
    if (!services) query.status = ARES_EBADRESP;
    if (services) query.services = std::move(*services);
  }
  if (!query.abandoned) query.answered.raise();
}

Resolver::Resolver(Loop& loop, std::vector<Address> servers)
    : state_(std::make_unique<State>(loop, std::move(servers))) {}

Resolver::~Resolver() = default;

/// A lookup whose caller waits.
struct Resolver::PendingQuery {
  std::shared_ptr<Query> query;
  ~PendingQuery() { query->abandoned = true; }
};

Task<Result<Resolver::Answer>> Resolver::lookup(std::string host, std::uint16_t port) {
  auto lookup_v4 = lookup(host, port, Family::v4);
  auto lookup_v6 = lookup(host, port, Family::v6);
  auto v4 = co_await lookup_v4;
  auto v6 = co_await lookup_v6;
  if (!v4 && (!v6 || v6->addresses.empty())) co_return v4;
  if (!v6 && v4->addresses.empty()) co_return v6;
  if (!v4) co_return v6;
  if (!v6) co_return v4;
  auto& addresses = v4->addresses;
  addresses.insert(addresses.end(), v6->addresses.begin(), v6->addresses.end());
  v4->ttl = std::min(v4->ttl, v6->ttl);
  co_return v4;
}

Task<Result<Resolver::Answer>> Resolver::lookup(std::string host, std::uint16_t port,
                                                Family family) {
  const int af = family == Family::v4 ? AF_INET : AF_INET6;
  if (parse_ip(host)) {
    auto literal = resolve(host, port);
    if (!literal) co_return std::move(literal.error());
    std::erase_if(*literal, [af](const Endpoint& each) { return each.family() != af; });
    co_return Answer{.addresses = std::move(*literal), .ttl = forever};
  }
  // Not through c-ares: version 1.18 leaks the name with each lookup of it.
  if (is_localhost(host)) {
    auto loopback = resolve(family == Family::v4 ? "127.0.0.1" : "::1", port);
    if (!loopback) co_return std::move(loopback.error());
    co_return Answer{.addresses = std::move(*loopback), .ttl = forever};
  }
  PendingQuery pending{std::make_shared<Query>(state_->loop, host, af)};
  auto done = co_await run(pending);
  if (!done) co_return std::move(done.error());
  for (Endpoint& each : pending.query->answer.addresses) each.set_port(port);
  co_return std::move(pending.query->answer);
}

Task<Result<Resolver::ServiceAnswer>> Resolver::find_services(std::string name) {
  PendingQuery pending{std::make_shared<Query>(state_->loop, name, no_family)};
  auto done = co_await run(pending);
  if (!done) co_return std::move(done.error());
  co_return std::move(pending.query->services);
}

/// Sends the query and waits for its answer. That there is nothing of that name is one.
Task<Result<Done>> Resolver::run(PendingQuery& pending) {
  if (state_->channel == nullptr) {
    auto opened = state_->open();
    if (!opened) co_return std::move(opened.error());
  }
  Query& query = *pending.query;
  state_->begin(pending.query);
  co_await query.answered.wait();

  if (query.status == ARES_ENOTFOUND || query.status == ARES_ENODATA) {
    query.answer.addresses.clear();
    query.services.services.clear();
    co_return Done{};
  }
  if (query.status != ARES_SUCCESS) {
    co_return Error{
        .fault = Fault::connect_failed,
        .side = Side::backend,
        .detail = "cannot resolve '" + query.host + "': " + ares_strerror(query.status)};
  }
  co_return Done{};
}

}  // namespace evenkeel
