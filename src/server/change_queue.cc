#include "server/change_queue.h"

#include <algorithm>

namespace evenkeel {

bool ChangeQueue::is_queued(std::string_view name) const {
  return std::ranges::find(entries_, name, &Entry::name) != entries_.end();
}

void ChangeQueue::queue(std::string_view name, std::function<Task<void>()> change) {
  entries_.push_back({name, std::move(change)});
  queued_.raise();
}

Task<void> ChangeQueue::serve() {
  while (true) {
    while (!entries_.empty()) {
      const Entry entry = std::move(entries_.front());
      entries_.pop_front();
      co_await entry.change();
      co_await loop_
          .yield();  // a change may not have waited at all: signals and checks come between
    }
    co_await queued_.wait();
  }
}

}  // namespace evenkeel
