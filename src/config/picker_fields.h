#pragma once

#include <chrono>

#include "config/compound_forms.h"
#include "config/forms.h"

// The part of the field table (fields.h) for what a pool's picker goes by.
namespace evenkeel::config_file {

using namespace std::chrono_literals;

template <>
struct Fields<GpuConfig> {
  template <class Visit>
  static void each(Visit&& visit) {
    visit(Key{"memory_guard",
              "Share of GPU memory or KV cache in use (0.95 is 95 %) beyond which a backend gets "
              "requests only if all others are beyond it too or unavailable."},
          &GpuConfig::memory_guard, RatioForm{0.1, 1});
  }
};

template <>
struct Fields<SloConfig> {
  template <class Visit>
  static void each(Visit&& visit) {
    visit(Key{"ttft", "Time to the first token. 0s: not said.", false}, &SloConfig::ttft,
          DurationForm{0ms, 1h, "ms"});
    visit(Key{"tpot", "Mean time per output token after the first one. 0s: not said.", false},
          &SloConfig::tpot, DurationForm{0ms, 1min, "ms"});
  }
};

template <>
struct Fields<ExpectedTimeConfig> {
  template <class Visit>
  static void each(Visit&& visit) {
    using T = ExpectedTimeConfig;
    visit(
        Key{"shed",
            "A request gets 429 with `retry-after` once its age and its prompt's time exceed this "
            "many times the `ttft` of its SLO; with priority `batch` four times as many. 0: "
            "never, else at least 1."},
        &T::shed, RatioForm{0, 100});
    visit(Key{"index_memory", "Memory for what the backends' prefix caches are believed to hold."},
          &T::index_bytes, SizeForm{1UL << 20, 16UL << 30});
    visit(Key{"shared_backends",
              "Whether others send requests to these backends too; how many is then estimated from "
              "what the engines report (`metrics`)."},
          &T::shared_backends, FlagForm{});
    visit(Key{"explain_one_in",
              "The decision about one request in so many is kept for a while, to be explained "
              "(`/api/v1/decisions/ID`) and for `shadow_picker`. 0: only of requests that ask."},
          &T::explain_one_in, CountForm{0, 1'000'000});
  }

  static void finish(Node& node, ExpectedTimeConfig& config) {
    if (config.shed <= 0 || config.shed >= 1) return;
    node.fail("has a `shed` between 0 and 1, which would refuse long prompts on idle backends",
              "write 0 for never, or 1 or more");
  }
};

template <>
struct Fields<HashConfig> {
  template <class Visit>
  static void each(Visit&& visit) {
    using T = HashConfig;
    visit(Key{"header",
              "Requests with the same value of this header field go to the same backend; those "
              "without it are spread at random."},
          &T::header, TextForm{"the name of a header field", check_header_name});
    visit(Key{"load_factor",
              "No backend gets more than this times its fair share of the requests in flight; "
              "further requests go to the next candidate."},
          &T::load_factor, RatioForm{1.01, 1000});
  }
};

inline constexpr std::array<std::string_view, 2> affinity_mode_words = {"soft", "hard"};

template <>
struct Fields<AffinityConfig> {
  template <class Visit>
  static void each(Visit&& visit) {
    using T = AffinityConfig;
    visit(
        Key{"by",
            "What names the session of a request; the first of these that it has, but "
            "`response-id` before all others. `agent-session`: what coding agents send; "
            "`response-id`: OpenAI's ids of responses and conversations, as servers have handed "
            "them out; `header:NAME`: the value of a header field, of the request or of an answer; "
            "`cookie:NAME`: of a cookie of the application; `cookie`: of the cookie "
            "`evenkeel-session`, which evenkeel sets if a request has no session; `session_id`, "
            "`sequence_id`: of the body. `response-id` and the last two imply `inspect`."},
        &T::by,
        ScalarListForm<TextForm>{
            {TextForm{"a source", check_session_source}, "a list of sources", false}});
    visit(Key{"mode",
              "What a session does while its backend is saturated. `hard`: its requests wait for "
              "it. `soft`: it moves; with `picker: expected-time` the scheduler's price decides."},
          &T::mode, EnumForm<AffinityMode>{"mode", affinity_mode_words});
    visit(Key{"ttl", "How long a session is remembered after its last request."}, &T::ttl,
          DurationForm{1s, 720h});
    visit(Key{"max_sessions",
              "How many sessions are remembered, at 18 bytes each. From half of it on, some that "
              "were idle longest make room for new ones."},
          &T::max_sessions, CountForm{1, 10 * million});
  }
};

}  // namespace evenkeel::config_file
