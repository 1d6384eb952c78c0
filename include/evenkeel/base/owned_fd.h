// A descriptor that is closed with its owner.
#pragma once

#include <unistd.h>

#include <utility>

namespace evenkeel {

class OwnedFd {
 public:
  OwnedFd() = default;
  explicit OwnedFd(int fd) : fd_(fd) {}
  OwnedFd(OwnedFd&& other) noexcept : fd_(other.take()) {}
  OwnedFd& operator=(OwnedFd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = other.take();
    }
    return *this;
  }
  ~OwnedFd() { reset(); }

  int get() const { return fd_; }
  /// The caller owns it from now on.
  int take() { return std::exchange(fd_, -1); }

 private:
  void reset() {
    if (fd_ >= 0) close(take());
  }

  int fd_ = -1;  // -1: none
};

}  // namespace evenkeel
