#include "sim/load_worker.h"

#include <utility>

#include "evenkeel/net/socket.h"
#include "sim/alarm.h"
#include "sim/load_answer.h"

namespace evenkeel {
namespace {

constexpr std::size_t longest_answer_kept = 1 << 20;  // of one that is not streamed
constexpr std::size_t longest_refusal_kept = 4 * 1024;
constexpr std::size_t longest_refusal_read = 256 * 1024;
constexpr unsigned starts_per_turn = 64;
constexpr Duration pause_after_failure = std::chrono::milliseconds(10);

/// Waits to the microsecond: the loop's own timers are a coarse wheel.
class Pacer : Alarm {
 public:
  explicit Pacer(Loop& loop) : Alarm(loop, [](Alarm& self) { static_cast<Pacer&>(self).ring(); }) {}

  /// `co_await pacer.until(when);` One waiter at a time.
  auto until(Instant when) {
    struct Wait {
      Pacer& pacer;
      Instant when;
      bool await_ready() const { return false; }
      void await_suspend(std::coroutine_handle<> waiter) {
        pacer.waiter_ = waiter;
        pacer.set(when);
      }
      void await_resume() const {}
    };
    return Wait{*this, when};
  }

 private:
  void ring() {
    if (waiter_) std::exchange(waiter_, {}).resume();
  }
  std::coroutine_handle<> waiter_;
};

std::string_view kind_of(Fault fault, bool answering) {
  switch (fault) {
    case Fault::connect_failed:
    case Fault::connect_timeout: return "connect";
    case Fault::first_byte_timeout:
    case Fault::idle_timeout:
    case Fault::write_timeout:
    case Fault::header_timeout:
    case Fault::body_timeout: return "timeout";
    case Fault::backend_closed:
    case Fault::client_gone: return answering ? "truncated" : "reset";
    case Fault::backend_protocol: return "protocol";
    default: return word_of(fault);
  }
}

std::string example_of(const Error& error) {
  return std::string(word_of(error.fault)) + ": " + error.detail;
}

}  // namespace

std::unique_ptr<Arrivals> LoadPlan::arrivals() const {
  if (!trace.rows.empty()) return make_trace_arrivals(trace.rows, options.trace_speed);
  if (options.poisson) return make_poisson_arrivals(options.rate, options.seed);
  return make_even_arrivals(options.rate);
}

/// What became of one request.
struct LoadWorker::Answer {
  std::string kind;  // of failure; empty: none
  std::string example;
  std::string reason;
  std::string backend;
  bool replayable = false;
  std::uint64_t text_events = 0;
  std::uint64_t output_tokens = 0;
  std::uint64_t cached_tokens = 0;
  Instant first_text{};
  Instant last_text{};
  Instant end{};

  void fail(std::string_view what, std::string why) {
    if (!kind.empty()) return;
    kind = what;
    example = std::move(why);
  }
  void fail(const Error& error, bool answering) {
    fail(kind_of(error.fault, answering), example_of(error));
  }
  void use(const AnswerUsage& usage) {
    output_tokens = usage.completion_tokens.value_or(output_tokens);
    cached_tokens = usage.cached_tokens.value_or(0);
  }
};

/// Counts a request while it is under way.
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

LoadWorker::LoadWorker(LoadPlan& plan, unsigned number) : plan_(plan), number_(number) {}

void LoadWorker::run() {
  const LoadOptions& options = plan_.options;
  if (plan_.open_loop()) {
    issuers_ = 1;
    loop_.spawn(drive_arrivals());
  } else {
    for (unsigned client = number_; client < options.concurrency; client += options.threads) {
      ++issuers_;
      loop_.spawn(drive_client());
    }
  }

  loop_.run_until(
      [this] { return stopping_ || drain_over_ || (issuers_ == 0 && in_flight() == 0); });
  {
    const std::lock_guard lock(window_mutex_);
    window_.abandoned += in_flight();
  }
  loop_.drop_spawned();  // servers see at once that nobody listens any more
  idle_.clear();
}

void LoadWorker::stop() {
  loop_.post([this] { stopping_ = true; });
}

LoadReport LoadWorker::take_window() {
  const std::lock_guard lock(window_mutex_);
  return std::exchange(window_, LoadReport());
}

bool LoadWorker::past_end(std::uint64_t index, Duration due) const {
  const LoadOptions& options = plan_.options;
  return (options.requests != 0 && index >= options.requests) ||
         (options.duration > Duration::zero() && due >= options.duration);
}

void LoadWorker::check_drain() {
  const std::uint64_t next = plan_.next_index.load(std::memory_order_relaxed);
  const bool all_started =
      plan_.open_loop() ? issuers_ == 0 : past_end(next, Clock::now() - plan_.start);
  drain_over_ = all_started;
  if (!all_started) drain_.arm(loop_, Clock::now() + plan_.options.drain);
}

Task<void> LoadWorker::drive_arrivals() {
  const auto arrivals = plan_.arrivals();
  Pacer pacer(loop_);
  unsigned started = 0;
  for (std::uint64_t index = 0;; ++index) {
    const auto offset = arrivals->next();
    if (!offset || past_end(index, *offset)) break;
    if (index % plan_.options.threads != number_) continue;

    const Instant due = plan_.start + *offset;
    while (Clock::now() < due) {
      started = 0;
      co_await pacer.until(due);
    }
    loop_.spawn(exchange_alone(plan_.book->ask(index), due));
    if (++started % starts_per_turn == 0) co_await loop_.yield();  // late: let answers come in too
  }
  --issuers_;
}

Task<void> LoadWorker::drive_client() {
  for (;;) {
    const Instant now = Clock::now();
    const std::uint64_t index = plan_.next_index.fetch_add(1, std::memory_order_relaxed);
    if (past_end(index, now - plan_.start)) break;
    const bool succeeded = co_await exchange(plan_.book->ask(index), now);
    if (!succeeded) co_await loop_.sleep_for(pause_after_failure);  // a dead server is not hammered
  }
  --issuers_;
}

Task<void> LoadWorker::exchange_alone(Ask ask, Instant due) {
  [[maybe_unused]] const bool succeeded = co_await exchange(ask, due);
}

Task<bool> LoadWorker::exchange(Ask ask, Instant due) {
  const InFlight counted(*this);
  note_start(due);

  Answer answer;
  auto link = take_idle();
  bool reused = link != nullptr;
  for (;;) {
    if (!link) {
      auto connected = co_await connect();
      if (!connected) {
        answer.fail(connected.error(), false);
        break;
      }
      link = std::move(*connected);
    }
    auto got = co_await ask_once(*link, ask, due);
    answer = std::move(got);
    if (!reused || !answer.replayable) break;
    link = nullptr;  // the server had closed it while it was idle: nobody saw this request
    reused = false;
  }
  answer.end = Clock::now();
  note_answer(ask, due, answer);
  const bool succeeded = answer.kind.empty();
  if (link) keep_idle(std::move(link));
  co_return succeeded;
}

Task<LoadWorker::Answer> LoadWorker::ask_once(Link& link, const Ask& ask, Instant due) {
  Answer answer;
  Request request{.method = "POST",
                  .authority = plan_.target.authority,
                  .path = plan_.target.completions_path,
                  .body = make_body(plan_.book->body(ask))};
  request.fields.add("user-agent", "evenkeel-load", FieldId::user_agent);
  request.fields.add("accept", plan_.options.stream ? "text/event-stream" : "application/json",
                     FieldId::accept);
  request.fields.add("content-type", "application/json", FieldId::content_type);
  set_headers(plan_.options.headers, request);

  auto response = co_await link.send(request);
  if (!response) {
    answer.replayable = response.error().replayable || response.error().crossed;
    answer.fail(response.error(), false);
    co_return answer;
  }
  answer.backend = response->fields.value("x-evenkeel-backend").value_or("");
  if (response->status < 200 || response->status > 299) {
    answer.reason = response->fields.value("x-evenkeel-reason").value_or("");
    const std::string kind = "status_" + std::to_string(response->status);
    co_await read_refusal(response->body.get(), answer);
    answer.fail(kind, std::exchange(answer.example, {}));
  } else if (!response->body) {
    answer.fail("truncated", "an answer without a body");
  } else if (plan_.options.stream) {
    co_await read_stream(*response->body, due, answer);
  } else {
    co_await read_whole(*response->body, answer);
  }
  co_return answer;
}

Task<void> LoadWorker::read_stream(Body& body, Instant due, Answer& answer) {
  StreamTally tally;
  for (bool last = false; !last;) {
    auto chunk = co_await body.read();
    if (!chunk) {
      answer.fail(chunk.error(), true);
      break;
    }
    last = chunk->last;
    const unsigned events = tally.feed(chunk->bytes);
    if (events != 0) note_text(events, due, answer);
  }
  answer.output_tokens = tally.text_events();
  answer.use(tally.usage());
  if (!tally.error().empty()) {
    answer.kind.clear();  // says more than the end that follows it
    answer.fail("stream_error", tally.error());
  } else if (!tally.done()) {
    answer.fail("truncated", "ended without [DONE], after " + std::to_string(tally.text_events()) +
                                 " events with text");
  }
}

Task<void> LoadWorker::read_whole(Body& body, Answer& answer) {
  std::string text;
  for (bool last = false; !last;) {
    auto chunk = co_await body.read();
    if (!chunk) {
      answer.fail(chunk.error(), true);
      co_return;
    }
    last = chunk->last;
    if (text.size() + chunk->bytes.size() <= longest_answer_kept) text += chunk->bytes;
  }
  answer.use(usage_of(text));
}

Task<void> LoadWorker::read_refusal(Body* body, Answer& answer) {
  std::size_t size = 0;
  for (bool last = body == nullptr; !last && size < longest_refusal_read;) {
    auto chunk = co_await body->read();
    if (!chunk) co_return;
    last = chunk->last;
    size += chunk->bytes.size();
    if (answer.example.size() < longest_refusal_kept) answer.example += chunk->bytes;
  }
}

Task<Result<std::unique_ptr<Link>>> LoadWorker::connect() {
  const LoadOptions& options = plan_.options;
  const auto& endpoints = plan_.target.endpoints;
  Error error;
  for (std::size_t tried = 0; tried < endpoints.size(); ++tried) {
    const std::size_t at = (preferred_endpoint_ + tried) % endpoints.size();
    auto fd = co_await dial(loop_, endpoints[at], Clock::now() + options.connect_timeout);
    if (!fd) {
      error = std::move(fd.error());
      continue;
    }
    preferred_endpoint_ = at;
    {
      const std::lock_guard lock(window_mutex_);
      ++window_.connections;
    }
    co_return make_http1_link(
        std::make_unique<Socket>(loop_, *fd),
        {.first_byte_timeout = options.timeout, .idle_timeout = options.timeout});
  }
  co_return error;
}

std::unique_ptr<Link> LoadWorker::take_idle() {
  while (!idle_.empty()) {
    auto link = std::move(idle_.back());
    idle_.pop_back();
    if (!link->alive(false)) continue;
    const std::lock_guard lock(window_mutex_);
    ++window_.reused;
    return link;
  }
  return nullptr;
}

void LoadWorker::keep_idle(std::unique_ptr<Link> link) {
  if (link->room() == 0) return;
  idle_.push_back(std::move(link));
  // The front ones have been idle for longest: look at one each time, so that those which their
  // server has closed do not pile up.
  if (!idle_.front()->alive(false)) idle_.pop_front();
}

void LoadWorker::note_start(Instant due) {
  const Instant started = Clock::now();
  drain_.arm(loop_, started + plan_.options.drain);
  const std::lock_guard lock(window_mutex_);
  ++window_.started;
  if (!plan_.open_loop()) return;
  window_.lateness.add(started - due);
  if (started - due > late_start) ++window_.late_starts;
}

void LoadWorker::note_text(unsigned events, Instant due, Answer& answer) {
  const Instant now = Clock::now();
  const std::lock_guard lock(window_mutex_);
  if (answer.text_events == 0) {
    answer.first_text = now;
    window_.first_token.add(now - due);
  } else {
    window_.gap.add(now - answer.last_text);
  }
  for (unsigned i = 1; i < events; ++i) window_.gap.add(Duration::zero());  // came together
  answer.text_events += events;
  answer.last_text = now;
  window_.output_tokens += events;
}

void LoadWorker::note_answer(const Ask& ask, Instant due, const Answer& answer) {
  const std::lock_guard lock(window_mutex_);
  window_.elapsed = answer.end - plan_.start;
  if (answer.output_tokens > answer.text_events) {  // the events themselves are counted already
    window_.output_tokens += answer.output_tokens - answer.text_events;
  }
  if (!answer.backend.empty()) {
    BackendShare& share = window_.backends[answer.backend];
    ++share.answered;
    if (answer.text_events != 0) share.first_token.add(answer.first_text - due);
  }
  if (!answer.kind.empty()) {
    ++window_.failed;
    window_.add_failure(answer.kind, answer.example);
    if (!answer.reason.empty()) ++window_.reasons[answer.reason];
    return;
  }
  ++window_.succeeded;
  window_.prompt_tokens += ask.prompt_tokens;
  window_.cached_tokens += answer.cached_tokens;
  window_.whole.add(answer.end - due);
  if (answer.text_events > 1 && answer.output_tokens > 1) {
    window_.per_token.add((answer.last_text - answer.first_text) /
                          static_cast<Duration::rep>(answer.output_tokens - 1));
  }
}

}  // namespace evenkeel
