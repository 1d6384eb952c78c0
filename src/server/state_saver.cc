#include "server/state_saver.h"

#include <utility>

#include "evenkeel/base/log.h"
#include "evenkeel/state/saved_schedulers.h"

namespace evenkeel {
namespace {

constexpr Duration write_interval = std::chrono::minutes(1);

}  // namespace

Task<void> StateSaver::save_periodically() {
  while (true) {
    co_await save();
    co_await loop_.sleep_for(write_interval);
  }
}

Task<void> StateSaver::save() {
  const std::string path = reloader_.config().state_file;
  std::string problem;
  if (!path.empty() && !stopped_) {
    const Instant taken = Clock::now();
    SavedState state = reloader_.saved_state();
    // Here, and not there: a thread of low priority would make workers wait for schedulers' locks.
    add_schedulers(state, *reloader_.pool_set(), 0, taken);
    auto write = [writer = writer_, path, state = std::move(state), taken] {
      return writer->write(path, to_bytes(state), taken);
    };
    problem = co_await reloader_.run_blocking(std::move(write));
  }
  report(problem);
}

void StateSaver::save_at_exit() {
  if (stopped_ || !status_.snapshot()->ready) return;
  const std::string& path = reloader_.config().state_file;
  if (path.empty()) return;
  // Collecting prefixes takes up to a second or two; whatever ends the process by then loses them
  // alone.
  for (const std::size_t max_prefixes : {std::size_t{0}, max_saved_prefixes}) {
    SavedState state = reloader_.saved_state();
    const Instant now = Clock::now();
    add_schedulers(state, *reloader_.pool_set(), max_prefixes, now);
    report(writer_->write(path, to_bytes(state), now));
  }
}

/// Logs a problem when it begins and when it ends, not every minute.
void StateSaver::report(const std::string& problem) {
  const std::string before = status_.snapshot()->state_file_problem;
  if (problem == before) return;
  if (problem.empty()) {
    const bool is_saved = !reloader_.config().state_file.empty();
    if (is_saved) log::state.info("the state file is written again");
  } else if (before.empty()) {
    log::state.warning("the state is not saved: " + problem);
  }
  status_.update([&](RuntimeStatus& status) { status.state_file_problem = problem; });
}

}  // namespace evenkeel
