// Records of what a scheduler decided: what they hold, how long they are kept, who gets one.
#include "evenkeel/scheduler/decision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "evenkeel/base/loop.h"
#include "evenkeel/pool/pool.h"
#include "evenkeel/scheduler/request_cost.h"
#include "pool/decision_log.h"
#include "pool/some_pool.h"

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// ---- DecisionLog ------------------------------------------------------------------------------

std::size_t kept(const DecisionLog& log, std::string_view name) {
  std::size_t count = 0;
  log.each(name, [&](const Decision&) { ++count; });
  return count;
}

TEST(DecisionLog, ForgetsTheOneThatEndedFirst) {
  DecisionLog log(2);
  Decision* const a = log.begin("a");
  Decision* const b = log.begin("b");
  log.end(*b);
  log.end(*a);
  log.begin("c");

  EXPECT_EQ(kept(log, "a"), 1u);
  EXPECT_EQ(kept(log, "b"), 0u);
  EXPECT_EQ(kept(log, "c"), 1u);
}

TEST(DecisionLog, KeepsThoseOfRequestsInFlight) {
  DecisionLog log(2);
  log.begin("a");
  log.begin("b");

  EXPECT_EQ(log.begin("c"), nullptr);
  EXPECT_EQ(kept(log, "a") + kept(log, "b"), 2u);
}

TEST(DecisionLog, FindsEveryAttemptAndBeginsEachAnew) {
  DecisionLog log(2);
  Decision* const first = log.begin("retried");
  first->looks = 7;
  log.end(*first);
  log.begin("retried");
  EXPECT_EQ(kept(log, "retried"), 2u);

  EXPECT_EQ(log.begin("other")->looks, 0u) << "in the place of the first attempt";
  EXPECT_EQ(kept(log, "retried"), 1u);
}

TEST(DecisionLog, FindsNamesThatAreTooLongByTheirBeginning) {
  DecisionLog log(1);
  const std::string name(Decision::max_name + 10, 'x');
  EXPECT_EQ(log.begin(name)->name().size(), Decision::max_name);
  EXPECT_EQ(kept(log, name), 1u);
}

// ---- the scheduler ----------------------------------------------------------------------------

class RecordedScheduler : public ::testing::Test {
 protected:
  RecordedScheduler() {
    for (std::uint32_t slot = 0; slot < 2; ++slot) {
      scheduler_.add_backend(slot, {.identity = slot + 100, .kv_tokens = 1'000'000});
    }
  }
  Scheduler::Ticket arrive(std::uint32_t tokens, Decision* decision) {
    return scheduler_.arrive({.prompt_tokens = tokens, .decision = decision}, now_);
  }

  Scheduler scheduler_{{.slots = 2, .config = {.slo = {.ttft = 2s}, .index_bytes = 1 << 20}}};
  Instant now_{12h};
};

TEST_F(RecordedScheduler, RecordsEachPartOfTheCost) {
  Decision decision;
  arrive(5000, &decision);
  now_ += 500ms;
  scheduler_.place(now_);

  ASSERT_EQ(decision.state, Decision::State::placed);
  EXPECT_EQ(decision.prompt_tokens, 5000u);
  EXPECT_EQ(decision.ttft_target, 2.0);
  EXPECT_EQ(decision.waited, 500ms);
  EXPECT_EQ(decision.considered, 2u);
  ASSERT_EQ(decision.candidate_count, 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    const CandidateCost& each = decision.candidates[i];
    const double ttft = each.wait + each.promised + each.prefill;
    EXPECT_NEAR(each.lateness, std::pow((0.5 + ttft) / 2, 2), 1e-9);
    EXPECT_NEAR(each.cost,
                ttft + each.lateness + 0.5 * each.prefill + 2 * each.violations +
                    0.1 * each.decode + each.memory,
                1e-9);
    EXPECT_EQ(each.cached + each.uncached, 5000);
    EXPECT_GT(each.decode, 0);
    EXPECT_EQ(each.confidence, Confidence::cold);
    EXPECT_TRUE(std::isinf(each.heard_age)) << "none of its responses told anything yet";
  }
  EXPECT_NEAR(seconds_of(decision.predicted_ttft), decision.candidates[0].prefill, 1e-6);
  EXPECT_GT(decision.predicted_output, 0);
}

TEST_F(RecordedScheduler, RecordsWhyItWasHeldAndHowLong) {
  for (int i = 0; i < 2; ++i) arrive(40'000, nullptr);
  const auto busy = scheduler_.place(now_);
  ASSERT_EQ(busy.size(), 2u);
  const auto [first, there] = std::pair(busy[0].ticket, busy[0].backend);
  Decision decision;
  arrive(1000, &decision);
  scheduler_.place(now_);
  ASSERT_EQ(decision.state, Decision::State::waits);
  EXPECT_EQ(decision.looks, 0u) << "no backend is ready";

  now_ += 300ms;
  scheduler_.first_token(first, now_);
  scheduler_.place(now_);

  ASSERT_EQ(decision.state, Decision::State::placed);
  EXPECT_EQ(decision.chosen, there);
  EXPECT_NEAR(decision.held_seconds[static_cast<std::size_t>(HeldBy::order)], 0.3, 1e-9);
}

TEST_F(RecordedScheduler, RecordsAsHeldWhatNoBackendMayTake) {
  Decision decision;
  const SlotSet none;
  scheduler_.arrive({.prompt_tokens = 100, .allowed = &none, .decision = &decision}, now_);
  scheduler_.place(now_);
  EXPECT_EQ(decision.state, Decision::State::waits);
  EXPECT_EQ(decision.considered, 0u);
}

TEST_F(RecordedScheduler, KnowsWhenAResponseLastToldSomething) {
  const auto first = arrive(100, nullptr);
  const auto placed = scheduler_.place(now_);
  const std::uint32_t heard = placed[0].backend;
  now_ += 20ms;
  scheduler_.first_token(first, now_);
  now_ += 1s;
  Decision decision;
  arrive(100, &decision);
  scheduler_.place(now_);

  for (std::size_t i = 0; i < decision.candidate_count; ++i) {
    if (decision.candidates[i].slot != heard) continue;
    EXPECT_NEAR(decision.candidates[i].heard_age, 1, 1e-9);
    EXPECT_EQ(decision.candidates[i].streams, 1);
  }
}

TEST_F(RecordedScheduler, PricesTheChoiceOfAShadow) {
  Decision decision;
  decision.shadow = 1;
  arrive(20'000, nullptr);
  const auto placed = scheduler_.place(now_);
  const std::uint32_t busy = placed[0].backend;
  decision.shadow = busy;
  arrive(1000, &decision);
  scheduler_.place(now_);

  EXPECT_EQ(decision.best, 1 - busy);
  EXPECT_GT(decision.shadow_cost, decision.best_cost + 1) << "it would wait for the long prompt";
}

TEST_F(RecordedScheduler, ARecordChangesNoDecision) {
  Scheduler plain{{.slots = 2, .config = {.slo = {.ttft = 2s}, .index_bytes = 1 << 20}}};
  for (std::uint32_t slot = 0; slot < 2; ++slot) {
    plain.add_backend(slot, {.identity = slot + 100, .kv_tokens = 1'000'000});
  }
  std::vector<Decision> decisions(200);
  for (std::size_t i = 0; i < decisions.size(); ++i) {
    const auto tokens = static_cast<std::uint32_t>(100 + i * 37 % 3000);
    decisions[i].shadow = static_cast<std::uint32_t>(i % 3);  // also one that is not there
    arrive(tokens, &decisions[i]);
    plain.arrive({.prompt_tokens = tokens}, now_);
    const auto recorded = scheduler_.place(now_);
    const auto unrecorded = plain.place(now_);
    ASSERT_EQ(recorded.size(), unrecorded.size());
    for (std::size_t j = 0; j < recorded.size(); ++j) {
      ASSERT_EQ(recorded[j].ticket, unrecorded[j].ticket);
      ASSERT_EQ(recorded[j].backend, unrecorded[j].backend);
      scheduler_.first_token(recorded[j].ticket, now_ + 30ms);
      plain.first_token(unrecorded[j].ticket, now_ + 30ms);
      scheduler_.finished(recorded[j].ticket, {.output_tokens = 10}, now_ + 60ms);
      plain.finished(unrecorded[j].ticket, {.output_tokens = 10}, now_ + 60ms);
    }
    now_ += 70ms;
  }
}

TEST(RecordedRefusals, ChangeNoDecision) {
  const SchedulerOptions options{
      .slots = 2, .config = {.slo = {.ttft = 300ms}, .shed = 1, .index_bytes = 1 << 20}};
  Scheduler recorded{options};
  Scheduler plain{options};
  for (std::uint32_t slot = 0; slot < 2; ++slot) {
    for (Scheduler* const each : {&recorded, &plain}) each->add_backend(slot, {.identity = slot});
  }
  Instant now(12h);
  std::vector<Decision> decisions(60);
  std::deque<std::pair<Instant, Scheduler::Ticket>> started;
  std::size_t refused = 0;
  for (std::size_t i = 0; i < decisions.size(); ++i, now += 50ms) {
    const std::vector<std::uint64_t> blocks{1, i % 5};
    const Arrival arrival{.prompt_tokens = static_cast<std::uint32_t>(i * 997 % 9000),
                          .prefix_blocks = blocks};
    Arrival with_record = arrival;
    with_record.decision = &decisions[i];
    recorded.arrive(with_record, now);
    plain.arrive(arrival, now);
    const auto placed = recorded.place(now);
    const auto expected = plain.place(now);
    ASSERT_EQ(placed.size(), expected.size());
    for (std::size_t j = 0; j < placed.size(); ++j) {
      ASSERT_EQ(placed[j].ticket, expected[j].ticket);
      ASSERT_EQ(placed[j].backend, expected[j].backend);
      if (placed[j].backend == Scheduler::no_backend) {
        ++refused;
        continue;
      }
      started.emplace_back(now + 400ms, placed[j].ticket);
    }
    for (; !started.empty() && started.front().first <= now; started.pop_front()) {
      for (Scheduler* const each : {&recorded, &plain}) {
        each->first_token(started.front().second, now);
        each->finished(started.front().second, {.output_tokens = 1}, now);
      }
    }
  }
  EXPECT_GT(refused, 5u);
  EXPECT_LT(refused, 55u);
}

TEST(CompactText, TellsAllThatAnAdapterCosts) {
  ExplainedDecision explained;
  explained.decision.candidate_count = 1;
  explained.decision.candidates[0] = {.load = 0.25, .eviction = 0.125};

  EXPECT_THAT(compact_text(explained), HasSubstr(";l=0.375;"));
}

// ---- a pool -----------------------------------------------------------------------------------

class RecordedPool : public ::testing::Test {
 protected:
  static PoolSpec recorded_pool(int backends, std::uint32_t explain_one_in, std::string shadow) {
    PoolSpec spec = some_pool(static_cast<std::size_t>(backends), 0);
    spec.config.picker.name = "expected-time";
    spec.config.picker.index_bytes = 1 << 20;
    spec.config.picker.explain_one_in = explain_one_in;
    if (!shadow.empty()) spec.config.picker.shadow_picker = {.name = std::move(shadow)};
    return spec;
  }
  void given(int backends, std::uint32_t explain_one_in = 0, std::string shadow = {}) {
    given(recorded_pool(backends, explain_one_in, std::move(shadow)));
  }
  /// A second call is a reload.
  void given(PoolSpec spec) {
    state_ = PoolState::build(std::move(spec), state_.get());
    state_->activate();
    pool_.emplace(state_, loop_, 1);
  }
  Task<Result<Lease>> acquire(std::uint32_t tokens, std::string_view name, bool asks,
                              std::optional<std::uint64_t> key = {}) {
    costs_.push_back(std::make_unique<RequestCost>(
        RequestCost{.arrival = {.prompt_tokens = tokens}, .name = name, .wants_record = asks}));
    Hint hint{.key = key};
    hint.cost = costs_.back().get();
    return pool_->acquire(hint);
  }
  Lease acquire_now(std::uint32_t tokens, std::string_view name, bool asks = true) {
    auto task = acquire(tokens, name, asks);
    EXPECT_TRUE(task.ready());
    return std::move(*task.take());
  }

  Loop loop_;
  std::shared_ptr<PoolState> state_;
  std::optional<Pool> pool_;
  std::vector<std::unique_ptr<RequestCost>> costs_;
};

TEST_F(RecordedPool, TellsWhatCameTrue) {
  given(2);
  Lease lease = acquire_now(500, "id-1");
  const auto at_once = lease.placed()->explanation();
  ASSERT_TRUE(at_once);
  EXPECT_EQ(at_once->decision.state, Decision::State::placed);
  EXPECT_EQ(at_once->backend(at_once->decision.chosen), lease.backend()->id());
  EXPECT_THAT(compact_text(*at_once), StartsWith("backend=\"" + lease.backend()->id() + "\""));
  EXPECT_THAT(compact_text(*at_once), HasSubstr("of=2"));

  const Instant sent = Clock::now();
  lease.placed()->first_token(sent + 1s);
  lease.placed()->finished({.output_tokens = 9, .cached_tokens = 400}, 0, sent + 2s);
  lease.release();

  const auto kept = state_->scheduled()->decisions("id-1");
  ASSERT_EQ(kept.size(), 1u);
  const Decision& decision = kept[0].decision;
  EXPECT_EQ(decision.state, Decision::State::finished);
  EXPECT_NEAR(seconds_of(decision.ttft.value()), 1, 0.5);
  EXPECT_EQ(decision.output, 9u);
  EXPECT_EQ(decision.cached, 400u);
  EXPECT_NEAR(seconds_of(decision.took.value()), 2, 0.5);
  EXPECT_TRUE(state_->scheduled()->decisions("id-2").empty());
}

TEST_F(RecordedPool, TellsOfEachAttempt) {
  given(2);
  acquire_now(500, "id-1").release();
  acquire_now(500, "id-1").placed()->finished({}, 0, Clock::now());

  const auto kept = state_->scheduled()->decisions("id-1");
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_EQ(kept[0].decision.state, Decision::State::failed);
  EXPECT_EQ(kept[1].decision.state, Decision::State::finished);
}

TEST_F(RecordedPool, TellsApartRequestsOfOneName) {
  given(1);
  const Lease first = acquire_now(40'000, "first");
  const auto of_request = [](std::uint32_t tokens, std::uint64_t request) {
    return RequestCost{.arrival = {.prompt_tokens = tokens},
                       .name = "same",
                       .request = request,
                       .wants_record = true};
  };
  const RequestCost a = of_request(500, 1);
  const RequestCost b = of_request(900, 2);
  std::optional earlier(pool_->acquire({.cost = &a}));
  const auto later = pool_->acquire({.cost = &b});
  earlier.reset();

  ASSERT_EQ(state_->scheduled()->decisions("same").size(), 2u);
  EXPECT_EQ(state_->scheduled()->last_decision("same", 1)->decision.prompt_tokens, 500u);
  EXPECT_EQ(state_->scheduled()->last_decision("same", 1)->decision.state, Decision::State::left);
  EXPECT_EQ(state_->scheduled()->last_decision("same", 2)->decision.state, Decision::State::waits);
  EXPECT_FALSE(state_->scheduled()->last_decision("same", 3));
  EXPECT_FALSE(state_->scheduled()->last_decision("first", 1));
}

TEST_F(RecordedPool, TellsOfTheLastOnesOfAName) {
  given(2);
  for (std::uint32_t i = 1; i <= 40; ++i) acquire_now(i, "same").release();

  const auto kept = state_->scheduled()->decisions("same");
  ASSERT_EQ(kept.size(), 16u);
  EXPECT_EQ(kept.front().decision.prompt_tokens, 25u);
  EXPECT_EQ(kept.back().decision.prompt_tokens, 40u);
  for (std::size_t i = 1; i < kept.size(); ++i) {
    EXPECT_LT(kept[i - 1].decision.number, kept[i].decision.number);
  }
}

TEST_F(RecordedPool, TellsOfRequestsThatLeftTheQueue) {
  given(1);
  const Lease first = acquire_now(40'000, "first");
  {
    auto waiting = acquire(500, "left", true);
    ASSERT_FALSE(waiting.ready());
    ASSERT_EQ(state_->scheduled()->decisions("left")[0].decision.state, Decision::State::waits);
  }
  const auto left = state_->scheduled()->decisions("left");
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].decision.state, Decision::State::left);
  EXPECT_EQ(left[0].decision.chosen, Scheduler::no_backend);
}

TEST_F(RecordedPool, TellsOfAMoveToALaterVersionOfThePool) {
  given(1, 1, "least-connections");
  const Lease first = acquire_now(40'000, "first");
  auto waiting = acquire(500, "moved", true);
  ASSERT_FALSE(waiting.ready());
  const auto next = PoolState::build(recorded_pool(1, 1, "least-connections"), state_.get());
  const Pool next_pool(next, loop_, 1);
  pool_->hand_queue_to(&next_pool);

  const auto moved = state_->scheduled()->decisions("moved");
  ASSERT_EQ(moved.size(), 2u);
  EXPECT_EQ(moved[0].decision.state, Decision::State::moved);
  EXPECT_EQ(moved[1].decision.state, Decision::State::waits);
  EXPECT_EQ(state_->queue().waiting, 1u);
  EXPECT_EQ(state_->scheduled()->stats().shadow->compared_total, 1u) << "of the first one";
}

TEST_F(RecordedPool, TellsOfRequestsThatLeaveJustAsTheyArePlaced) {
  given(1);
  Lease first = acquire_now(40'000, "first");
  {
    auto waiting = acquire(500, "leaves", true);
    first.release();
    ASSERT_EQ(state_->scheduled()->decisions("leaves")[0].decision.state, Decision::State::placed);
    ASSERT_FALSE(waiting.ready());
  }

  const auto kept = state_->scheduled()->decisions("leaves");
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_EQ(kept[0].decision.state, Decision::State::left);
  EXPECT_NE(acquire_now(500, "next").placed(), nullptr) << "its slot is free";
}

TEST_F(RecordedPool, TellsWhyRequestsAreRefused) {
  PoolSpec spec = recorded_pool(2, 0, "");
  spec.config.picker.slo.ttft = 10ms;
  spec.config.picker.shed = 1;
  given(spec);
  const Lease busy = acquire_now(100, "busy", false);
  Lease other = acquire_now(100, "other", false);
  auto waiting = acquire(100, "late", true);
  ASSERT_FALSE(waiting.ready());
  loop_.run_until([&] { return waiting.ready(); }, Clock::now() + 10s);

  const auto result = waiting.take();
  EXPECT_EQ(result.error().fault, Fault::queue_full);
  const auto kept = state_->scheduled()->decisions("late");
  ASSERT_EQ(kept.size(), 1u);
  const Decision& decision = kept[0].decision;
  EXPECT_EQ(decision.state, Decision::State::refused);
  EXPECT_GT(seconds_of(decision.waited) + decision.least_prefill, decision.ttft_target);
  EXPECT_EQ(decision.candidate_count, 2u);
  EXPECT_THAT(compact_text(kept[0]), StartsWith("state=refused, waited=0."));
  EXPECT_THAT(compact_text(kept[0]), HasSubstr("prompt=0."));
  EXPECT_THAT(compact_text(kept[0]), HasSubstr("of=2, c1="));
}

TEST_F(RecordedPool, TellsOfRequestsThatTheQueueHasNoPlaceFor) {
  PoolSpec spec = recorded_pool(1, 0, "");
  spec.config.limits.queue.size = 1;
  given(spec);
  const Lease busy = acquire_now(40'000, "busy", false);
  const auto waiting = acquire(100, "waiting", false);
  auto refused = acquire(100, "refused", true);
  ASSERT_TRUE(refused.ready());
  EXPECT_FALSE(refused.take().ok());

  const auto kept = state_->scheduled()->decisions("refused");
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_THAT(compact_text(kept[0]), StartsWith("state=left, waited=0.000"));
}

TEST_F(RecordedPool, RecordsOnlyThoseThatAskUnlessItSamples) {
  given(2);
  for (int i = 0; i < 100; ++i) acquire_now(10, "quiet", false).release();
  EXPECT_TRUE(state_->scheduled()->decisions("quiet").empty());

  given(2, 4);
  for (int i = 0; i < 12; ++i) acquire_now(10, "sampled", false).release();
  EXPECT_EQ(state_->scheduled()->decisions("sampled").size(), 3u);
}

TEST_F(RecordedPool, SamplesDoNotPushOutWhatSomebodyAskedFor) {
  given(1, 1);
  acquire_now(10, "asked").release();
  for (int i = 0; i < 1000; ++i) acquire_now(10, "sampled", false).release();
  EXPECT_EQ(state_->scheduled()->decisions("asked").size(), 1u);
}

TEST_F(RecordedPool, ComparesAShadowPickerThatTakesNoSlots) {
  given(3, 1, "least-connections");
  std::vector<Lease> leases;
  for (int i = 0; i < 3; ++i) leases.push_back(acquire_now(20'000, "id", false));

  const ShadowStats shadow = state_->scheduled()->stats().shadow.value();
  EXPECT_EQ(shadow.compared_total + shadow.unavailable_total, 3u);
  EXPECT_GE(shadow.compared_total, shadow.agreed_total);
  EXPECT_EQ(state_->in_flight(), 3u);
  for (const auto& backend : state_->backends()) EXPECT_EQ(backend->slots().in_flight(), 1u);
}

TEST_F(RecordedPool, AShadowThatIgnoresLongPromptsIsDearer) {
  given(2, 1, "round-robin");
  const Lease busy = acquire_now(40'000, "long", false);
  for (int i = 0; i < 20; ++i) {
    Lease lease = acquire_now(200, "short", false);
    lease.placed()->first_token(Clock::now());
    lease.placed()->finished({.output_tokens = 1}, 0, Clock::now());
  }
  const ShadowStats shadow = state_->scheduled()->stats().shadow.value();
  EXPECT_GT(shadow.regret_sum, 5s) << "it sends half of them behind the long one";
  EXPECT_LT(shadow.gain_sum, 100ms);
  EXPECT_LT(shadow.agreed_total, shadow.compared_total);
}

TEST_F(RecordedPool, AShadowByKeySendsWhatIsAlikeToOneBackend) {
  for (const char* const picker : {"prefix-affinity", "consistent-hash"}) {
    given(4, 1, picker);
    std::set<std::uint32_t> chosen;
    const std::vector<std::uint64_t> blocks{17, 18};
    for (int i = 0; i < 8; ++i) {
      const auto found = pool_->key_of({}, {.blocks = blocks});
      EXPECT_EQ(found.has_value(), std::string_view(picker) == "prefix-affinity");
      auto task = acquire(10, picker, true, found.value_or(17));
      task.take()->release();
    }
    for (const auto& each : state_->scheduled()->decisions(picker))
      chosen.insert(each.decision.shadow);
    EXPECT_EQ(chosen.size(), 1u) << picker;
    EXPECT_EQ(chosen.count(Scheduler::no_backend), 0u);
  }
}

TEST_F(RecordedPool, TheMemoryGuardOfAShadowIsItsOwn) {
  PoolSpec spec = recorded_pool(2, 1, "gpu");
  spec.config.picker.shadow_picker->memory_guard = 0.9;
  given(spec);
  state_->backends()[0]->signals().publish({.kv_cache_ratio = 0.99}, Clock::now(), 0);
  for (int i = 0; i < 8; ++i) acquire_now(10, "id").release();

  for (const auto& each : state_->scheduled()->decisions("id")) {
    EXPECT_EQ(each.backend(each.decision.shadow), state_->backends()[1]->id());
  }
  EXPECT_EQ(state_->config().picker.guard(), 0) << "the scheduler has none";
}

TEST_F(RecordedPool, AShadowHasNoSayAboutPinnedRequests) {
  given(2, 1, "round-robin");
  auto task = acquire(10, "free", true);
  const SharedBackend& pinned = task.take()->backend()->shared();
  const RequestCost cost{.arrival = {.prompt_tokens = 10}, .name = "pinned", .wants_record = true};
  const Hint hint{.pinned = &pinned, .cost = &cost};
  pool_->acquire(hint).take()->release();

  EXPECT_NE(state_->scheduled()->decisions("free").at(0).decision.shadow, Scheduler::no_backend);
  EXPECT_EQ(state_->scheduled()->decisions("pinned").at(0).decision.shadow, Scheduler::no_backend);
}

TEST_F(RecordedPool, CountsOfAShadowGoOnUntilItIsAnotherOne) {
  const auto compared = [this] { return state_->scheduled()->stats().shadow->compared_total; };
  given(2, 1, "round-robin");
  const Lease from_before = acquire_now(10, "id", false);
  given(2, 1, "round-robin");
  EXPECT_EQ(compared(), 1u);
  acquire_now(10, "id", false).release();
  EXPECT_EQ(compared(), 2u);

  const auto former = state_;
  Pool worker_that_lags(former, loop_, 1);
  given(2, 1, "least-connections");
  EXPECT_EQ(compared(), 0u);
  const RequestCost late{.arrival = {.prompt_tokens = 10}, .name = "late"};
  worker_that_lags.acquire({.cost = &late}).take()->release();
  EXPECT_EQ(compared(), 0u) << "its choice was that of the former one";
  EXPECT_EQ(former->scheduled()->stats().shadow->compared_total, 3u);

  given(2, 1);
  acquire_now(10, "id", false).release();
  EXPECT_FALSE(state_->scheduled()->stats().shadow);
  given(2, 1, "round-robin");
  EXPECT_EQ(compared(), 0u);
}

TEST_F(RecordedPool, WithoutAShadowNothingIsCompared) {
  given(2, 1);
  acquire_now(10, "id", false).release();
  EXPECT_FALSE(state_->scheduled()->stats().shadow);
  EXPECT_EQ(state_->new_shadow_picker(1), nullptr);
}

}  // namespace
}  // namespace evenkeel::testing
