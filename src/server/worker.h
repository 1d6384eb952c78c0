// One thread, one loop, one listening socket per listener: connections live and die here.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <thread>
#include <vector>

#include "evenkeel/base/loop.h"
#include "evenkeel/config/config.h"
#include "evenkeel/filter/access.h"
#include "evenkeel/net/listener.h"
#include "evenkeel/proxy/plan.h"
#include "evenkeel/stats/sheet.h"
#include "evenkeel/wire/frontend.h"

namespace evenkeel {

class Worker final : public Host {
 public:
  Worker(unsigned index, Sheets& sheets, LineRing* ring);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() override;

  // ---- before `start`, or on the worker's own thread ----

  /// The plan of requests that begin from now on.
  void adopt(const Config& config, std::shared_ptr<const Fleet> fleet);
  /// Takes over a bound socket.
  void listen(const ListenerConfig& config, int fd);

  /// `peers`: all workers, this one too; outlive the thread.
  void start(const std::vector<std::unique_ptr<Worker>>& peers);

  // ---- from any thread ----

  Loop& loop() { return loop_; }
  std::uint32_t connections() const { return connections_.load(std::memory_order_relaxed); }
  /// Closes the listeners and what is idle; the rest ends with its request.
  void begin_drain();
  /// Ends the thread, and with it every connection that is left.
  void stop();

  // ---- Host ----

  std::shared_ptr<Handler> plan() override { return plan_; }
  void refused(const Refusal& refusal) override;
  bool draining() const override { return draining_; }
  WaiterList& idle_connections() override { return idle_; }
  void watch_drain(Waiter& waiter) override { drain_watchers_.add(waiter); }
  void closed(const FrontendOptions& listener) override;

 private:
  struct Port {
    FrontendOptions options;
    std::vector<Cidr> proxies;  // who must begin with a PROXY header
    Duration handshake_timeout;
    std::uint32_t most_connections;
    std::uint32_t index;  // of Names
    std::unique_ptr<Listener> listener;
  };

  /// A connection before HTTP, at its PROXY header or its handshake; woken to make room.
  struct Beginning : Waiter {
    Beginning(Worker& owner, Watch& watched)
        : Waiter([](Waiter& self) {
            auto& beginning = static_cast<Beginning&>(self);
            beginning.made_room = true;
            beginning.watch.interrupt();
          }),
          worker(owner),
          watch(watched) {
      ++worker.beginnings_;
      worker.beginning_.add(*this);
    }
    ~Beginning() { --worker.beginnings_; }
    Worker& worker;
    Watch& watch;
    bool made_room = false;
  };

  class HandedOver {
   public:
    HandedOver(Worker& to, int fd);
    HandedOver(const HandedOver&) = delete;
    ~HandedOver();
    int take() { return std::exchange(fd_, -1); }

   private:
    Worker& worker_;
    int fd_;
  };

  void accept(Port& port, int fd, const Endpoint& peer);
  void serve(Port& port, int fd, const Endpoint& peer);
  Task<void> open(Port& port, std::unique_ptr<Socket> socket, Endpoint peer, bool named_by_proxy,
                  std::shared_ptr<const TlsServer> tls);
  void close_idle(int count);
  Worker& least_busy();

  const unsigned index_;
  const int first_scarce_descriptor_;
  Sheets& sheets_;
  Sheet& sheet_;
  Loop loop_;
  Ledger ledger_;
  WaiterList idle_;
  WaiterList drain_watchers_;
  std::shared_ptr<Plan> plan_;
  std::list<Port> ports_;
  std::atomic<std::uint32_t> connections_{0};
  unsigned beginnings_ = 0;
  WaiterList beginning_;  // the oldest first
  bool draining_ = false;
  const std::vector<std::unique_ptr<Worker>>* peers_ = nullptr;
  std::thread thread_;
};

}  // namespace evenkeel
