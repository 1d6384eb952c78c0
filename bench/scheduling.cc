// Measures what the scheduler costs: a decision, and all events of a request together. Time is
// virtual to the scheduler; the prompts come from a fixed set, so some prefixes are known.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <vector>

#include "bench/flags.h"
#include "evenkeel/base/rng.h"
#include "evenkeel/scheduler/prefix_index.h"
#include "evenkeel/scheduler/scheduler.h"

namespace evenkeel::bench {
namespace {

constexpr std::size_t index_bytes = std::size_t{64} << 20;

struct Setup {
  std::uint32_t backends = 16;
  std::uint32_t blocks = 64;    // of each prompt
  std::uint32_t prompts = 500;  // distinct ones: few enough for the processor's caches
  std::uint32_t streams = 16;   // on each backend
  std::uint32_t requests = 20'000;
};

constexpr std::uint32_t many_prompts = 12'000;  // their blocks fill the index

using Prompts = std::vector<std::vector<std::uint64_t>>;

/// Prompts that share their first quarter.
Prompts some_prompts(const Setup& setup) {
  Rng rng(1);
  Prompts prompts(setup.prompts);
  for (auto& prompt : prompts) {
    for (std::uint32_t i = 0; i < setup.blocks; ++i) {
      prompt.push_back(i < setup.blocks / 4 ? i + 1 : rng());
    }
  }
  return prompts;
}

/// A scheduler with a steady number of streams.
class Fleet {
 public:
  explicit Fleet(const Setup& setup)
      : setup_(setup),
        prompts_(some_prompts(setup)),
        scheduler_({.slots = setup.backends,
                    .config = {.slo = {.ttft = std::chrono::seconds(2),
                                       .tpot = std::chrono::milliseconds(100)},
                               .index_bytes = index_bytes}}) {
    for (std::uint32_t slot = 0; slot < setup.backends; ++slot) {
      scheduler_.add_backend(slot, {.identity = mix(slot + 1)});
      slots_.add(slot);
    }
  }

  void arrive() {
    const auto& prompt = prompts_[rng_.below(setup_.prompts)];
    arrived_ = scheduler_.arrive({.prompt_tokens = setup_.blocks * 32,
                                  .prefix_blocks = prompt,
                                  .tokens_per_block = 32,
                                  .tenant = rng_.below(20),
                                  .allowed = &slots_},
                                 now_);
  }
  /// From now on no KV cache has room.
  void crowd() {
    for (std::uint32_t slot = 0; slot < setup_.backends; ++slot) scheduler_.describe(slot, 1, 0);
  }
  /// The last request that arrived leaves; another one comes.
  void replace_waiting() {
    scheduler_.abandoned(arrived_, now_);
    arrive();
  }
  /// Returns how many started.
  std::size_t place() {
    const auto placements = scheduler_.place(now_);
    for (const auto& placement : placements) started_.push_back(placement.ticket);
    return placements.size();
  }
  void show_first_tokens() {
    now_ += std::chrono::milliseconds(60) / setup_.backends;
    for (; !started_.empty(); started_.pop_front()) {
      scheduler_.first_token(started_.front(), now_);
      streams_.push_back(started_.front());
    }
  }
  /// First tokens of what has started; the oldest streams end.
  void go_on() {
    show_first_tokens();
    while (streams_.size() > std::size_t{setup_.streams} * setup_.backends) {
      scheduler_.token(streams_.front(), 200, std::chrono::milliseconds(20), now_);
      scheduler_.finished(streams_.front(), {.output_tokens = 200}, now_);
      streams_.pop_front();
    }
  }
  void fill() {
    while (streams_.size() < std::size_t{setup_.streams} * setup_.backends) {
      arrive();
      place();
      go_on();
    }
  }
  void wait(Duration time) { now_ += time; }

 private:
  Setup setup_;
  Prompts prompts_;
  Scheduler scheduler_;
  SlotSet slots_;
  Rng rng_{2};
  Instant now_{std::chrono::hours(1)};
  Scheduler::Ticket arrived_ = 0;
  std::deque<Scheduler::Ticket> started_;
  std::deque<Scheduler::Ticket> streams_;
};

/// Times of many calls. Their median is that of an undisturbed one: calls in which the process was
/// interrupted do not count.
class Times {
 public:
  template <class Call>
  void measure(Call call) {
    const auto begin = Clock::now();
    call();
    nanoseconds_.push_back(std::chrono::duration<double, std::nano>(Clock::now() - begin).count());
  }
  double median_microseconds() {
    const auto middle = nanoseconds_.begin() + static_cast<std::ptrdiff_t>(nanoseconds_.size() / 2);
    std::nth_element(nanoseconds_.begin(), middle, nanoseconds_.end());
    return *middle / 1e3;
  }

 private:
  std::vector<double> nanoseconds_;
};

/// Arrival and placing of requests that start at once, and the events after that: first token, one
/// token, end.
void measure_requests(const Setup& setup) {
  Fleet fleet(setup);
  fleet.fill();
  Times placing;
  Times events;
  std::size_t started = 0;
  for (std::uint32_t i = 0; i < setup.requests; ++i) {
    placing.measure([&] {
      fleet.arrive();
      started += fleet.place();
    });
    events.measure([&] { fleet.go_on(); });
  }
  std::printf(
      "%5u backends: arrival and placing %8.2f us, later events %8.2f us (%.0f %% start at once)\n",
      setup.backends, placing.median_microseconds(), events.median_microseconds(),
      100.0 * static_cast<double>(started) / setup.requests);
}

/// One decision: a pass over one waiting request, which looks at every backend and starts nothing,
/// because no KV cache has room. Each is about another prompt.
double decision_microseconds(const Setup& setup) {
  Fleet fleet(setup);
  fleet.fill();
  for (std::uint32_t i = 0; i < 2 * setup.prompts; ++i) {
    fleet.arrive();
    fleet.place();
    fleet.go_on();
  }
  fleet.crowd();
  fleet.arrive();
  Times decision;
  for (std::uint32_t i = 0; i < setup.requests; ++i) {
    fleet.replace_waiting();
    decision.measure([&] { fleet.place(); });
    fleet.wait(std::chrono::microseconds(10));
  }
  return decision.median_microseconds();
}

void measure_decision(Setup setup) {
  const double warm = decision_microseconds(setup);
  setup.prompts = many_prompts;
  std::printf("%5u backends: a decision %8.2f us, and %8.2f us over a large index\n",
              setup.backends, warm, decision_microseconds(setup));
}

void measure_index(const Setup& setup, const char* name) {
  const Prompts prompts = some_prompts(setup);
  PrefixIndex index(setup.backends, index_bytes);
  Rng rng(3);
  std::vector<std::uint32_t> depths(setup.backends);
  for (std::uint32_t i = 0; i < std::max(20 * setup.backends, 2 * setup.prompts); ++i) {
    index.add(rng.below(setup.backends), prompts[rng.below(setup.prompts)]);
  }
  Times match;
  Times add;
  for (std::uint32_t i = 0; i < setup.requests; ++i) {
    const auto& prompt = prompts[rng.below(setup.prompts)];
    match.measure([&] { index.match(prompt, depths); });
    add.measure([&] { index.add(rng.below(setup.backends), prompt); });
  }
  std::printf("%5u backends: %s index: match of %u blocks %8.2f us, add %8.2f us, %.1f MiB\n",
              setup.backends, name, setup.blocks, match.median_microseconds(),
              add.median_microseconds(), static_cast<double>(index.bytes()) / (1 << 20));
}

int run(int argument_count, char** arguments) {
  Flags flags(argument_count, arguments);
  Setup setup;
  setup.blocks = static_cast<std::uint32_t>(flags.number("--blocks", setup.blocks));
  setup.streams = static_cast<std::uint32_t>(flags.number("--streams", setup.streams));
  setup.requests = static_cast<std::uint32_t>(flags.number("--requests", setup.requests));
  flags.reject_unknown();
  for (const std::uint32_t backends : {16u, 1000u}) {
    setup.backends = backends;
    measure_index(setup, "small");
    Setup large = setup;
    large.prompts = many_prompts;
    measure_index(large, "large");
    measure_decision(setup);
    measure_requests(setup);
  }
  return 0;
}

}  // namespace
}  // namespace evenkeel::bench

int main(int argc, char** argv) { return evenkeel::bench::run(argc, argv); }
