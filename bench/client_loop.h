#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench/http_parser.h"
#include "bench/sockets.h"

namespace evenkeel::bench {

struct CompletedExchange {
  int status = 0;
  std::uint64_t began_ns = 0;
  std::uint64_t ended_ns = 0;
};

// The requests of the clients, and what is done with the responses.
class Workload {
 public:
  virtual ~Workload() = default;

  // The next request message of this client, or null: the client stays connected and idle. The
  // message must live until the response is complete.
  virtual const std::string* next_request(std::size_t client) = 0;

  virtual void on_payload(std::size_t client, std::string_view bytes) = 0;
  virtual void on_finished(std::size_t client, const CompletedExchange& finished) = 0;
};

struct Failures {
  std::uint64_t connect = 0;      // refused or reset while connecting
  std::uint64_t closed = 0;       // the connection ended inside an exchange
  std::uint64_t closed_idle = 0;  // the connection ended between exchanges, without announcement
  std::uint64_t protocol = 0;     // a response that is not HTTP/1.1
};

// Clients with one keep-alive connection each and at most one request in flight on it, on one
// edge-triggered epoll. A client whose connection ends reconnects at once, or after a tick when
// connecting failed.
class ClientLoop {
 public:
  explicit ClientLoop(const sockaddr_in& peer);

  void open(std::size_t count);  // more clients, numbered from 0
  void run(Workload& workload, std::uint64_t deadline_ns, int stop_when_readable = -1);
  void stop() { stopped_ = true; }

  const Failures& failures() const { return failures_; }
  std::size_t in_flight() const;

 private:
  enum class Phase { kBroken, kConnecting, kIdle, kSending, kHead, kBody };

  struct Client {
    FileDescriptor fd;
    std::uint32_t serial = 0;
    Phase phase = Phase::kBroken;
    bool readable = false;
    bool close_after = false;
    std::string_view unsent;
    std::string partial_head;
    BodyParser body = BodyParser::none();
    CompletedExchange finished;
  };

  enum class Progress { kMore, kBlocked, kDisconnected };

  void connect(std::size_t index);
  void disconnect(std::size_t index, std::uint64_t& counter);
  void disconnect_unanswered(std::size_t index);
  void advance(Workload& workload, std::size_t index);
  bool connected(std::size_t index);
  Progress start_request(Workload& workload, std::size_t index);
  Progress send_some(std::size_t index);
  Progress receive_some(Workload& workload, std::size_t index);
  Progress take(Workload& workload, std::size_t index, std::string_view bytes);
  bool consume_head(Client& client, std::string_view& bytes);
  Progress finish(Workload& workload, std::size_t index);
  void reconnect_broken(Workload& workload);

  const sockaddr_in peer_;
  FileDescriptor poll_;
  std::vector<Client> clients_;
  std::vector<char> input_;
  std::size_t broken_ = 0;
  std::uint32_t last_serial_ = 0;
  Failures failures_;
  bool stopped_ = false;
};

}  // namespace evenkeel::bench
