#include "upstream/polled_source.h"

#include <algorithm>
#include <utility>

#include "evenkeel/base/log.h"
#include "evenkeel/upstream/redirect.h"

namespace evenkeel {
namespace {

/// Shortest delay between the end of a poll and the start of the next, whatever the file says.
constexpr Duration min_gap = std::chrono::milliseconds(1);

/// True if a retry would fail the same way, unlike that of a server that is starting or busy.
bool is_permanent_failure(int status) {
  const bool busy = status == 408 || status == 429 || (status >= 502 && status <= 504);
  return !busy;
}

}  // namespace

PolledSource::PolledSource(Loop& loop, ScrapeTarget target, NameResolver resolve,
                           const Options& options)
    : loop_(loop),
      scraper_(loop, std::move(target), std::move(resolve)),
      schedule_(options.interval, options.seed),
      timeout_(options.timeout),
      poll_now_(loop) {
  record_.interval = options.interval;
}

void PolledSource::change(Duration interval, Duration timeout) {
  schedule_.set_interval(interval);
  timeout_ = timeout;
  record_.interval = schedule_.interval();
  ++revision_;
}

Task<void> PolledSource::run() {
  Instant due = loop_.now() + schedule_.initial_delay();
  while (true) {
    co_await poll_now_.wait(due);
    const Instant began = loop_.now();
    if (resting()) {
      if (record_.state != PollRecord::State::resting) ++revision_;
      record_.state = PollRecord::State::resting;
      record_.reason.clear();
    } else {
      record_.asked = began;
      polling_ = true;
      auto scraped = co_await scraper_.read(*this, began + timeout_);
      polling_ = false;
      record_.took = loop_.now() - began;
      if (!scraped) {
        if (log::polling.writes(log::Level::debug))
          log::polling.debug("polling " + scraper_.url() + ": " + scraped.error().detail);
        fail(std::move(scraped.error().detail));
      } else if (std::string reason = evaluate(*scraped); reason.empty()) {
        succeed(*scraped);
      } else if (is_permanent_failure(scraped->status) && scraper_.drop_short_path()) {
        due = began;
        continue;  // retry at once with the full page
      } else {
        if (std::exchange(logged_, reason) != reason) {
          log::polling.warning("polling " + scraper_.url() + ": " + reason);
        }
        fail(std::move(reason));
      }
    }
    // Counts from when the poll was due, not from when it was late; missed polls are not made up
    // for.
    // A poll that came early counts as the one that was due.
    due = std::clamp(due, began - schedule_.interval(), began) + schedule_.next_delay();
    due = std::max(due, loop_.now() + min_gap);
  }
}

/// Why a response has no values; empty if it has.
std::string PolledSource::evaluate(const Scraped& scraped) {
  if (scraped.status == 200) return finish(scraped);
  std::string reason = describe_status(scraped.status, scraped.location);
  const bool absent = scraped.status == 404 || scraped.status == 501;
  if (absent && !required_option().empty())
    reason.append(": no metrics without ").append(required_option());
  return reason;
}

void PolledSource::succeed(const Scraped& scraped) {
  schedule_.on_success(scraped.took);
  last_success_ = loop_.now();
  forget_.arm(loop_, *last_success_ + schedule_.ttl());
  record_.state = PollRecord::State::fresh;
  record_.reason.clear();
  record_.interval = schedule_.interval();
  ++record_.readings_total;
  ++revision_;
  notify();
}

void PolledSource::fail(std::string reason) {
  schedule_.on_failure();
  record_.state = PollRecord::State::failing;
  record_.reason = std::move(reason);
  ++record_.failures_total;
  ++revision_;
}

}  // namespace evenkeel
