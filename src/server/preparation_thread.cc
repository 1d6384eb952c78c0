#include "server/preparation_thread.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <utility>

namespace evenkeel {
namespace {

constexpr int low_priority_niceness = 10;

}  // namespace

PreparationThread::PreparationThread(Loop& loop, const char* name) : loop_(loop) {
  state_->loop = &loop;
  thread_ = std::thread([state = state_] { serve(state); });
  pthread_setname_np(thread_.native_handle(), name);
}

PreparationThread::~PreparationThread() {
  std::unique_lock lock(state_->mutex);
  state_->stopping = true;
  state_->changed.notify_all();
  const bool ended = state_->changed.wait_for(lock, max_wait, [this] { return state_->ended; });
  state_->loop = nullptr;
  lock.unlock();
  if (ended) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

bool PreparationThread::busy() const {
  const std::lock_guard lock(state_->mutex);
  return state_->working || !state_->jobs.empty();
}

Task<void> PreparationThread::run_job(std::function<void()> work) {
  const auto job = std::make_shared<Job>(loop_, std::move(work));
  {
    const std::lock_guard lock(state_->mutex);
    state_->jobs.push_back(job);
  }
  state_->changed.notify_all();
  co_await job->done.wait();
}

void PreparationThread::lower_priority() {
  const std::lock_guard lock(state_->mutex);
  state_->low_priority = true;
}

void PreparationThread::serve(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  while (true) {
    state->changed.wait(lock, [&] { return state->stopping || !state->jobs.empty(); });
    if (state->stopping) break;
    const std::shared_ptr<Job> job = std::move(state->jobs.front());
    state->jobs.pop_front();
    state->working = true;
    const int niceness = state->low_priority ? low_priority_niceness : 0;
    lock.unlock();
    if (niceness != 0) setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), niceness);
    job->work();
    job->work = nullptr;  // what it holds is not the loop's to destroy
    lock.lock();
    state->working = false;
    if (state->loop != nullptr) state->loop->post([job] { job->done.raise(); });
  }
  state->ended = true;
  state->changed.notify_all();
}

}  // namespace evenkeel
