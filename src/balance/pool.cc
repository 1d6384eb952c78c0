#include "evenkeel/balance/pool.h"

#include <algorithm>
#include <cassert>
#include <string_view>
#include <utility>

#include "balance/memory_guard.h"
#include "balance/upkeep.h"
#include "balance/waiting_line.h"

namespace evenkeel {
namespace {

// Places may come without notice: the back-off of a backend ends. See WaitingLine::look_again.
constexpr Duration look_interval = std::chrono::milliseconds(500);

// Spares come for servers that are down, and for load; not for one request that all others failed.
constexpr Duration longest_wait_for_spare = std::chrono::seconds(1);

// Lost races for the last place of a backend before a request lines up.
constexpr int hasty_picks = 16;

/// Gets new requests, or got none for no other reason than that nobody needed it.
bool within_reach(const Load& load) { return load.closures_but(Closure::standby) == 0; }

bool has_open(const Backends& backends, const Tried& tried) {
  return std::any_of(backends.begin(), backends.end(), [&](const auto& backend) {
    return backend->load().open() && !tried.contains(backend.get());
  });
}

Error refusal(Fault fault, std::string_view pool, const char* why) {
  return Error{.fault = fault, .side = Side::us, .detail = std::string(pool) + ": " + why};
}

}  // namespace

// ---- PoolState --------------------------------------------------------------------------------

PoolState::PoolState() = default;

std::shared_ptr<PoolState> PoolState::build(PoolSpec spec, const PoolState* predecessor) {
  auto state = std::shared_ptr<PoolState>(new PoolState);
  state->line_ = predecessor != nullptr ? predecessor->line_ : std::make_shared<WaitingLine>();
  state->upkeep_ = predecessor != nullptr ? predecessor->upkeep_ : std::make_shared<Upkeep>();

  std::unordered_map<std::string_view, const BackendPtr*> known;
  if (predecessor != nullptr) {
    for (const auto& backend : predecessor->backends()) known.emplace(backend->id(), &backend);
  }

  state->backends_ = std::make_shared<Backends>();
  state->backends_->reserve(spec.backends.size());
  for (const auto& wanted : spec.backends) {
    const auto found = known.find(wanted.id);
    if (found == known.end()) {
      state->backends_->push_back(std::make_shared<Backend>(wanted, state->line_));
    } else if ((*found->second)->spec() == wanted) {
      state->backends_->push_back(*found->second);
    } else {
      state->backends_->push_back(std::make_shared<Backend>(wanted, **found->second));
    }
    state->index_.emplace(&state->backends_->back()->load(), state->index_.size());
  }
  assert(state->index_.size() == spec.backends.size());

  state->maker_ = picker_maker(spec.picker, {.backends = state->backends_,
                                             .load_factor = spec.load_factor,
                                             .memory_guard = spec.memory_guard,
                                             .observed_weights = spec.observed_weights});
  assert(state->maker_);
  state->spec_ = std::move(spec);
  return state;
}

void PoolState::take_over() const {
  for (const auto& backend : *backends_) backend->take_over();
}

std::uint64_t PoolState::in_flight() const {
  std::uint64_t sum = 0;
  for (const auto& backend : *backends_) sum += backend->load().in_flight();
  return sum;
}

double PoolState::saturation_ratio() const {
  std::uint64_t places = 0;
  for (const auto& backend : *backends_) {
    if (backend->spec().max_in_flight == 0) return 0;
    places += backend->spec().max_in_flight;
  }
  if (places == 0) return 0;
  return static_cast<double>(in_flight()) / static_cast<double>(places);
}

std::size_t PoolState::standing(Instant now) const {
  return static_cast<std::size_t>(
      std::count_if(backends_->begin(), backends_->end(), [&](const auto& backend) {
        return backend->load().open() && !backend->load().avoided(now);
      }));
}

QueueCounts PoolState::queue() const { return line_->counts(); }

const BackendPtr* PoolState::find(const Load& load) const {
  const auto found = index_.find(&load);
  return found == index_.end() ? nullptr : &(*backends_)[found->second];
}

bool PoolState::has_hope(const Tried& tried) const {
  return std::any_of(backends_->begin(), backends_->end(), [&](const auto& backend) {
    return within_reach(backend->load()) && !tried.contains(backend.get());
  });
}

bool PoolState::has_standing(const Tried& tried, Instant now) const {
  return std::any_of(backends_->begin(), backends_->end(), [&](const auto& backend) {
    const Load& load = backend->load();
    return load.open() && !left_alone(load, now) && !tried.contains(backend.get());
  });
}

bool PoolState::left_alone(const Load& load, Instant now) const {
  return load.avoided(now) ||
         (spec_.memory_guard > 0 && over_memory_guard(load, spec_.memory_guard));
}

void PoolState::turn(Instant now) { upkeep_->turn(*this, now); }

// ---- Pool -------------------------------------------------------------------------------------

Pool::Pool(std::shared_ptr<PoolState> state, Loop& loop, std::uint64_t seed)
    : state_(std::move(state)), loop_(loop), picker_(state_->new_picker(seed)) {}

Task<Result<Lease>> Pool::place(const Hint& hint, Instant deadline) {
  if (!state_->line().occupied()) {
    const BackendPtr* backend = take_place(hint);
    if (backend != nullptr) return Lease::adopt(*backend);
  }
  if (!state_->has_hope(hint.tried)) return nobody_left();
  return wait_in_line(hint, deadline);
}

Error Pool::nobody_left() const {
  const bool tried_some = std::any_of(state_->backends().begin(), state_->backends().end(),
                                      [](const auto& each) { return within_reach(each->load()); });
  return refusal(Fault::no_backend, state_->spec().name,
                 tried_some ? "no backend is left to try" : "no backend is up");
}

const BackendPtr* Pool::take_place(const Hint& hint) {
  Hint timed = hint;
  timed.now = loop_.now();
  for (int pick = 0; pick < hasty_picks; ++pick) {
    const BackendPtr* backend = picker_->pick(timed);
    if (backend == nullptr || (*backend)->try_enter(timed.now)) return backend;
  }
  return nullptr;
}

Task<Result<Lease>> Pool::wait_in_line(Hint hint, Instant deadline) {
  const Instant began = Clock::now();
  const Instant until = std::min(deadline, began + state_->spec().queue.timeout);

  WaitingLine::Stand stand(*state_, loop_, hint);
  if (!stand.join(*picker_, began)) {
    co_return refusal(Fault::queue_full, state_->spec().name,
                      "all places are taken, so is the line");
  }
  while (!stand.granted() && loop_.now() < until) {
    auto wake = co_await stand.wait(std::min(until, loop_.now() + look_interval));
    if (wake == Wake::expired) stand.look_again(*picker_, loop_.now());
    if (stand.granted()) break;
    if (!state_->has_hope(hint.tried)) co_return nobody_left();
    const bool for_a_spare = !hint.tried.empty() && !has_open(state_->backends(), hint.tried);
    if (for_a_spare && loop_.now() - began >= longest_wait_for_spare) co_return nobody_left();
  }

  const Instant ended = Clock::now();
  BackendPtr backend = stand.take(ended);
  if (!backend) {
    co_return refusal(Fault::queue_timeout, state_->spec().name, "all places stayed taken");
  }
  co_return Lease::adopt(std::move(backend), ended - began);
}

}  // namespace evenkeel
