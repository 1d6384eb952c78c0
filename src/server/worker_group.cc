#include "server/worker_group.h"

#include <cstddef>
#include <utility>

#include "evenkeel/base/free_memory.h"
#include "evenkeel/base/loop_liveness.h"

namespace evenkeel {
namespace {

/// How long the return of memory waits for a busy worker.
constexpr Duration max_release_wait = std::chrono::seconds(1);

}  // namespace

WorkerGroup::WorkerGroup(Loop& own, unsigned count, MetricsRegistry& metrics_registry,
                         AccessLog* access_log, const MemoryPressureLevel& memory_pressure)
    : own_(own) {
  for (unsigned i = 0; i < count; ++i) {
    AccessLogRing* ring = access_log == nullptr ? nullptr : &access_log->ring(i);
    workers_.push_back(std::make_unique<Worker>(i, metrics_registry, ring, memory_pressure));
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
                              std::vector<ListenerAssignment> assignments) {
  struct Barrier {
    explicit Barrier(Loop& loop) : passed(loop) {}
    Signal passed;
    std::size_t remaining = 0;
  };
  const auto barrier = std::make_shared<Barrier>(own_);
  barrier->remaining = workers_.size();
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    Worker* const worker = workers_[i].get();
    const auto assignment =
        assignments.empty() ? nullptr
                            : std::make_shared<const ListenerAssignment>(std::move(assignments[i]));
    worker->loop().post([&own = own_, worker, assignment, barrier, config, pool_set] {
      worker->adopt(config, pool_set);
      if (assignment != nullptr) worker->listen(*assignment);
      own.post([barrier] {
        if (--barrier->remaining == 0) barrier->passed.raise();
      });
    });
  }
  co_await barrier->passed.wait();
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
