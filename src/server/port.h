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
class Port final : public Host {
 public:
  Port(Worker& worker, std::uint32_t number, const ListenerConfig& config);
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;
  ~Port() override;

  /// Accepts from a bound socket, which it owns.
  void open(int fd);
  /// What holds for connections that begin from now on.
  void change(const ListenerConfig& config);
  /// The worker has another plan, with other certificates perhaps.
  void renew_tls();
  /// Accepts nobody any more, once those are in who were connected already. What is idle is closed,
  /// the rest ends with its request.
  void retire();
  bool retired() const { return retired_; }
  /// Nobody is connected any more.
  bool empty() const;

  std::uint32_t number() const { return number_; }
  const std::string& name() const { return terms_.back().options.listener; }
  /// Most connections over all workers; 0: no limit.
  std::uint32_t most_connections() const { return terms_.back().most_connections; }
  std::uint32_t index() const { return terms_.back().index; }

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
  struct Terms {
    FrontendOptions options;
    std::vector<Cidr> proxies;  // who must begin with a PROXY header
    Duration handshake_timeout;
    std::uint32_t most_connections;
    std::uint32_t index;  // of Names
    std::uint32_t connections = 0;
  };

  /// A connection before HTTP, at its PROXY header or its handshake; woken to make room.
  struct Beginning : Waiter {
    Beginning(Port& owner, Watch& watched)
        : Waiter([](Waiter& self) {
            auto& beginning = static_cast<Beginning&>(self);
            beginning.made_room = true;
            beginning.watch.interrupt();
          }),
          port(owner),
          watch(watched) {
      ++port.beginnings_;
      port.beginning_.add(*this);
    }
    ~Beginning() { --port.beginnings_; }
    Port& port;
    Watch& watch;
    bool made_room = false;
  };

  Terms terms_of(const ListenerConfig& config) const;
  void forget_old_terms();
  Task<void> begin(Terms& terms, std::unique_ptr<Socket> socket, Endpoint peer, bool named_by_proxy,
                   std::shared_ptr<const TlsServer> tls);

  Worker& worker_;
  const std::uint32_t number_;
  std::list<Terms> terms_;  // the current ones last; the others have connections
  // How connections begin from now on; null: in the clear. Kept when the listener has left the
  // plan: who is still let in then is let in as those before.
  std::shared_ptr<const TlsServer> tls_;
  std::unique_ptr<Listener> listener_;
  WaiterList idle_;
  WaiterList drain_watchers_;
  unsigned beginnings_ = 0;
  WaiterList beginning_;  // the oldest first
  bool retired_ = false;
};

}  // namespace evenkeel
