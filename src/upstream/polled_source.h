// One exposition that is read again and again: an engine's, or a GPU exporter's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "evenkeel/base/loop.h"
#include "evenkeel/base/task.h"
#include "evenkeel/upstream/metrics_poller.h"
#include "upstream/poll_schedule.h"
#include "upstream/scraper.h"

namespace evenkeel {

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
  /// When values came last, be they forgotten or not.
  std::optional<Instant> last_success() const { return last_success_; }

 protected:
  ~PolledSource() = default;

  /// Reads from now on.
  void start() { running_ = run(); }
  /// Reads as often, and waits as long, from the next reading on.
  void change(Duration interval, Duration timeout);

  /// Asking now would do harm.
  virtual bool resting() const = 0;
  /// What the server may lack where there is nothing to be read, for people; empty: nothing known.
  virtual std::string_view required_option() const { return {}; }
  /// A body of status 200 is here to its end: keeps what it said. Why it said nothing; else empty.
  virtual std::string finish(const Scraped& scraped) = 0;
  /// A body that ends in the middle of something: with its connection, most likely. `reader`: one
  /// of expositions.
  template <class Reader>
  static bool is_truncated(const Scraped& scraped, const Reader& reader) {
    if (scraped.open_metrics) return !reader.ended();
    return !scraped.has_length && reader.has_partial_line();
  }
  /// What came last is too old to go by.
  virtual void forget() = 0;
  /// Something was kept, or forgotten.
  virtual void notify() = 0;

 private:
  Task<void> run();
  std::string evaluate(const Scraped& scraped);
  void succeed(const Scraped& scraped);
  void fail(std::string reason);

  struct Forget : Timer {
    explicit Forget(PolledSource& owner)
        : Timer([](Timer& self) {
            PolledSource& mine = static_cast<Forget&>(self).source;
            mine.forget();
            ++mine.revision_;
            mine.notify();
          }),
          source(owner) {}
    PolledSource& source;
  };

  Loop& loop_;
  Scraper scraper_;
  PollSchedule schedule_;
  Duration timeout_;
  PollRecord record_;
  std::uint64_t revision_ = 0;
  std::optional<Instant> last_success_;
  Forget forget_{*this};
  Task<void> running_;
};

}  // namespace evenkeel
