// The backends that one request was offered to.
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>

#include "evenkeel/base/clock.h"
#include "evenkeel/base/result.h"

namespace evenkeel {

/// Why a backend got a request.
enum class PickReason : std::uint8_t {
  picked,   ///< the pool's picker, or its scheduler, has chosen it
  session,  ///< the request's session is there
  waited,   ///< it had the first slot that became free
};
const char* to_string(PickReason reason);

/// One offer of a request to a backend.
struct AttemptRecord {
  std::string_view backend;    ///< its address
  Duration connect{};          ///< until a link was ready: dialling and TLS; near 0 on a kept link
  std::uint16_t status = 0;    ///< of an answer that was not passed on; 0: none
  std::optional<Fault> fault;  ///< why it failed; empty: it answered, or has not ended
  PickReason why = PickReason::picked;  ///< filled in where requests are traced
  Instant began{};                      ///< when the backend was picked
  Instant ended{};  ///< of one that failed or was replaced; else a default Instant
};

/// The attempts of one request, oldest first. Never allocates, and costs nothing for attempts that
/// are not made: unused items stay uninitialised.
class AttemptList {
 public:
  static constexpr std::size_t capacity = 10;

  AttemptList() {}  // NOLINT(*-use-equals-default)
  AttemptList(const AttemptList& other) : count_(other.count_) {
    std::uninitialized_copy_n(other.begin(), count_, items_.data());
  }
  AttemptList& operator=(const AttemptList& other) {
    if (this == &other) return *this;
    count_ = other.count_;
    std::uninitialized_copy_n(other.begin(), count_, items_.data());
    return *this;
  }
  ~AttemptList() = default;

  bool empty() const { return count_ == 0; }
  bool full() const { return count_ == capacity; }
  std::size_t size() const { return count_; }
  const AttemptRecord* begin() const { return items_.data(); }
  const AttemptRecord* end() const { return items_.data() + count_; }
  const AttemptRecord& operator[](std::size_t index) const { return items_[index]; }

  /// REQUIRES: !full().
  void add(const AttemptRecord& attempt) {
    assert(!full());
    std::construct_at(&items_[count_++], attempt);
  }
  /// The latest. REQUIRES: !empty().
  AttemptRecord& back() { return items_[count_ - 1]; }
  const AttemptRecord& back() const { return items_[count_ - 1]; }

 private:
  static_assert(std::is_trivially_destructible_v<AttemptRecord>);

  std::size_t count_ = 0;
  union {
    std::array<AttemptRecord, capacity> items_;
  };
};

}  // namespace evenkeel
