#pragma once

#include <netinet/in.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace evenkeel::bench {

// Owns a file descriptor.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void reset();

 private:
  int release();
  int fd_ = -1;
};

std::uint64_t monotonic_ns();  // CLOCK_MONOTONIC, the same in all processes of the machine

// "127.0.0.1:8080"; ends the program on anything else.
sockaddr_in parse_address(std::string_view text);
std::string to_text(const sockaddr_in& address);

// Both are non-blocking with TCP_NODELAY. listen_on ends the program when it fails;
// connect_to may return while connecting (wait for EPOLLOUT), or no descriptor.
FileDescriptor listen_on(const sockaddr_in& address);
FileDescriptor accept_from(int listener);

// kNarrow: a small receive buffer and segments of Ethernet size, like a slow client over a network.
// With loopback's 64 KiB segments the kernel would buffer megabytes per connection.
enum class Path { kLoopback, kNarrow };
FileDescriptor connect_to(const sockaddr_in& address, Path path = Path::kLoopback);

sockaddr_in bound_address(int fd);

void raise_file_limit();  // the soft limit up to the hard one, and beyond where permitted
[[noreturn]] void exit_with_errno(std::string_view what);  // with the text of errno

}  // namespace evenkeel::bench
