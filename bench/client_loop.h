#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench/message_scan.h"
#include "bench/sockets.h"

namespace evenkeel::bench {

struct Finished {
  int status = 0;
  std::uint64_t began_ns = 0;
  std::uint64_t ended_ns = 0;
};

// What the clients ask and what becomes of the answers.
class Mode {
 public:
  virtual ~Mode() = default;

  // The next whole request message of this client, or null: it stays connected and idle. The
  // message must live until the answer is in.
  virtual const std::string* next_request(std::size_t client) = 0;

  virtual void on_payload(std::size_t client, std::string_view bytes) = 0;
  virtual void on_finished(std::size_t client, const Finished& finished) = 0;
};

struct Failures {
  std::uint64_t connect = 0;      // refused or reset before the connection stood
  std::uint64_t closed = 0;       // the connection ended inside an exchange
  std::uint64_t closed_idle = 0;  // the connection ended between exchanges, unannounced
  std::uint64_t protocol = 0;     // an answer that is not HTTP/1.1

  std::uint64_t of_requests() const { return connect + closed + protocol; }
};

// Clients with one keep-alive connection each and at most one request in flight on it, on one
// edge-triggered epoll. A client whose connection ends is connected again at once (after a tick
// when connecting failed).
class ClientLoop {
 public:
  explicit ClientLoop(const sockaddr_in& peer);

  void open(std::size_t count);  // more clients, numbered from 0
  void run(Mode& mode, std::uint64_t deadline_ns, int stop_when_readable = -1);
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
    BodyScan body = BodyScan::none();
    Finished finished;
  };

  enum class Progress { kMore, kBlocked, kLost };

  void connect(std::size_t index);
  void lose(std::size_t index, std::uint64_t& counter);
  void lose_unanswered(std::size_t index);
  void advance(Mode& mode, std::size_t index);
  bool connected(std::size_t index);
  Progress ask(Mode& mode, std::size_t index);
  Progress send_some(std::size_t index);
  Progress receive_some(Mode& mode, std::size_t index);
  Progress take(Mode& mode, std::size_t index, std::string_view bytes);
  bool take_head(Client& client, std::string_view& bytes);
  Progress finish(Mode& mode, std::size_t index);
  void reconnect_broken(Mode& mode);

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
