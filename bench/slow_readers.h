#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/sockets.h"

namespace evenkeel::bench {

// Clients that request a large body over a small receive buffer and read a few bytes every tick.
class SlowReaders {
 public:
  struct Pace {
    std::size_t bytes_per_tick = 256;
    std::uint64_t tick_ns = 100'000'000;
  };

  SlowReaders(const sockaddr_in& peer, std::string request, Pace pace);

  // Opens them a few at a time. True: each received its first bytes before the deadline.
  bool open(std::size_t count, std::uint64_t deadline_ns);

  // Reads slowly until the deadline, or until `stop_when_readable` becomes readable.
  void hold(std::uint64_t deadline_ns, int stop_when_readable);

  std::uint64_t bytes_read() const { return bytes_read_; }
  std::size_t lost() const { return lost_; }

 private:
  struct Reader {
    FileDescriptor fd;
    bool request_sent = false;
    bool response_started = false;
  };

  void tick();
  void advance(Reader& reader);

  const sockaddr_in peer_;
  const std::string request_;
  const Pace pace_;
  std::vector<Reader> readers_;
  std::size_t responding_ = 0;
  std::size_t lost_ = 0;
  std::uint64_t bytes_read_ = 0;
};

}  // namespace evenkeel::bench
