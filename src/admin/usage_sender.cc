#include "evenkeel/admin/usage_sender.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <iterator>
#include <list>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "admin/url_client.h"
#include "evenkeel/base/log.h"
#include "evenkeel/base/rng.h"
#include "evenkeel/base/signals_blocked.h"
#include "evenkeel/config/named_files.h"
#include "evenkeel/stats/usage_backlog.h"

namespace evenkeel {
namespace {

constexpr Duration usual_interval = std::chrono::seconds(1);  // while all is sent
constexpr Duration first_pause = std::chrono::seconds(1);     // after a failure; doubles
constexpr Duration max_pause = std::chrono::seconds(60);
constexpr Duration max_retry_after = std::chrono::minutes(10);
/// How long the file before is read on: its writer may have lines that are for it.
constexpr Duration former_file_wait = std::chrono::seconds(5);
/// The most that times of files may be behind the clock.
constexpr Duration file_clock_error = std::chrono::seconds(1);
constexpr Duration stop_deadline = std::chrono::seconds(2);
constexpr Duration cancel_deadline = std::chrono::milliseconds(500);
constexpr int niceness = 5;  // as that of the admin thread
constexpr std::size_t max_shown_bytes = 200;

/// Statuses that speak of what is in a request. All others are of no record: of the network, a
/// proxy, the URL or the token, which an operator can mend.
constexpr std::array<int, 4> refusals = {400, 409, 413, 422};

/// What came of a request.
struct Outcome {
  enum class Kind : std::uint8_t { taken, refused, failed };
  Kind kind = Kind::taken;
  int status = 0;
  Duration retry_after{};
  std::string why;
};

/// The beginning of an answer on one line, for the log.
std::string shown(const std::string& body) {
  std::string text = body.substr(0, max_shown_bytes);
  std::ranges::replace_if(text, [](char c) { return c >= 0 && c < ' '; }, ' ');
  return text;
}

Outcome outcome_of(const Result<HttpAnswer>& answer) {
  if (!answer) {
    return {.kind = Outcome::Kind::failed,
            .why = fmt::format("{}: {}", to_string(answer.error().fault), answer.error().detail)};
  }
  if (answer->status >= 200 && answer->status < 300) return {};
  const bool refused = std::ranges::find(refusals, answer->status) != refusals.end();
  std::string why = fmt::format("it answers with status {}", answer->status);
  if (answer->status >= 300 && answer->status < 400) why += ", and redirects are not followed";
  if (!answer->body.empty()) why += ": " + shown(answer->body);
  return {.kind = refused ? Outcome::Kind::refused : Outcome::Kind::failed,
          .status = answer->status,
          .retry_after = retry_after_of(*answer, max_retry_after),
          .why = std::move(why)};
}

std::string batch_of(const std::vector<UnsentRecord>& records) {
  std::string json = "[";
  for (const UnsentRecord& each : records) {
    if (json.size() > 1) json += ',';
    json += each.json;
  }
  return json + "]";
}

}  // namespace

class UsageSender::Impl {
 public:
  using WallTime = std::chrono::system_clock::time_point;

  Impl(std::string version, const UsageConfig& config)
      : version_(std::move(version)), applied_(config), next_(config) {}
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  static void start(const std::shared_ptr<Impl>& self) {
    const SignalsBlocked blocked;  // inherited by the thread
    self->thread_ = std::thread([self] { self->run(); });
  }

  void apply(const UsageConfig& config) {
    const std::lock_guard lock(mutex_);
    if (config.path == applied_.path && config.http == applied_.http) return;
    next_ = applied_ = config;
    applied_at_ = std::chrono::system_clock::now();
    changed_.notify_all();
  }

  /// Lets the thread end after the request in progress.
  void end() {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }

  /// Lets the thread end once it has sent what the file has, or at a failure. Waits for it for a
  /// while; a look-up of the collector's name ends by itself.
  void finish() {
    std::unique_lock lock(mutex_);
    finishing_ = true;
    changed_.notify_all();
    if (!changed_.wait_for(lock, stop_deadline, [this] { return done_; })) cancel(lock);
  }
  /// Ends it, with the request in progress.
  void cancel() {
    std::unique_lock lock(mutex_);
    if (!done_) cancel(lock);
  }

  /// Joins the thread if it has ended. False: it has not.
  bool join() {
    {
      const std::lock_guard lock(mutex_);
      if (!done_) return false;
    }
    thread_.join();
    return true;
  }
  void detach() { thread_.detach(); }

  Status status() const {
    const std::lock_guard lock(mutex_);
    Status status = status_;
    if (oldest_unsent_)
      status.unsent_age = std::max(Duration(), std::chrono::system_clock::now() - *oldest_unsent_);
    return status;
  }

 private:
  void cancel(std::unique_lock<std::mutex>& lock) {
    if (client_ != nullptr) client_->cancel();
    ending_ = true;
    changed_.notify_all();
    changed_.wait_for(lock, cancel_deadline, [this] { return done_; });
  }

  /// A usage file whose records are sent.
  struct Source {
    Source(std::string path, WallTime since) : backlog(std::move(path), since) {}
    UsageBacklog backlog;
    Instant left_at = never;   // when another file took its place
    bool is_reported = false;  // that it cannot be read, since then
  };

  void run() {
    pthread_setname_np(pthread_self(), "usage-sender");
    setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), niceness);
    bool finishing = false;  // since before the last step
    while (true) {
      const Duration pause = step();
      std::unique_lock lock(mutex_);
      if (ending_ || (finishing && pause > Duration())) break;
      changed_.wait_for(lock, pause, [this] { return ending_ || finishing_ || next_; });
      if (ending_) break;
      finishing = finishing_;
    }
    sources_.clear();  // so that another process can send
    const std::lock_guard lock(mutex_);
    done_ = true;
    changed_.notify_all();
  }

  void adopt() {
    const std::lock_guard lock(mutex_);
    if (!next_) return;
    const std::string former = config_.path;
    config_ = std::move(*next_);
    next_.reset();
    if (former != config_.path) {
      if (!sources_.empty()) sources_.back().left_at = Clock::now();
      sources_.emplace_back(config_.path, applied_at_ - file_clock_error);
    }
    const UsageHttpConfig& http = *config_.http;
    client_ = std::make_unique<UrlClient>(
        UrlClient::Options{.url = http.url, .ca = http.ca, .version = version_});
    max_records_ = limit_ = http.batch;
    pause_ = {};
    failure_reported_ = false;
  }

  /// Sends a batch. Returns how long to wait for the next one.
  Duration step() {
    adopt();
    for (auto each = sources_.begin(); each != sources_.end();) {
      auto records = read(each->backlog);
      if (!records && each->left_at == never) {
        note_unreadable();
        return failed(records.error().detail, {});
      }
      if (!records) {
        if (!std::exchange(each->is_reported, true))
          log::usage.error("usage.http: the former file cannot be read: " + records.error().detail);
      } else if (!records->empty()) {
        note_oldest(records->front().time);
        return send(each->backlog, *records);
      }
      const bool is_over = Clock::now() - former_file_wait >= each->left_at;
      each = is_over ? sources_.erase(each) : std::next(each);
    }
    note_oldest(sources_.back().backlog.is_open() ? std::optional(WallTime::max()) : std::nullopt);
    return usual_interval;
  }

  /// The next records of a file; none, too, while another process sends them.
  Result<std::vector<UnsentRecord>> read(UsageBacklog& backlog) {
    if (!backlog.is_open()) {
      auto opened = backlog.open();
      if (!opened) return std::move(opened.error());
      if (!*opened) return std::vector<UnsentRecord>();
    }
    return backlog.read(Clock::now(), limit_);
  }

  void note_oldest(std::optional<WallTime> time) {
    const std::lock_guard lock(mutex_);
    oldest_unsent_ = time;
  }

  /// Counts the age of what cannot be read from the first time on.
  void note_unreadable() {
    const std::lock_guard lock(mutex_);
    if (!oldest_unsent_ || *oldest_unsent_ == WallTime::max())
      oldest_unsent_ = std::chrono::system_clock::now();
  }

  Duration send(UsageBacklog& backlog, const std::vector<UnsentRecord>& records) {
    const Outcome outcome = post(records);
    switch (outcome.kind) {
      case Outcome::Kind::taken: note_taken(backlog, records); return {};
      case Outcome::Kind::failed: return failed(outcome.why, outcome.retry_after);
      case Outcome::Kind::refused: break;
    }
    count_failure();
    if (records.size() > 1) {
      limit_ = records.size() / 2;
      if (outcome.status == 413) max_records_ = limit_;
      return {};
    }
    return skip(backlog, records.front(), outcome);
  }

  Outcome post(const std::vector<UnsentRecord>& records) {
    const UsageHttpConfig& http = *config_.http;
    std::string fields =
        "content-type: application/cloudevents-batch+json\r\naccept: application/json\r\n";
    if (!http.token_file.empty()) {
      const auto token = read_api_key(http.token_file);  // each time: it may have changed
      if (!token) {
        return {.kind = Outcome::Kind::failed,
                .why = fmt::format("token_file {} {}", http.token_file, token.error().detail)};
      }
      fields += "authorization: Bearer " + *token + "\r\n";
    }
    return outcome_of(client_->post(fields, batch_of(records), http.timeout));
  }

  void note_taken(UsageBacklog& backlog, const std::vector<UnsentRecord>& records) {
    mark(backlog, records.back());
    limit_ = std::min<std::size_t>(2 * limit_, max_records_);
    pause_ = {};
    last_skipped_ = false;
    if (std::exchange(failure_reported_, false))
      log::usage.info("usage.http: records are sent again");
    const std::lock_guard lock(mutex_);
    status_.sent += records.size();
  }

  /// Skips a record that is refused alone. Of several in a row each has a longer pause in front,
  /// since it may be the collector that is wrong.
  Duration skip(UsageBacklog& backlog, const UnsentRecord& record, const Outcome& outcome) {
    log::usage.error(
        fmt::format("usage.http: the collector refuses the record {}, which is skipped: {}",
                    record.id, outcome.why));
    mark(backlog, record);
    max_records_ = config_.http->batch;
    {
      const std::lock_guard lock(mutex_);
      ++status_.refused;
    }
    return std::exchange(last_skipped_, true) ? next_pause() : Duration();
  }

  /// Notes a failure, and reports it once, until records are taken again.
  Duration failed(const std::string& why, Duration retry_after) {
    count_failure();
    if (!std::exchange(failure_reported_, true)) {
      log::usage.error(fmt::format("usage.http: records cannot be sent to {}: {}; they wait in {}",
                                   without_query(config_.http->url), why, config_.path));
    }
    return std::max(next_pause(), retry_after);
  }

  /// Half of it is random, so that not all daemons call a collector that is back at once.
  Duration next_pause() {
    pause_ = std::clamp(2 * pause_, first_pause, max_pause);
    return pause_ / 2 + std::chrono::duration_cast<Duration>(pause_ / 2 * rng_.unit());
  }

  void count_failure() {
    const std::lock_guard lock(mutex_);
    ++status_.failures;
  }

  /// Notes how far records were sent. What cannot be written down is known until the process ends.
  void mark(UsageBacklog& backlog, const UnsentRecord& last) {
    const auto marked = backlog.mark_sent(last);
    if (marked) {
      if (std::exchange(mark_failed_, false))
        log::usage.info("usage.http: it is written down again which records were sent");
    } else if (!std::exchange(mark_failed_, true)) {
      log::usage.error("usage.http: which records were sent cannot be written down: " +
                       marked.error().detail + "; the next process will send them again");
    }
  }

  const std::string version_;
  // The thread's; the client is replaced under the mutex.
  UsageConfig config_;
  std::list<Source> sources_;  // the file of now last, in front of it those before it
  std::unique_ptr<UrlClient> client_;
  Rng rng_{random_seed()};
  std::size_t limit_ = 1;        // records of the next batch
  std::size_t max_records_ = 1;  // of any batch: what the collector does not find too large
  Duration pause_{};             // after the last failure
  bool last_skipped_ = false;    // and no record was taken since
  bool failure_reported_ = false;
  bool mark_failed_ = false;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  UsageConfig applied_;
  WallTime applied_at_ = std::chrono::system_clock::now();
  std::optional<UsageConfig> next_;  // not adopted yet
  Status status_;
  std::optional<WallTime> oldest_unsent_;  // the end of time: all are sent; nothing: not known
  bool ending_ = false;
  bool finishing_ = false;
  bool done_ = false;
  std::thread thread_;
};

UsageSender::UsageSender(std::string version) : version_(std::move(version)) {}

UsageSender::~UsageSender() {
  if (impl_ != nullptr) {
    impl_->finish();
    ended_.push_back(std::move(impl_));
  }
  for (const auto& each : ended_) each->cancel();
  join_ended();
  for (const auto& each : ended_) each->detach();
}

void UsageSender::apply(const UsageConfig& config) {
  join_ended();
  if (!config.http || retired_) return end();
  if (impl_ != nullptr) return impl_->apply(config);
  auto next = std::make_shared<Impl>(version_, config);
  try {
    Impl::start(next);
  } catch (const std::system_error& error) {
    return log::usage.error(std::string("usage.http: records are not sent: no thread: ") +
                            error.what());
  }
  const std::lock_guard lock(mutex_);
  impl_ = std::move(next);
}

void UsageSender::retire() {
  retired_ = true;
  end();
}

void UsageSender::end() {
  if (impl_ == nullptr) return;
  impl_->end();
  const std::lock_guard lock(mutex_);
  ended_.push_back(std::move(impl_));
}

void UsageSender::join_ended() {
  std::erase_if(ended_, [](const auto& each) { return each->join(); });
}

std::optional<UsageSender::Status> UsageSender::status() const {
  const std::lock_guard lock(mutex_);
  if (impl_ == nullptr) return std::nullopt;
  return impl_->status();
}

}  // namespace evenkeel
