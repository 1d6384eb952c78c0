// One listener as one worker serves it: its socket, what it asks of clients, its connections.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "evenkeel/base/loop.h"
#include "evenkeel/config/config.h"
#include "evenkeel/net/listener.h"
#include "evenkeel/net/socket.h"
#include "evenkeel/wire/frontend.h"

namespace evenkeel {

class Worker;

/// Stays while its listener stays in the file: what it asks of clients may change, for connections
/// that begin from then on. Thread: its worker's. Outlives its connections.
class WorkerListener final : public FrontendCallbacks {
 public:
  WorkerListener(Worker& worker, std::uint32_t number, const ListenerConfig& config);
  WorkerListener(const WorkerListener&) = delete;
  WorkerListener& operator=(const WorkerListener&) = delete;
  ~WorkerListener() override;

  /// Accepts from a bound socket, which it owns.
  void open(int fd);
  /// What holds for connections that begin from now on.
  void update(const ListenerConfig& config);
  /// The worker has another plan, with other certificates perhaps.
  void refresh_tls();
  /// Accepts nobody any more, once those are in who were connected already. What is idle is closed,
  /// the rest ends with its request.
  void retire();
  bool retired() const { return retired_; }
  /// Nobody is connected any more.
  bool empty() const;

  std::uint32_t number() const { return number_; }
  const std::string& name() const { return settings_.back().options.listener; }
  /// Most connections over all workers; 0: no limit.
  std::uint32_t max_connections() const { return settings_.back().max_connections; }
  std::uint32_t index() const { return settings_.back().index; }

  /// Serves an accepted connection, which the worker has counted.
  void serve(int fd, const Endpoint& peer);

  /// Closes connections to make room: those that have been at their PROXY header or handshake
  /// longest, then those that are idle longest. How many.
  int close_idle(int count);

  // ---- Host ----

  std::shared_ptr<Handler> plan() override;
  void refused(const Refusal& refusal) override;
  bool draining() const override { return retired_; }
  WaiterList& idle_connections() override { return idle_; }
  void watch_drain(Waiter& waiter) override { drain_watchers_.add(waiter); }
  void closed(const FrontendOptions& options) override;

 private:
  /// What a connection began under holds to its end.
  struct ListenerSettings {
    FrontendOptions options;
    std::vector<Cidr> proxy_protocol_sources;  // who must begin with a PROXY header
    Duration handshake_timeout;
    std::uint32_t max_connections;
    std::uint32_t index;  // of Names
    std::uint32_t connections = 0;
  };

  /// A connection before HTTP, at its PROXY header or its handshake; woken to make room.
  struct PendingHandshake : Waiter {
    PendingHandshake(WorkerListener& owner, Watch& watched)
        : Waiter([](Waiter& self) {
            auto& pending = static_cast<PendingHandshake&>(self);
            pending.evicted = true;
            pending.watch.interrupt();
          }),
          listener(owner),
          watch(watched) {
      ++listener.pending_handshake_count_;
      listener.pending_handshakes_.add(*this);
    }
    ~PendingHandshake() { --listener.pending_handshake_count_; }
    WorkerListener& listener;
    Watch& watch;
    bool evicted = false;
  };

  ListenerSettings make_settings(const ListenerConfig& config) const;
  void drop_unused_settings();
  Task<void> begin(ListenerSettings& settings, std::unique_ptr<Socket> socket, Endpoint peer,
                   bool expects_proxy_header, std::shared_ptr<const TlsServerContext> tls);

  Worker& worker_;
  const std::uint32_t number_;
  std::list<ListenerSettings> settings_;  // the current ones last; the others have connections
  // How connections begin from now on; null: in the clear. Kept when the listener has left the
  // plan: who is still let in then is let in as those before.
  std::shared_ptr<const TlsServerContext> tls_;
  std::unique_ptr<Listener> listener_;
  WaiterList idle_;
  WaiterList drain_watchers_;
  unsigned pending_handshake_count_ = 0;
  WaiterList pending_handshakes_;  // the oldest first
  bool retired_ = false;
};

}  // namespace evenkeel
