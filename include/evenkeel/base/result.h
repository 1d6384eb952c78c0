// Errors are values: what went wrong, on which side, and whether the request may be sent again.
#pragma once

#include <cassert>
#include <cstdint>
#include <new>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace evenkeel {

/// What went wrong. Each fault has one stable word (`to_string`), used in the log, in
/// `evenkeel_errors_total{reason}` and in `x-evenkeel-reason`; the status of each is in
/// http/status.h.
enum class Fault : std::uint8_t {
  bad_request,
  uri_too_long,
  header_too_large,
  body_too_large,
  header_timeout,
  body_timeout,
  expectation_failed,
  method_not_allowed,
  not_implemented,
  version_not_supported,
  unauthorized,        ///< it has no credential that counts
  model_not_allowed,   ///< its credential is not for this model
  tenant_not_allowed,  ///< its tenant may not use this route, or this method
  no_route,
  model_not_found,
  session_lost,  ///< it goes on from what only one backend knows, and that one is gone
  no_backend,
  queue_full,
  queue_timeout,
  connect_failed,
  connect_timeout,
  tls_failed,
  first_byte_timeout,
  idle_timeout,
  deadline_exceeded,
  backend_closed,
  backend_protocol,
  stream_error,  ///< the backend reported an error within its stream
  server_error,  ///< an answer of 5xx that was not passed on: the request was sent again
  overloaded,    ///< the same, of 429 or 503; with Side::proxy: no descriptor, memory or local port
                 ///< was left for a connection to a backend
  client_gone,
  rate_limited,    ///< the tenant is at a limit of a second, minute or hour, or of concurrent
                   ///< requests
  quota_exceeded,  ///< the tenant has used up its amount of a day or month
  over_budget,     ///< the pool has used up what it may
  flood,
  write_timeout,
  draining,
  out_of_memory,  ///< refused because memory is scarce
  internal,
};

inline constexpr int fault_count = static_cast<int>(Fault::internal) + 1;

/// The stable word of a fault, such as "queue_full".
const char* to_string(Fault fault);

/// The side that caused an error.
enum class Side : std::uint8_t { client, backend, proxy };

struct Error {
  Fault fault = Fault::internal;
  Side side = Side::proxy;
  /// True if the backend did not act on the request: it may be sent to another one.
  bool not_processed = false;
  /// True if the reused connection closed before any response: the request was probably not
  /// processed.
  bool idle_close_race = false;
  /// The time after which a refused client should come back, in milliseconds; 0: not known;
  /// `never`: the same request will always be refused.
  std::uint32_t retry_after_ms = 0;
  static constexpr std::uint32_t never = 0xffff'ffff;
  bool counts_tokens = false;  ///< of `rate_limited`: the limit is one of tokens
  /// The HTTP/2 error code with which the backend reset the stream (RFC 9113, section 7).
  std::optional<std::uint32_t> reset_code = std::nullopt;
  /// True if the backend ended the request after it had waited for more of it from the client.
  bool awaited_client = false;
  std::string detail = {};  ///< for the log and for people; never parsed
};

/// A value or an Error.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : ok_(true) { new (&value_) T(std::move(value)); }  // NOLINT(*-explicit-*)
  Result(Error error) : ok_(false) {
    new (&error_) Error(std::move(error));
  }  // NOLINT(*-explicit-*)
  Result(Result&& other) noexcept : ok_(other.ok_) { take(std::move(other)); }
  Result& operator=(Result&& other) noexcept {
    if (this != &other) {
      clear();
      ok_ = other.ok_;
      take(std::move(other));
    }
    return *this;
  }
  ~Result() { clear(); }

  explicit operator bool() const { return ok_; }
  bool ok() const { return ok_; }

  T& operator*() { return assert(ok_), value_; }
  const T& operator*() const { return assert(ok_), value_; }
  T* operator->() { return assert(ok_), &value_; }
  const T* operator->() const { return assert(ok_), &value_; }
  Error& error() { return assert(!ok_), error_; }
  const Error& error() const { return assert(!ok_), error_; }

 private:
  // Errors are rare and not small: what moves and destroys them is not part of the code that moves
  // and destroys values, which is inlined then.
  void take(Result&& other) {
    if (ok_) [[likely]] {
      new (&value_) T(std::move(other.value_));
    } else {
      take_error(other.error_);
    }
  }
  void clear() {
    if (ok_) [[likely]] {
      value_.~T();
    } else {
      clear_error();
    }
  }
  [[gnu::cold, gnu::noinline]] void take_error(Error& error) {
    new (&error_) Error(std::move(error));
  }
  [[gnu::cold, gnu::noinline]] void clear_error() { error_.~Error(); }

  bool ok_;
  union {
    T value_;
    Error error_;
  };
};

/// The value of a Result that only says that something succeeded.
struct Done {};

}  // namespace evenkeel
