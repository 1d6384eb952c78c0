// A metrics page that is polled: an engine's, or a GPU exporter's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "evenkeel/base/loop.h"
#include "evenkeel/base/task.h"
#include "evenkeel/upstream/monitor_spec.h"
#include "evenkeel/upstream/poll_record.h"
#include "upstream/poll_schedule.h"
#include "upstream/scraper.h"

namespace evenkeel {

/// A user of the values of a source.
class ValuesObserver {
 public:
  /// There are new values, or the old ones have expired.
  virtual void on_values_changed() = 0;

 protected:
  ~ValuesObserver() = default;
};

/// Thread: the loop's.
class PolledSource : protected ScrapeObserver {
 public:
  struct Options {
    Duration interval;
    Duration timeout;
    std::uint64_t seed;
  };

  PolledSource(Loop& loop, ScrapeTarget target, NameResolver resolve, const Options& options);
  PolledSource(const PolledSource&) = delete;
  PolledSource& operator=(const PolledSource&) = delete;

  const PollRecord& record() const { return record_; }
  /// Differs from before whenever `record()` or the values do.
  std::uint64_t revision() const { return revision_; }
  /// When values last came in, even if they have expired.
  std::optional<Instant> last_success() const { return last_success_; }
  /// Polls at once, unless a poll is on its way.
  void poll_now() {
    if (!polling_) poll_now_.raise();
  }

 protected:
  ~PolledSource() = default;

  /// Polls from now on.
  void start() { running_ = run(); }
  /// Applies from the next poll on.
  void change(Duration interval, Duration timeout);

  /// True if a poll would do harm now.
  virtual bool resting() const = 0;
  /// The server option without which there is no page, for people; empty: none.
  virtual std::string_view required_option() const { return {}; }
  /// Takes the values of a complete response with status 200. Returns why there are none;
  /// empty if there are.
  virtual std::string finish(const Scraped& scraped) = 0;
  /// True if the body ends in the middle of a line or without its end mark, most likely because the
  /// connection closed. `reader`: an ExpositionReader or a reader that wraps one.
  template <class Reader>
  static bool is_truncated(const Scraped& scraped, const Reader& reader) {
    if (scraped.open_metrics) return !reader.ended();
    return !scraped.has_length && reader.has_partial_line();
  }
  /// The values have expired.
  virtual void forget() = 0;
  /// The values have changed.
  virtual void notify() = 0;

 private:
  Task<void> run();
  std::string evaluate(const Scraped& scraped);
  void succeed(const Scraped& scraped);
  void fail(std::string reason);

  void expire() {
    forget();
    ++revision_;
    notify();
  }

  Loop& loop_;
  Scraper scraper_;
  PollSchedule schedule_;
  Duration timeout_;
  PollRecord record_;
  std::uint64_t revision_ = 0;
  std::optional<Instant> last_success_;
  bool polling_ = false;
  std::string logged_;  // the last reason why a page had no values: each is logged once in a row
  Signal poll_now_;
  MethodTimer<&PolledSource::expire> forget_{*this};
  Task<void> running_;
};

}  // namespace evenkeel
