#include "server/worker_group.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <system_error>
#include <utility>

#include "evenkeel/base/free_memory.h"
#include "evenkeel/base/log.h"
#include "evenkeel/base/loop_liveness.h"

namespace evenkeel {
namespace {

/// How long the return of memory waits for a busy worker.
constexpr Duration max_release_wait = std::chrono::seconds(1);

/// A worker without an epoll watch for a listener tries again after this time.
constexpr Duration retry_interval = std::chrono::milliseconds(100);

}  // namespace

/// What all workers are to apply, and which of them have.
struct WorkerGroup::Change {
  enum class State : std::uint8_t { pending, failed, applied };

  Change(Loop& own, std::size_t workers) : applied(own), states(workers) {}

  std::shared_ptr<const Config> config;
  std::shared_ptr<const PoolSet> pool_set;
  std::shared_ptr<const KeyTable> keys;
  std::shared_ptr<const TokenIssuers> issuers;
  std::vector<ListenerAssignment> assignments;  // one per worker, or none
  Signal applied;                               // by one more worker
  std::vector<std::atomic<State>> states;       // of the workers
};

WorkerGroup::WorkerGroup(Loop& own, unsigned count, MetricsRegistry& metrics_registry,
                         AccessLog* access_log, AccessLog* usage_log, AuditLog* audit_log,
                         const MemoryPressureLevel& memory_pressure, bool may_busy_poll,
                         ScalingFeed* scaling)
    : own_(own) {
  for (unsigned i = 0; i < count; ++i) {
    const auto ring_of = [i](AccessLog* log) { return log == nullptr ? nullptr : &log->ring(i); };
    workers_.push_back(std::make_unique<Worker>(i, metrics_registry, ring_of(access_log),
                                                ring_of(usage_log), audit_log, memory_pressure,
                                                may_busy_poll, scaling));
    loops_.push_back(&workers_.back()->loop());
  }
}

/// All threads end before any worker is destroyed: they hand connections to each other.
WorkerGroup::~WorkerGroup() { stop(); }

void WorkerGroup::start() {
  for (const auto& worker : workers_) worker->start(workers_);
}

void WorkerGroup::stop() {
  for (const auto& worker : workers_) worker->stop();
}

Task<void> WorkerGroup::apply(std::shared_ptr<const Config> config,
                              std::shared_ptr<const PoolSet> pool_set,
                              std::vector<ListenerAssignment> assignments,
                              std::shared_ptr<const KeyTable> keys,
                              std::shared_ptr<const TokenIssuers> issuers) {
  const auto change = std::make_shared<Change>(own_, workers_.size());
  change->config = std::move(config);
  change->pool_set = std::move(pool_set);
  change->keys = std::move(keys);
  change->issuers = std::move(issuers);
  change->assignments = std::move(assignments);
  for (std::size_t i = 0; i < workers_.size(); ++i) pass_on(change, i);
  bool has_warned = false;
  const auto is_applied = [](const auto& state) { return state == Change::State::applied; };
  do {
    co_await change->applied.wait(own_.now() + retry_interval);
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      if (change->states[i] != Change::State::failed) continue;
      if (!std::exchange(has_warned, true)) {
        log::limits.warning(
            "a worker has too few epoll watches (fs.epoll.max_user_watches) for the new "
            "configuration; it tries again");
      }
      pass_on(change, i);
    }
  } while (!std::ranges::all_of(change->states, is_applied));
}

void WorkerGroup::pass_on(const std::shared_ptr<Change>& change, std::size_t index) {
  change->states[index] = Change::State::pending;
  Worker* const worker = workers_[index].get();
  worker->loop().post([&own = own_, worker, change, index] {
    try {
      worker->adopt(change->config, change->pool_set, change->keys, change->issuers);
      if (!change->assignments.empty()) worker->listen(change->assignments[index]);
    } catch (const std::system_error&) {  // no watch is left for a listener
      change->states[index] = Change::State::failed;
      return;
    }
    change->states[index] = Change::State::applied;
    own.post([change] { change->applied.raise(); });
  });
}

void WorkerGroup::apply(const std::shared_ptr<const KeyTable>& keys) {
  for (const auto& worker : workers_) {
    worker->loop().post([own = worker.get(), keys] { own->adopt(keys); });
  }
}

void WorkerGroup::apply(const std::shared_ptr<const TokenIssuers>& issuers) {
  for (const auto& worker : workers_) {
    worker->loop().post([own = worker.get(), issuers] { own->adopt(issuers); });
  }
}

void WorkerGroup::apply(const std::shared_ptr<const ModelCatalog>& models) {
  for (const auto& worker : workers_) {
    worker->loop().post([own = worker.get(), models] { own->adopt(models); });
  }
}

void WorkerGroup::suspect(const std::string& pool, const std::string& backend,
                          Duration max_silence) {
  for (const auto& worker : workers_) {
    worker->loop().post([own = worker.get(), pool, backend, max_silence] {
      own->suspect(pool, backend, max_silence);
    });
  }
}

void WorkerGroup::begin_drain(Retire how) {
  for (const auto& worker : workers_) worker->begin_drain(how);
}

void WorkerGroup::shed_idle(double share, ShedReason reason) {
  for (const auto& worker : workers_) worker->shed_idle(share, reason);
}

Task<void> WorkerGroup::release_memory() {
  for (Loop* worker : loops_) {
    worker->post([] {
      release_cached_objects();
      release_cached_blocks();
    });
  }
  co_await all_responsive(own_, loops_, own_.now() + max_release_wait);
  release_free_pages();
}

std::uint64_t WorkerGroup::connections() const {
  std::uint64_t sum = 0;
  for (const auto& worker : workers_) sum += worker->connections();
  return sum;
}

std::uint64_t WorkerGroup::take_peak_connections() const {
  std::uint64_t sum = 0;
  for (const auto& worker : workers_) sum += worker->take_peak_connections();
  return sum;
}

}  // namespace evenkeel
