#include "server/preparation_thread.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <utility>

namespace evenkeel {
namespace {

/// A large file yields to the workers where they share a core.
constexpr int niceness = 10;

}  // namespace

PreparationThread::PreparationThread(Loop& loop) : loop_(loop), thread_([this] { serve(); }) {}

PreparationThread::~PreparationThread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Task<void> PreparationThread::run(Work work) {
  const auto job = std::make_shared<Job>(loop_, std::move(work));
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(job);
  }
  changed_.notify_all();
  co_await job->done.wait();
}

void PreparationThread::serve() {
  pthread_setname_np(pthread_self(), "preparation");
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), niceness);
  while (true) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    if (stopping_) return;
    const std::shared_ptr<Job> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job->work();
    job->work = nullptr;  // what it holds is not the loop's to destroy
    loop_.post([job] { job->done.raise(); });
  }
}

}  // namespace evenkeel
