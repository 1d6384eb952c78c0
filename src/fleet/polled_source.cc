#include "fleet/polled_source.h"

#include <algorithm>
#include <utility>

namespace evenkeel {
namespace {

/// Between one reading's end and the next one's beginning, whatever the file says.
constexpr Duration shortest_rest = std::chrono::milliseconds(1);

/// An answer that will be the same tomorrow, unlike that of a server that is starting or busy.
bool says_no(int status) {
  const bool busy = status == 408 || status == 429 || (status >= 502 && status <= 504);
  return !busy;
}

}  // namespace

PolledSource::PolledSource(Loop& loop, ScrapePlace place, NameResolver resolve,
                           const Options& options)
    : loop_(loop),
      scraper_(loop, std::move(place), std::move(resolve)),
      rhythm_(options.interval, options.seed),
      timeout_(options.timeout) {
  record_.interval = options.interval;
}

void PolledSource::change(Duration interval, Duration timeout) {
  rhythm_.want(interval);
  timeout_ = timeout;
  record_.interval = rhythm_.interval();
}

Task<void> PolledSource::run() {
  Instant due = loop_.now() + rhythm_.phase();
  while (true) {
    co_await loop_.sleep_until(due);
    const Instant began = loop_.now();
    if (resting()) {
      record_.state = PollRecord::State::resting;
      record_.reason.clear();
    } else {
      record_.asked = began;
      auto scraped = co_await scraper_.read(*this, began + timeout_);
      record_.took = loop_.now() - began;
      if (!scraped) {
        fail(std::move(scraped.error().detail));
      } else if (std::string reason = judge(*scraped); reason.empty()) {
        succeed(*scraped);
      } else if (says_no(scraped->status) && scraper_.leave_short_path()) {
        continue;  // with the whole exposition, at once
      } else {
        fail(std::move(reason));
      }
    }
    // From when it was due, not from when it was late; what was missed is not made up for.
    due = std::max(due, began - rhythm_.interval()) + rhythm_.pause();
    due = std::max(due, loop_.now() + shortest_rest);
  }
}

/// Why an answer is none; empty if it is one.
std::string PolledSource::judge(const Scraped& scraped) {
  if (scraped.status == 200) return finish(scraped);
  std::string reason = "it answers " + std::to_string(scraped.status);
  const bool absent = scraped.status == 404 || scraped.status == 501;
  if (absent && !needs().empty()) reason.append(": it has none without ").append(needs());
  return reason;
}

void PolledSource::succeed(const Scraped& scraped) {
  rhythm_.answered(scraped.took);
  heard_ = loop_.now();
  forget_.arm(loop_, *heard_ + rhythm_.memory());
  record_.state = PollRecord::State::fresh;
  record_.reason.clear();
  record_.interval = rhythm_.interval();
  ++record_.readings_total;
  tell();
}

void PolledSource::fail(std::string reason) {
  rhythm_.failed();
  record_.state = PollRecord::State::failing;
  record_.reason = std::move(reason);
  ++record_.failures_total;
}

}  // namespace evenkeel
