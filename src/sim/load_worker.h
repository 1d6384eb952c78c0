// One thread's part of a load: its connections, its requests, its share of the report.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>

#include "evenkeel/base/loop.h"
#include "evenkeel/base/result.h"
#include "evenkeel/base/task.h"
#include "evenkeel/wire/link.h"
#include "sim/load_arrivals.h"
#include "sim/load_report.h"
#include "sim/load_request.h"
#include "sim/load_target.h"

namespace evenkeel {

/// What the workers of a load share; all but the counter stays as it is while they run.
struct LoadPlan {
  LoadOptions options;
  LoadTarget target;
  Trace trace;  ///< no rows: none
  std::unique_ptr<AskBook> book;
  Instant start{};
  std::atomic<std::uint64_t> next_index{0};  ///< closed loop: of the next request

  bool open_loop() const { return options.rate > 0 || !trace.rows.empty(); }
  /// Arrivals of the whole load, the same for every caller.
  std::unique_ptr<Arrivals> arrivals() const;
};

/// Sends every n-th request of an open loop, or is every n-th client of a closed one.
class LoadWorker {
 public:
  /// `plan` outlives the worker.
  LoadWorker(LoadPlan& plan, unsigned number);
  LoadWorker(const LoadWorker&) = delete;

  /// Returns when every request has its answer, or its time is over. Thread: one of its own.
  void run();
  /// Makes `run` abandon what is in flight and return. Thread: any.
  void stop();
  /// What happened since the last call. Thread: any.
  LoadReport take_window();
  unsigned in_flight() const { return in_flight_.load(std::memory_order_relaxed); }

 private:
  struct Answer;
  class InFlight;
  struct DrainTimer : Timer {
    explicit DrainTimer(LoadWorker& owner)
        : Timer([](Timer& self) { static_cast<DrainTimer&>(self).worker.check_drain(); }),
          worker(owner) {}
    LoadWorker& worker;
  };

  Task<void> drive_arrivals();
  Task<void> drive_client();
  Task<bool> exchange(Ask ask, Instant due);  // whether it succeeded
  Task<void> exchange_alone(Ask ask, Instant due);
  Task<Answer> ask_once(Link& link, const Ask& ask, Instant due);
  Task<void> read_stream(Body& body, Instant due, Answer& answer);
  Task<void> read_whole(Body& body, Answer& answer);
  Task<void> read_refusal(Body* body, Answer& answer);
  Task<Result<std::unique_ptr<Link>>> connect();
  std::unique_ptr<Link> take_idle();
  void keep_idle(std::unique_ptr<Link> link);
  bool past_end(std::uint64_t index, Duration due) const;
  void check_drain();
  void note_start(Instant due);
  void note_text(unsigned events, Instant due, Answer& answer);
  void note_answer(const Ask& ask, Instant due, const Answer& answer);

  LoadPlan& plan_;
  const unsigned number_;
  std::size_t preferred_endpoint_ = 0;
  unsigned issuers_ = 0;
  bool stopping_ = false;
  bool drain_over_ = false;
  std::atomic<unsigned> in_flight_{0};
  std::mutex window_mutex_;
  LoadReport window_;
  std::deque<std::unique_ptr<Link>> idle_;  // the last one used is at the back
  Loop loop_;                // the last member: its end drops the tasks, which use the others
  DrainTimer drain_{*this};  // goes off when no request has started for so long
};

}  // namespace evenkeel
