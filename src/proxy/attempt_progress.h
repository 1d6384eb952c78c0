// What the attempts of one request share: of Forwarder alone.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "evenkeel/http/credentials.h"
#include "evenkeel/pool/retry_budget.h"
#include "evenkeel/proxy/forwarder.h"
#include "evenkeel/scheduler/request_cost.h"

namespace evenkeel {

/// Replaces the client's credentials by the backend's own key, whatever fields and parameters they
/// are in, and restores them for a backend that has none, and when the request has its answer.
class Credentials {
 public:
  void apply_to(Request& request, std::string_view key) {
    if (replaced_ || !key.empty()) [[unlikely]]
      replace(request, key);
  }
  /// The request leaves the pool, whose keys are no other's.
  void restore(Request& request) { apply_to(request, {}); }

 private:
  [[gnu::noinline]] void replace(Request& request, std::string_view key) {
    if (!std::exchange(replaced_, !key.empty())) {
      take_from(request);
    } else {
      request.fields.remove(FieldId::authorization);  // another backend's key
    }
    if (!key.empty()) return request.fields.add("authorization", key, FieldId::authorization);
    give_back_to(request);
  }
  void take_from(Request& request) {
    Fields& fields = request.fields;
    std::string subprotocols;
    fields.remove_if([&](const Field& field) {
      if (!holds_credential(field)) return false;
      clients_.add(field);
      if (lists_credential(field.name(), field.value()))
        add_other_subprotocols(field.value(), subprotocols);
      return true;
    });
    if (!subprotocols.empty()) {
      subprotocols_ = fields.keep(subprotocols);
      fields.add(subprotocol_field, subprotocols_);
    }
    if (target_holds_credential(request.path)) {
      clients_path_ = request.path;
      request.path = fields.keep(target_without_credentials(request.path));
    }
  }
  void give_back_to(Request& request) {
    if (!subprotocols_.empty()) {
      request.fields.remove_if(
          [this](const Field& field) { return field.value_begin == subprotocols_.data(); });
      subprotocols_ = {};
    }
    for (const Field& field : clients_) request.fields.add(field);
    clients_.clear();
    if (!clients_path_.empty()) request.path = std::exchange(clients_path_, {});
  }

  bool replaced_ = false;
  Fields clients_;
  std::string_view clients_path_;  // empty: no credential is in it
  std::string_view subprotocols_;  // in place of a list with a key; empty: of none
};

/// What a retry that has not begun has taken from its pool's budget. Given back if it never does.
class PaidRetry {
 public:
  PaidRetry() = default;
  PaidRetry(const PaidRetry&) = delete;
  PaidRetry& operator=(const PaidRetry&) = delete;
  ~PaidRetry() {
    if (budget_ != nullptr) budget_->refund();
  }

  explicit operator bool() const { return budget_ != nullptr; }
  /// False: nothing is left. `budget` outlives it.
  bool take_from(RetryBudget& budget) {
    if (budget.withdraw()) budget_ = &budget;
    return budget_ != nullptr;
  }
  /// The retry is sent.
  void spend() { budget_ = nullptr; }

 private:
  RetryBudget* budget_ = nullptr;
};

/// What the attempts of one request share.
struct Forwarder::Progress {
  /// What the client gets if no further attempt is made.
  struct Held {
    Result<Response> result;
    RequestTimings timings;
    std::string_view backend;
  };

  Hint hint;
  std::optional<RequestCost> cost{};  // of pools with a scheduler
  std::string new_session{};  // the name that the client gets for its session; empty: it has one
  std::optional<std::uint64_t> response_id{};  // that a server has handed out, and the request has
  const RetryPolicy* policy = nullptr;
  Credentials credentials{};
  PaidRetry paid{};
  Next next = Next::done;
  bool resent = false;     // at most once: a request that breaks its link must not break many
  bool waits = false;      // before the next attempt
  std::uint32_t sent = 0;  // attempts after which a backend may have begun, the current included
  Instant first_sent{};    // when the first attempt was sent
  std::unique_ptr<Held> held{};
  std::optional<Fault> last_fault{};  // why another attempt is made
  Instant failed_at{};

  /// Keeps the end of the current attempt. REQUIRES: `next` is set.
  void hold(Result<Response> result, const RequestInfo& info, Instant now) {
    failed_at = now;
    last_fault = info.outcome.attempts.back().fault.value_or(Fault::internal);
    if (held && !result && next != Next::done && outweighs(*held, result.error())) return;
    held = std::make_unique<Held>(Held{std::move(result), info.timings, info.outcome.backend});
  }
  /// A backend's answer says more than that another one takes nothing. So does the failure of one
  /// that may have begun: the request is not unprocessed because the next one has not seen it.
  bool outweighs(const Held& earlier, const Error& later) const {
    return earlier.result || (sent > 0 && later.not_processed);
  }
  /// When another attempt begins, or a wait for one: counts the time of the failed one as a
  /// retry's. That of the last attempt remains the backend's.
  void count_retry_time(RequestTimings& timings) const {
    if (!last_fault || timings.head_sent == Instant{}) return;
    timings.retried += std::max(failed_at - timings.head_sent, Duration{});
    timings.head_sent = timings.uploaded = timings.first_byte = {};
  }
  /// Restores what was held, as if no further attempt had been made.
  Result<Response> give_up(Request& request) {
    credentials.restore(request);
    request.info.timings = held->timings;
    request.info.outcome.backend = held->backend;
    return std::move(held->result);
  }
};

/// Lets the request's body be sent from its start; false: its bytes are gone.
inline bool rewind(Request& request) { return request.body == nullptr || request.body->rewind(); }

}  // namespace evenkeel
