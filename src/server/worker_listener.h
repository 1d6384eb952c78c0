// One listener as one worker serves it: its socket, its settings for clients, its connections.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "evenkeel/base/loop.h"
#include "evenkeel/base/overload.h"
#include "evenkeel/config/config.h"
#include "evenkeel/net/listener.h"
#include "evenkeel/net/socket.h"
#include "evenkeel/wire/frontend.h"
#include "server/client_connections.h"
#include "server/listener_assignment.h"

namespace evenkeel {

class Worker;

/// Why a listener accepts no more connections in this process.
enum class Retire : std::uint8_t {
  closing,      ///< its sockets close with it
  handed_over,  ///< another process accepts from the same sockets
};

/// Lives while its listener is configured, and until its last connection has ended. A reload may
/// change its settings; connections keep those that they began with.
///
/// Thread: its worker's. Outlives its connections.
class WorkerListener final {
 public:
  /// `idle`: follows its idle connections; outlives it.
  WorkerListener(Worker& worker, const ListenerAssignment::Entry& entry, BySize<IdleSummary>& idle);
  WorkerListener(const WorkerListener&) = delete;
  WorkerListener& operator=(const WorkerListener&) = delete;
  ~WorkerListener();

  /// Accepts from bound sockets, which it owns from now on. Where memory ran out, the same sockets
  /// once more: it goes on with those that it has not opened.
  void open(const std::vector<int>& fds);
  /// Sets what applies to connections that begin from now on.
  void update(const ListenerConfig& config);
  /// Takes the TLS context of the worker's new plan for connections that begin from now on.
  void refresh_tls();
  /// Accepts what the kernel has queued, then nothing more. Closes idle connections, and after 1 s
  /// those without a complete request head; the others end after their requests. A listener that
  /// was handed over closes idle connections after 5 s: a client that uses its connection again by
  /// then gets a response that closes it, and none sends a request into a connection that has just
  /// been closed.
  void retire(Retire how);
  bool retired() const { return retired_; }
  /// True if no connection is left.
  bool empty() const;

  ListenerId id() const { return id_; }
  const std::string& name() const { return settings_.back().config.name; }
  /// Limit of connections over all workers; 0: none.
  std::uint32_t max_connections() const { return settings_.back().config.limits.max_connections; }
  /// The listener's index in the metrics' LabelIndex.
  std::uint32_t index() const { return settings_.back().index; }

  /// Serves an accepted connection, which the worker has counted.
  void serve(int fd, const Endpoint& peer);

  /// The size of the client of a connection that has not been served yet.
  ClientSize size_of(const Endpoint& peer) const;
  /// Closes the connection of clients of this size that is idle longest; false: none is, or not
  /// since before `idle_before`.
  bool shed_idle(ClientSize size, ShedReason reason, Instant idle_before = never);
  /// Closes a share of its idle connections, those of large clients first, then those that are idle
  /// longest.
  void shed_idle_share(double share, ShedReason reason);
  /// Closes the connection of clients of this size that is longest in its PROXY header or
  /// handshake, if it began before `begun_before`. False: there is none.
  bool shed_handshake(ClientSize size, ShedReason reason, Instant begun_before);
  void count_shed(ShedReason reason) const;
  /// Ends the pause after `Worker::make_room` found none, soon.
  void resume_accepting();

 private:
  /// The settings of the connections that began between two updates, and what they call back.
  struct ListenerSettings final : FrontendCallbacks {
    ListenerSettings(WorkerListener& owner, const ListenerConfig& listener_config);

    std::shared_ptr<Handler> plan() override;
    void refused(const Refusal& refusal) override;
    bool draining() const override { return listener.retired_; }
    bool closes_idle() const override { return listener.closes_idle_; }
    IdleList& idle_connections(ClientNumber client) override {
      return listener.idle_.of(listener.clients_->size_of(client));
    }
    void watch_drain(Waiter& waiter) override { listener.drain_watchers_.add(waiter); }
    void closed(const ListenerConfig&, ClientNumber client) override;
    /// 0 for one that speaks for many clients.
    ClientNumber number_of(const Endpoint& peer) const;

    WorkerListener& listener;
    ListenerConfig config;
    std::vector<Cidr> proxy_protocol_sources;  ///< peers that must begin with a PROXY header
    std::vector<Cidr> trusted_proxies;         ///< peers that speak for many clients
    std::uint32_t index;                       ///< in the LabelIndex
    std::uint32_t connections = 0;
  };

  /// A connection before HTTP, in its PROXY header or handshake; woken to make room, and in a
  /// drain.
  struct PendingHandshake {
    PendingHandshake(WorkerListener& owner, Watch& watched, ClientNumber client)
        : listener(owner), watch(watched) {
      enter(client);
    }
    void enter(ClientNumber client) {
      const ClientSize size = listener.clients_->size_of(client);
      listener.pending_handshakes_.of(size).add(waiter, watch.loop().now());
    }
    void evict() {
      evicted = !listener.retired_;  // in a drain it has timed out
      watch.interrupt();
    }
    WorkerListener& listener;
    Watch& watch;
    bool evicted = false;
    MethodEvent<IdleWaiter, &PendingHandshake::evict> waiter{*this};
  };

  void drop_unused_settings();
  void end_handshakes();
  bool make_room_for_handshake(ClientSize size);
  void end_idle();
  Duration limit_in_drain(Duration timeout) const;
  void serve_http(ListenerSettings& settings, std::unique_ptr<Socket> socket, const Endpoint& peer,
                  ClientNumber client);
  Task<void> begin(ListenerSettings& settings, std::unique_ptr<Socket> socket, Endpoint peer,
                   ClientNumber client, bool expects_proxy_header,
                   std::shared_ptr<const TlsServerContext> tls);
  void count_handshake(const ListenerSettings& settings, TlsOutcome outcome);
  Task<bool> accept_tls(ListenerSettings& settings, std::unique_ptr<Socket>& socket,
                        std::optional<PendingHandshake>& pending,
                        std::shared_ptr<const TlsServerContext> tls);

  Worker& worker_;
  const ListenerId id_;
  std::list<ListenerSettings> settings_;  // the current ones last; the others have connections
  // The certificates for connections that begin from now on; null: plaintext. Kept when the plan
  // has this listener no more: connections that are accepted late are served as the earlier ones
  // were.
  std::shared_ptr<const TlsServerContext> tls_;
  std::list<Listener> listeners_;
  std::size_t opened_ = 0;  // sockets
  const std::shared_ptr<ClientConnections> clients_;
  BySize<IdleList> idle_;
  WaiterList drain_watchers_;
  BySize<IdleList> pending_handshakes_;  // the oldest first
  bool retired_ = false;
  bool closes_idle_ = false;
  MethodTimer<&WorkerListener::end_handshakes> handshake_drain_{*this};
  MethodTimer<&WorkerListener::end_idle> idle_drain_{*this};
};

}  // namespace evenkeel
