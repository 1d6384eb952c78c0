#include "server/change_queue.h"

#include <algorithm>
#include <utility>

namespace evenkeel {

Task<void> ChangeQueue::run(Change change) {
  const auto entry = std::make_shared<Entry>(loop_, "", std::move(change));
  entries_.push_back(entry);
  queued_.raise();
  co_await entry->done.wait();
}

void ChangeQueue::post(std::string_view name, Change change) {
  const bool queued = std::any_of(entries_.begin(), entries_.end(),
                                  [name](const auto& entry) { return entry->name == name; });
  if (queued) return;
  entries_.push_back(std::make_shared<Entry>(loop_, name, std::move(change)));
  queued_.raise();
}

Task<void> ChangeQueue::serve() {
  while (true) {
    while (!entries_.empty()) {
      const auto entry = std::move(entries_.front());
      entries_.pop_front();
      co_await entry->change();
      entry->done.raise();
      co_await loop_
          .yield();  // a change may not have waited at all: signals and checks come between
    }
    co_await queued_.wait();
  }
}

}  // namespace evenkeel
