#include "bench/slow_readers.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace evenkeel::bench {
namespace {

constexpr std::size_t kMaxOpening = 50;
constexpr int kOpeningPauseMs = 10;

bool would_block() { return errno == EAGAIN || errno == ENOTCONN; }

}  // namespace

SlowReaders::SlowReaders(const sockaddr_in& peer, std::string request, Pace pace)
    : peer_(peer), request_(std::move(request)), pace_(pace) {}

bool SlowReaders::open(std::size_t count, std::uint64_t deadline_ns) {
  readers_.reserve(count);
  while (responding_ + lost_ < count && monotonic_ns() < deadline_ns) {
    for (std::size_t i = 0; i < kMaxOpening && readers_.size() < count; ++i) {
      readers_.push_back({.fd = connect_to(peer_, Path::kNarrow)});
      if (!readers_.back().fd) ++lost_;
    }
    tick();
    poll(nullptr, 0, kOpeningPauseMs);
  }
  return responding_ == count;
}

void SlowReaders::hold(std::uint64_t deadline_ns, int stop_when_readable) {
  pollfd stop{.fd = stop_when_readable, .events = POLLIN, .revents = 0};
  while (monotonic_ns() < deadline_ns) {
    if (poll(&stop, 1, static_cast<int>(pace_.tick_ns / 1'000'000)) > 0) return;
    tick();
  }
}

void SlowReaders::tick() {
  for (Reader& reader : readers_) {
    if (reader.fd) advance(reader);
  }
}

void SlowReaders::advance(Reader& reader) {
  if (!reader.request_sent) {
    const ssize_t sent = send(reader.fd.get(), request_.data(), request_.size(), MSG_NOSIGNAL);
    reader.request_sent = sent == static_cast<ssize_t>(request_.size());
    if (sent < 0 && !would_block()) {
      ++lost_;
      reader.fd.reset();
    }
    return;
  }
  std::array<char, 4096> bytes;
  const ssize_t got =
      recv(reader.fd.get(), bytes.data(), std::min(bytes.size(), pace_.bytes_per_tick), 0);
  if (got > 0) {
    bytes_read_ += static_cast<std::uint64_t>(got);
    responding_ += reader.response_started ? 0 : 1;
    reader.response_started = true;
  } else if (got == 0 || !would_block()) {
    ++lost_;
    reader.fd.reset();
  }
}

}  // namespace evenkeel::bench
