#pragma once

#include <chrono>
#include <string_view>

#include "config/compound_forms.h"
#include "config/forms.h"

// The part of the field table (fields.h) for what a pool's picker goes by.
namespace evenkeel::config_file {

using namespace std::chrono_literals;

void each_key(Of<SloConfig>, const auto& visit) {
  visit(Key{"ttft", "Time to the first token. 0s: not said."}, &SloConfig::ttft,
        DurationForm{0ms, 1h, "ms"});
  visit(Key{"tpot", "Mean time per output token after the first one. 0s: not said."},
        &SloConfig::tpot, DurationForm{0ms, 1min, "ms"});
}

template <class T>
void each_picker_key(const auto& visit) {
  visit(Key{"name", "The load-balancing policy.", required}, &T::name,
        ChoiceForm{"picker", picker_names()});
  visit(Key{.name = "header",
            .doc = "Requests with the same value of this header field go to the same backend; "
                   "those without it are spread at random.",
            .variants = {"consistent-hash"}},
        &T::header, header_name);
  visit(Key{.name = "load_factor",
            .doc = "No backend gets more than this times its fair share of the requests in flight; "
                   "further requests go to the next candidate.",
            .variants = {"consistent-hash", "prefix-affinity"}},
        &T::load_factor, RatioForm{1.01, 1000});
  visit(Key{.name = "memory_guard",
            .doc = "Share of GPU memory or KV cache in use (0.95 is 95 %) beyond which a backend "
                   "gets requests only if all others are beyond it too or unavailable.",
            .variants = {"gpu"}},
        &T::memory_guard, RatioForm{0.1, 1});
  visit(Key{.name = "weights",
            .doc = "`configured` uses the backends' `weight`; `observed` learns the weights from "
                   "the work that each completes.",
            .variants = {"weighted"}},
        &T::weights, EnumForm<WeightSource>{"weights", {"configured", "observed"}});
}

void each_key(Of<PickerChoice>, const auto& visit) { each_picker_key<PickerChoice>(visit); }

// Clears the name: until it is read, a picker may have any key.
inline void prepare(Of<PickerChoice>, PickerChoice& picker) { picker.name.clear(); }

template <class T>
using PickerForm = ShorthandForm<T, &T::name, ChoiceForm>;

template <class T>
PickerForm<T> picker_form() {
  return {{},
          {"picker", picker_names()},
          "a picker, or a mapping such as {name: gpu, memory_guard: 0.9}"};
}

// A shadow picker is another picker, whose keys the reference describes once.
struct ShadowPickerForm : OptionalForm<PickerForm<PickerChoice>> {
  void add_reference_rows(ReferenceRows&, const std::string&) const {}
};

void each_key(Of<PickerConfig>, const auto& visit) {
  using T = PickerConfig;
  each_picker_key<T>(visit);
  visit(Key{.name = "slo",
            .doc = "What clients are promised. Requests may name their own in `x-slo-ttft-ms` and "
                   "`x-slo-tpot-ms`, and routes in `slo`.",
            .default_text = "by the speed of the backends",
            .variants = {"expected-time"}},
        &T::slo, StructForm<SloConfig>{});
  visit(Key{.name = "shed",
            .doc = "A request gets 429 with `retry-after` once its age and its prompt's time "
                   "exceed this many times the `ttft` of its SLO; with priority `batch` four times "
                   "as many. 0: never, else at least 1.",
            .variants = {"expected-time"}},
        &T::shed, RatioForm{0, 100});
  visit(Key{.name = "index_memory",
            .doc = "Memory for what the backends' prefix caches are believed to hold.",
            .variants = {"expected-time"}},
        &T::index_bytes, SizeForm{1UL << 20, 16UL << 30});
  visit(Key{.name = "shared_backends",
            .doc = "Whether others send requests to these backends too; how many is then estimated "
                   "from what the engines report (`metrics`).",
            .variants = {"expected-time"}},
        &T::shared_backends, FlagForm{});
  visit(Key{.name = "explain_one_in",
            .doc = "The decision about every Nth request is kept for a while, to be explained "
                   "(`evenkeel ctl explain ID`) and for `shadow_picker`. 0: only of requests that "
                   "ask.",
            .default_text = "16 of picker expected-time, else 0"},
        &T::explain_one_in, OptionalForm<CountForm>{{0, 1'000'000}});
  visit(Key{.name = "shadow_picker",
            .doc = "Another picker, with its own settings if it needs any: metrics tell what its "
                   "choices for the same requests would cost. It places none. It is asked about "
                   "the requests whose decisions are kept (`explain_one_in`).",
            .default_text = "none",
            .variants = {"expected-time"}},
        &T::shadow_picker, ShadowPickerForm{{picker_form<PickerChoice>()}});
}

inline void prepare(Of<PickerConfig>, PickerConfig& picker) { picker.name.clear(); }

inline void finish(Of<PickerConfig>, Node& node, const PickerConfig& picker) {
  if (picker.shed > 0 && picker.shed < 1) {
    node.fail("has a `shed` between 0 and 1, which would refuse long prompts on idle backends",
              "write 0 for never, or 1 or more");
  }
  const auto shadow = node.child("shadow_picker");
  if (!shadow) return;
  if (picker.shadow_picker && picker.shadow_picker->name == "expected-time") {
    shadow->fail("expected-time cannot be compared: it learns from requests that it places",
                 "name another picker");
  } else if (picker.explain_one_in == 0u) {
    shadow->fail("is asked about no request: `explain_one_in` is 0",
                 "let that be 1 or more, or remove the key");
  }
}

void each_key(Of<AffinityConfig>, const auto& visit) {
  using T = AffinityConfig;
  visit(Key{"by",
            "What names the session of a request; the first of these that it has, but "
            "`response-id` before all others. `agent-session`: what coding agents send; "
            "`response-id`: OpenAI's ids of responses and conversations, as servers have handed "
            "them out; `header:NAME`: the value of a header field, of the request or of an answer; "
            "`cookie:NAME`: of a cookie of the application; `cookie`: of the cookie "
            "`evenkeel-session`, which evenkeel sets if a request has no session; `session_id`, "
            "`sequence_id`: of the body. `response-id` and the last two imply `inspect`."},
        &T::by,
        ListForm<TextForm>{TextForm{"a source", check_session_source}, "a list of sources", false});
  visit(Key{"mode",
            "What a session does while its backend is saturated. `hard`: its requests wait for it. "
            "`soft`: it moves; with `picker: expected-time` the scheduler's price decides."},
        &T::mode, EnumForm<AffinityMode>{"mode", {"soft", "hard"}});
  visit(Key{"ttl", "How long a session is remembered after its last request."}, &T::ttl,
        DurationForm{1s, 720h});
  visit(Key{"max_sessions",
            "How many sessions are remembered, at 18 bytes each. From half of it on, some that "
            "were idle longest make room for new ones."},
        &T::max_sessions, CountForm{1, 10 * million});
}

}  // namespace evenkeel::config_file
