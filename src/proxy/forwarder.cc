#include "evenkeel/proxy/forwarder.h"

#include <utility>

#include "evenkeel/base/hash.h"
#include "evenkeel/http/grpc.h"

namespace evenkeel {
namespace {

/// A pick takes less time than two looks at the clock: one in so many is timed.
constexpr std::uint32_t picks_per_timing = 16;

/// When the backend had the whole request; a response may begin before.
Instant request_end(const About& about) {
  const bool known = about.uploaded != Instant{} && about.uploaded <= about.first_byte;
  return known ? about.uploaded : about.sent;
}

/// The body of a backend's answer, and all that is held until its last byte: the link, and the
/// request's weight on the backend.
class ForwardedBody final : public Body {
 public:
  ForwardedBody(Loop& loop, Lease lease, LinkLease link, BodyPtr body, const About& about,
                BackendCells& cells)
      : loop_(loop),
        lease_(std::move(lease)),
        link_(std::move(link)),
        body_(std::move(body)),
        about_(about),
        cells_(cells) {}

  ~ForwardedBody() override {
    const Duration took = loop_.now() - request_end(about_);
    Load& load = lease_.backend()->load();
    load.record_total(took);
    if (was_served()) load.record_served(took);
    cells_.latency.observe(took);
    if (about_.fault && backend_failed(*about_.fault)) {
      load.count_error(*about_.fault);
    }
  }

  Task<Result<Chunk>> read() override { return body_->read(); }
  std::optional<std::uint64_t> length() const override { return body_->length(); }

 private:
  bool was_served() const { return about_.status > 0 && about_.status < 400 && !about_.fault; }
  static bool backend_failed(Fault fault) {
    return fault == Fault::backend_closed || fault == Fault::backend_protocol ||
           fault == Fault::idle_timeout;
  }

  Loop& loop_;
  Lease lease_;
  LinkLease link_;
  BodyPtr body_;  // dropped first: it gives the link its rest
  const About& about_;
  BackendCells& cells_;
};

/// What an answer says of the pace of its server. One that refuses says nothing, or worse.
void record_pace(Load& load, int status, Duration took, Instant now) {
  constexpr int too_many_requests = 429;
  if (status >= 500 || status == too_many_requests) {
    load.record_failure(took, now);
  } else if (status < 400) {
    load.record_first_byte(took, now);
  }
}

bool can_send_again(Request& request) { return request.body == nullptr || request.body->rewind(); }

/// Puts a backend's key in place of what the client sent, and that back for a backend without.
class Credentials {
 public:
  void put_on(Request& request, std::string_view key) {
    if (key.empty() && !replaced_) return;
    if (!replaced_) clients_ = request.fields.value(FieldId::authorization);
    replaced_ = true;
    request.fields.remove(FieldId::authorization);
    const auto value = key.empty() ? clients_ : key;
    if (value) request.fields.add("authorization", *value, FieldId::authorization);
  }

 private:
  bool replaced_ = false;
  std::optional<std::string_view> clients_;
};

/// Counts one more in line while it lives.
class Waiting {
 public:
  explicit Waiting(Gauge& gauge) : gauge_(gauge) { gauge_.add(); }
  Waiting(const Waiting&) = delete;
  ~Waiting() { gauge_.remove(); }

 private:
  Gauge& gauge_;
};

}  // namespace

Forwarder::Forwarder(Loop& loop, std::shared_ptr<PoolState> state, std::uint64_t seed,
                     std::unordered_map<const Backend*, Target> targets, Sheet& sheet,
                     ForwarderOptions options)
    : loop_(loop),
      pool_(std::move(state), loop, seed),
      targets_(std::move(targets)),
      sheet_(sheet),
      cells_(sheet.pool(options.pool_index)),
      options_(std::move(options)) {}

Task<Result<Response>> Forwarder::handle(Request& request) {
  About& about = request.about;
  Hint hint = hint_of(request);
  Credentials credentials;
  std::optional<Error> last;
  bool sent_again =
      false;  // once per request: what kills one server must not be handed to the next
  while (true) {
    auto placed = co_await place(hint);
    if (!placed) co_return last ? std::move(*last) : std::move(placed.error());
    if (last) cells_.retries.count(last->fault);
    Lease lease = std::move(*placed);
    const Backend* const backend = lease.backend().get();
    about.waited += lease.waited();
    about.elsewhere += lease.waited();
    about.backend = backend->spec().address;
    Target& target = targets_.find(backend)->second;
    credentials.put_on(request, target.authorization);

    LinkPool::Want want = LinkPool::Want::any;
    while (true) {
      const Instant asked = loop_.now();
      auto link = co_await target.links->acquire(want);
      about.elsewhere += loop_.now() - asked;
      if (!link) {
        last = std::move(link.error());
        if (last->side == Side::backend) backend->connect_failed(loop_.now());
        break;
      }
      if (want == LinkPool::Want::fresh || backend->load().suspect()) backend->connected();
      ++about.attempts;
      about.sent = loop_.read_clock();
      if (about.deadline != never) restate_deadline(request, about.sent);
      auto response = co_await (*link)->send(request);
      if (!response) {
        Error& error = response.error();
        about.elsewhere += loop_.now() - about.sent;
        const bool unseen = error.replayable || error.crossed;
        if (unseen && can_send_again(request)) {
          // The link was leaving, not the server: it is asked once more, on another.
          if (!sent_again && (error.crossed || !(*link)->alive(false))) {
            sent_again = true;
            want = LinkPool::Want::fresh;
            cells_.retries.count(error.fault);
            continue;
          }
          if (error.replayable) {
            last = std::move(error);
            break;
          }
        }
        if (error.side == Side::backend) {
          backend->load().count_error(error.fault);
          backend->load().record_failure(loop_.now() - about.sent, loop_.now());
        }
        co_return std::move(error);
      }
      record_pace(backend->load(), response->status, about.first_byte - request_end(about),
                  about.first_byte);
      if (options_.debug_headers) add_debug_headers(*backend, *response);
      response->body =
          std::make_unique<ForwardedBody>(loop_, std::move(lease), std::move(*link),
                                          std::move(response->body), about, *target.cells);
      co_return response;
    }

    if (last->side == Side::backend) backend->load().count_error(last->fault);
    if (hint.tried.full()) co_return std::move(*last);
    hint.tried.add(backend);
  }
}

Hint Forwarder::hint_of(const Request& request) const {
  Hint hint;
  if (options_.hash_header) {
    if (const auto value = request.fields.value(*options_.hash_header)) hint.key = hash_of(*value);
  }
  return hint;
}

Task<Result<Lease>> Forwarder::place(const Hint& hint) {
  const bool timed = ++places_ % picks_per_timing == 0;
  const Instant began = timed ? loop_.read_clock() : Instant{};
  auto placed = pool_.place(hint);
  if (placed.ready()) {
    if (timed) sheet_.observe_pick(loop_.read_clock() - began);
    return placed;
  }
  return wait_in_line(std::move(placed));
}

Task<Result<Lease>> Forwarder::wait_in_line(Task<Result<Lease>> placed) {
  const Waiting waiting(cells_.waiting);
  auto lease = co_await placed;
  co_return lease;
}

void Forwarder::add_debug_headers(const Backend& backend, Response& response) const {
  response.fields.add("x-evenkeel-backend", backend.spec().address);
  response.fields.add("x-evenkeel-pool", options_.pool);
}

}  // namespace evenkeel
