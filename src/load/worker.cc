#include "evenkeel/load/worker.h"

#include <utility>

#include "evenkeel/load/response_parser.h"
#include "load/pacer.h"
#include "load/request_result.h"

namespace evenkeel {
namespace {

constexpr std::size_t max_response_bytes_kept = 1 << 20;  // of one that is not streamed
constexpr std::size_t max_error_bytes_kept = 4 * 1024;
constexpr std::size_t max_error_bytes_read = 256 * 1024;
constexpr unsigned max_starts_per_yield = 64;
constexpr std::uint32_t max_idle_links = 1'000'000;
constexpr Duration failure_backoff = std::chrono::milliseconds(10);

}  // namespace

std::unique_ptr<Arrivals> LoadPlan::arrivals() const {
  if (!trace.rows.empty()) return make_trace_arrivals(trace.rows, options.trace_speed);
  if (options.poisson) return make_poisson_arrivals(options.rate, options.seed);
  return make_constant_rate_arrivals(options.rate);
}

/// Counts a request while it is in flight.
class LoadWorker::InFlight {
 public:
  explicit InFlight(LoadWorker& worker) : worker_(worker) { add(1); }
  InFlight(const InFlight&) = delete;
  ~InFlight() { add(-1); }

 private:
  void add(int change) {
    worker_.in_flight_.store(worker_.in_flight() + static_cast<unsigned>(change),
                             std::memory_order_relaxed);
  }
  LoadWorker& worker_;
};

LoadWorker::LoadWorker(LoadPlan& plan, unsigned number)
    : plan_(plan),
      number_(number),
      links_(loop_, plan.target.endpoints,
             {.link = {.first_byte_timeout = plan.options.timeout,
                       .idle_timeout = plan.options.timeout},
              .connector = {.connect_timeout = plan.options.connect_timeout},
              .keep_alive = {.idle = std::chrono::hours(1), .max_idle = max_idle_links}},
             link_metrics_) {}

void LoadWorker::run() {
  const LoadOptions& options = plan_.options;
  if (plan_.open_loop()) {
    active_issuers_ = 1;
    loop_.spawn(run_open_loop());
  } else {
    for (unsigned client = number_; client < options.concurrency; client += options.threads) {
      ++active_issuers_;
      loop_.spawn(run_closed_loop_client());
    }
  }

  loop_.run_until(
      [this] { return stopping_ || drain_over_ || (active_issuers_ == 0 && in_flight() == 0); });
  {
    const std::lock_guard lock(window_mutex_);
    window_.abandoned += in_flight();
  }
  loop_.drop_spawned();  // closes their connections, so that servers stop generating at once
  links_.retire_links(max_idle_links);
}

void LoadWorker::stop() {
  loop_.post([this] { stopping_ = true; });
}

LoadReport LoadWorker::take_window() {
  const std::lock_guard lock(window_mutex_);
  return std::exchange(window_, LoadReport());
}

bool LoadWorker::past_limit(std::uint64_t index, Duration due) const {
  const LoadOptions& options = plan_.options;
  return (options.requests != 0 && index >= options.requests) ||
         (options.duration > Duration::zero() && due >= options.duration);
}

void LoadWorker::check_drain() {
  const std::uint64_t next = plan_.next_index.load(std::memory_order_relaxed);
  const bool all_started =
      plan_.open_loop() ? active_issuers_ == 0 : past_limit(next, Clock::now() - plan_.start);
  drain_over_ = all_started;
  if (!all_started) drain_.arm(loop_, Clock::now() + plan_.options.drain);
}

Task<void> LoadWorker::run_open_loop() {
  const auto arrivals = plan_.arrivals();
  Pacer pacer(loop_);
  unsigned started = 0;
  for (std::uint64_t index = 0;; ++index) {
    const auto offset = arrivals->next();
    if (!offset || past_limit(index, *offset)) break;
    if (index % plan_.options.threads != number_) continue;

    const Instant due = plan_.start + *offset;
    while (Clock::now() < due) {
      started = 0;
      co_await pacer.until(due);
    }
    loop_.spawn(exchange_detached(plan_.generator->load_request(index), due));
    if (++started % max_starts_per_yield == 0)
      co_await loop_.yield();  // when late, lets responses be read between the starts
  }
  --active_issuers_;
}

Task<void> LoadWorker::run_closed_loop_client() {
  for (;;) {
    const Instant now = Clock::now();
    const std::uint64_t index = plan_.next_index.fetch_add(1, std::memory_order_relaxed);
    if (past_limit(index, now - plan_.start)) break;
    const bool succeeded = co_await exchange(plan_.generator->load_request(index), now);
    if (!succeeded) co_await loop_.sleep_for(failure_backoff);  // spares a server that is down
  }
  --active_issuers_;
}

Task<void> LoadWorker::exchange_detached(LoadRequest load_request, Instant due) {
  co_await exchange(load_request, due);
}

Task<bool> LoadWorker::exchange(LoadRequest load_request, Instant due) {
  const InFlight counted(*this);
  const Instant started = record_start(due);
  RequestResult result;
  for (auto choice = LinkPool::LinkChoice::any;; choice = LinkPool::LinkChoice::fresh) {
    auto link = co_await links_.acquire(choice);
    if (!link) {
      result.fail(link.error(), false);
      break;
    }
    record_link(link->newly_connected());
    auto outcome = co_await send_once(**link, load_request, due);
    result = std::move(outcome);
    // Else the server had closed the link while it was idle, and has not processed the request.
    if (link->newly_connected() || !result.may_resend) break;
  }
  result.started = started;
  result.end = Clock::now();
  record_result(load_request, due, result);
  co_return result.kind.empty();
}

Task<RequestResult> LoadWorker::send_once(Link& link, const LoadRequest& load_request,
                                          Instant due) {
  RequestResult result;
  Request request{.method = "POST",
                  .authority = plan_.target.authority,
                  .path = plan_.target.completions_path,
                  .body = make_body(plan_.generator->body(load_request))};
  request.fields.add("user-agent", "evenkeel-load", FieldId::user_agent);
  request.fields.add("accept", plan_.options.stream ? "text/event-stream" : "application/json",
                     FieldId::accept);
  request.fields.add("content-type", "application/json", FieldId::content_type);
  set_headers(plan_.options.headers, request);

  auto response = co_await link.send(request);
  if (!response) {
    result.may_resend = may_resend(response.error(), request);
    result.fail(response.error(), false);
    co_return result;
  }
  result.backend = response->fields.value("x-evenkeel-backend").value_or("");
  if (response->status < 200 || response->status > 299) {
    result.reason = response->fields.value("x-evenkeel-reason").value_or("");
    const std::string kind = "status_" + std::to_string(response->status);
    co_await read_error_body(response->body.get(), result);
    result.fail(kind, std::exchange(result.example, {}));
  } else if (!response->body) {
    result.fail("truncated", "a response without a body");
  } else if (plan_.options.stream) {
    co_await read_stream(*response->body, due, result);
  } else {
    co_await read_complete(*response->body, result);
  }
  co_return result;
}

Task<void> LoadWorker::read_stream(Body& body, Instant due, RequestResult& result) {
  StreamParser parser;
  for (bool last = false; !last;) {
    auto chunk = co_await body.read();
    if (!chunk) {
      result.fail(chunk.error(), true);
      break;
    }
    last = chunk->last;
    const unsigned events = parser.feed(chunk->bytes);
    if (events != 0) record_content(events, due, result);
  }
  result.output_tokens = parser.content_events();
  parser.finish();
  result.use(parser.usage());
  if (!parser.error().empty()) {
    result.kind.clear();  // the error event says more than the truncation that follows it
    result.fail("stream_error", parser.error());
  } else if (!parser.done()) {
    result.fail("truncated", "ended without [DONE], after " +
                                 std::to_string(parser.content_events()) + " events with text");
  }
}

Task<void> LoadWorker::read_complete(Body& body, RequestResult& result) {
  std::string text;
  for (bool last = false; !last;) {
    auto chunk = co_await body.read();
    if (!chunk) {
      result.fail(chunk.error(), true);
      co_return;
    }
    last = chunk->last;
    if (text.size() + chunk->bytes.size() <= max_response_bytes_kept) text += chunk->bytes;
  }
  result.use(parse_usage(text));
}

Task<void> LoadWorker::read_error_body(Body* body, RequestResult& result) {
  std::size_t size = 0;
  for (bool last = body == nullptr; !last && size < max_error_bytes_read;) {
    auto chunk = co_await body->read();
    if (!chunk) co_return;
    last = chunk->last;
    size += chunk->bytes.size();
    if (result.example.size() < max_error_bytes_kept) result.example += chunk->bytes;
  }
}

Instant LoadWorker::record_start(Instant due) {
  const Instant started = Clock::now();
  drain_.arm(loop_, started + plan_.options.drain);
  const std::lock_guard lock(window_mutex_);
  ++window_.started;
  if (!plan_.open_loop()) return started;
  window_.lateness.record(started - due);
  if (started - due > late_start_threshold) ++window_.late_starts;
  return started;
}

void LoadWorker::record_link(bool newly_connected) {
  const std::lock_guard lock(window_mutex_);
  ++(newly_connected ? window_.connections : window_.reused);
}

void LoadWorker::record_content(unsigned events, Instant due, RequestResult& result) {
  const Instant now = Clock::now();
  const std::lock_guard lock(window_mutex_);
  if (result.content_events == 0) {
    result.first_content_at = now;
    window_.ttft.record(now - due);
  } else {
    window_.inter_token_latency.record(now - result.last_content_at);
  }
  for (unsigned i = 1; i < events; ++i)
    window_.inter_token_latency.record(Duration::zero());  // arrived together
  result.content_events += events;
  result.last_content_at = now;
  window_.output_tokens += events;
}

void LoadWorker::record_result(const LoadRequest& load_request, Instant due,
                               const RequestResult& result) {
  const std::string line = plan_.options.log.empty()
                               ? std::string()
                               : log_line(load_request, due - plan_.start, due, result);
  const std::lock_guard lock(window_mutex_);
  window_.log += line;
  window_.elapsed = result.end - plan_.start;
  if (result.output_tokens > result.content_events) {  // events are counted as they arrive
    window_.output_tokens += result.output_tokens - result.content_events;
  }
  if (!result.backend.empty()) {
    BackendResults& share = window_.backends[result.backend];
    ++share.answered;
    if (result.content_events != 0) share.ttft.record(result.first_content_at - due);
  }
  if (!result.kind.empty()) {
    ++window_.failed;
    window_.add_failure(result.kind, result.example);
    if (!result.reason.empty()) ++window_.reasons[result.reason];
    return;
  }
  ++window_.succeeded;
  window_.prompt_tokens += load_request.prompt_tokens;
  window_.cached_tokens += result.cached_tokens;
  window_.e2e_latency.record(result.end - due);
  if (const auto per_token = result.per_token()) window_.tpot.record(*per_token);
  if (meets_targets(plan_.options, due, result)) ++window_.good;
}

}  // namespace evenkeel
