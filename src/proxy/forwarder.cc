#include "evenkeel/proxy/forwarder.h"

#include <utility>

#include "evenkeel/base/hash.h"
#include "evenkeel/http/grpc.h"

namespace evenkeel {
namespace {

/// A pick takes less time than two looks at the clock: one in so many is timed.
constexpr std::uint32_t pick_timing_interval = 16;

/// When the backend had the whole request; a response may begin before.
Instant request_end(const RequestInfo& info) {
  const bool known =
      info.timings.uploaded != Instant{} && info.timings.uploaded <= info.timings.first_byte;
  return known ? info.timings.uploaded : info.timings.head_sent;
}

/// The body of a backend's answer, and all that is held until its last byte: the link, and the
/// request's weight on the backend.
class ForwardedBody final : public Body {
 public:
  ForwardedBody(Loop& loop, Lease lease, LinkLease link, BodyPtr body, const RequestInfo& info,
                BackendMetrics& metrics)
      : loop_(loop),
        lease_(std::move(lease)),
        link_(std::move(link)),
        body_(std::move(body)),
        info_(info),
        metrics_(metrics) {}

  ~ForwardedBody() override {
    const Duration took = loop_.now() - request_end(info_);
    Load& load = lease_.backend()->load();
    load.record_total(took);
    if (was_served()) load.record_served(took);
    metrics_.latency.observe(took);
    if (info_.outcome.fault && backend_failed(*info_.outcome.fault)) {
      load.count_error(*info_.outcome.fault);
    }
  }

  Task<Result<Chunk>> read() override { return body_->read(); }
  std::optional<std::uint64_t> length() const override { return body_->length(); }

 private:
  bool was_served() const {
    return info_.outcome.status > 0 && info_.outcome.status < 400 && !info_.outcome.fault;
  }
  static bool backend_failed(Fault fault) {
    return fault == Fault::backend_closed || fault == Fault::backend_protocol ||
           fault == Fault::idle_timeout;
  }

  Loop& loop_;
  Lease lease_;
  LinkLease link_;
  BodyPtr body_;  // dropped first: it gives the link its rest
  const RequestInfo& info_;
  BackendMetrics& metrics_;
};

/// What an answer says of the pace of its server. One that refuses says nothing, or worse.
void record_latency(Load& load, int status, Duration took, Instant now) {
  constexpr int too_many_requests = 429;
  if (status >= 500 || status == too_many_requests) {
    load.record_failure(took, now);
  } else if (status < 400) {
    load.record_first_byte(took, now);
  }
}

bool can_resend(Request& request) { return request.body == nullptr || request.body->rewind(); }

/// Puts a backend's key in place of what the client sent, and that back for a backend without.
class Credentials {
 public:
  void apply_to(Request& request, std::string_view key) {
    if (key.empty() && !replaced_) return;
    if (!replaced_) client_value_ = request.fields.value(FieldId::authorization);
    replaced_ = true;
    request.fields.remove(FieldId::authorization);
    const auto value = key.empty() ? client_value_ : key;
    if (value) request.fields.add("authorization", *value, FieldId::authorization);
  }

 private:
  bool replaced_ = false;
  std::optional<std::string_view> client_value_;
};

/// Counts one more in line while it lives.
class QueuedCount {
 public:
  explicit QueuedCount(Gauge& gauge) : gauge_(gauge) { gauge_.add(); }
  QueuedCount(const QueuedCount&) = delete;
  ~QueuedCount() { gauge_.remove(); }

 private:
  Gauge& gauge_;
};

}  // namespace

Forwarder::Forwarder(Loop& loop, std::shared_ptr<PoolState> state, std::uint64_t seed,
                     std::unordered_map<const Backend*, Target> targets,
                     WorkerMetrics& worker_metrics, ForwarderOptions options)
    : loop_(loop),
      pool_(std::move(state), loop, seed),
      targets_(std::move(targets)),
      worker_metrics_(worker_metrics),
      metrics_(worker_metrics.pool(options.pool_index)),
      options_(std::move(options)) {}

Task<Result<Response>> Forwarder::handle(Request& request) {
  RequestInfo& info = request.info;
  Hint hint = hint_of(request);
  Credentials credentials;
  std::optional<Error> last;
  bool resent = false;  // once per request: what kills one server must not be handed to the next
  while (true) {
    auto placed = co_await acquire(hint);
    if (!placed) co_return last ? std::move(*last) : std::move(placed.error());
    if (last) metrics_.retries.count(last->fault);
    Lease lease = std::move(*placed);
    const Backend* const backend = lease.backend().get();
    info.timings.waited += lease.waited();
    info.outcome.backend = backend->spec().address;
    Target& target = targets_.find(backend)->second;
    credentials.apply_to(request, target.authorization);

    LinkPool::LinkChoice link_choice = LinkPool::LinkChoice::any;
    while (true) {
      const Instant acquire_started = loop_.now();
      auto link = co_await target.links->acquire(link_choice);
      info.timings.connected += loop_.now() - acquire_started;
      if (!link) {
        last = std::move(link.error());
        if (last->side == Side::backend) backend->connect_failed(loop_.now());
        break;
      }
      if (link_choice == LinkPool::LinkChoice::fresh || backend->load().needs_trial())
        backend->connected();
      if (!info.outcome.attempts.full())
        info.outcome.attempts.add({.backend = info.outcome.backend});
      info.timings.head_sent = loop_.read_clock();
      if (info.timings.deadline != never) rewrite_grpc_timeout(request, info.timings.head_sent);
      auto response = co_await (*link)->send(request);
      if (!response) {
        Error& error = response.error();
        info.timings.retried += loop_.now() - info.timings.head_sent;
        const bool safe_to_resend = error.not_processed || error.idle_close_race;
        if (safe_to_resend && can_resend(request)) {
          // The link was leaving, not the server: it is asked once more, on another.
          if (!resent && (error.idle_close_race || !(*link)->alive(false))) {
            resent = true;
            link_choice = LinkPool::LinkChoice::fresh;
            metrics_.retries.count(error.fault);
            continue;
          }
          if (error.not_processed) {
            last = std::move(error);
            break;
          }
        }
        if (error.side == Side::backend) {
          backend->load().count_error(error.fault);
          backend->load().record_failure(loop_.now() - info.timings.head_sent, loop_.now());
        }
        co_return std::move(error);
      }
      record_latency(backend->load(), response->status, info.timings.first_byte - request_end(info),
                     info.timings.first_byte);
      if (options_.debug_headers) add_debug_headers(*backend, *response);
      response->body =
          std::make_unique<ForwardedBody>(loop_, std::move(lease), std::move(*link),
                                          std::move(response->body), info, *target.metrics);
      co_return response;
    }

    if (last->side == Side::backend) backend->load().count_error(last->fault);
    if (hint.excluded.full()) co_return std::move(*last);
    hint.excluded.add(backend);
  }
}

Hint Forwarder::hint_of(const Request& request) const {
  Hint hint;
  if (options_.hash_header) {
    if (const auto value = request.fields.value(*options_.hash_header)) hint.key = hash_of(*value);
  }
  return hint;
}

Task<Result<Lease>> Forwarder::acquire(const Hint& hint) {
  const bool timed = ++picks_ % pick_timing_interval == 0;
  const Instant began = timed ? loop_.read_clock() : Instant{};
  auto placed = pool_.acquire(hint);
  if (placed.ready()) {
    if (timed) worker_metrics_.observe_pick(loop_.read_clock() - began);
    return placed;
  }
  return wait_in_queue(std::move(placed));
}

Task<Result<Lease>> Forwarder::wait_in_queue(Task<Result<Lease>> placed) {
  const QueuedCount waiting(metrics_.waiting);
  auto lease = co_await placed;
  co_return lease;
}

void Forwarder::add_debug_headers(const Backend& backend, Response& response) const {
  response.fields.add("x-evenkeel-backend", backend.spec().address);
  response.fields.add("x-evenkeel-pool", options_.pool);
}

}  // namespace evenkeel
