#include "evenkeel/admin/key_set_fetcher.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "admin/url_client.h"
#include "evenkeel/base/log.h"
#include "evenkeel/base/signals_blocked.h"

namespace evenkeel {
namespace {

constexpr Duration request_timeout = std::chrono::seconds(10);
constexpr Duration first_pause = std::chrono::seconds(1);  // after a failure; doubles
constexpr Duration max_pause = std::chrono::seconds(60);
constexpr Duration exit_wait = std::chrono::seconds(1);  // for requests that are cancelled
constexpr int niceness = 5;                              // as that of the admin thread

Error failure(std::string why) { return {.fault = Fault::internal, .detail = std::move(why)}; }

/// The body of an answer that has keys.
Result<std::string> body_of(Result<HttpAnswer> answer) {
  if (!answer) return std::move(answer.error());
  const bool redirects = answer->status >= 300 && answer->status < 400;
  if (answer->status != 200) {
    return failure(fmt::format("the server answered with status {}{}", answer->status,
                               redirects ? ", and redirects are not followed" : ""));
  }
  return std::move(answer->body);
}

}  // namespace

class KeySetFetcher::Impl : public std::enable_shared_from_this<KeySetFetcher::Impl> {
 public:
  Impl(std::string version, Sink sink) : version_(std::move(version)), sink_(std::move(sink)) {}
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  /// Ends the threads. One that waits for a name server is left behind: it ends by itself.
  void stop() {
    std::unique_lock lock(mutex_);
    for (auto& [url, source] : sources_) end(std::move(source));
    sources_.clear();
    changed_.notify_all();
    changed_.wait_for(lock, exit_wait,
                      [this] { return std::ranges::all_of(ended_, &Source::done); });
    join_done();
    for (const auto& each : ended_) each->thread.detach();
    ended_.clear();
  }

  void apply(const std::vector<TokenIssuerConfig>& issuers) {
    const std::lock_guard lock(mutex_);
    Sources next;
    for (const TokenIssuerConfig& each : issuers) {
      if (!each.fetches_keys()) continue;
      std::shared_ptr<Source>& source = next[each.jwks];
      if (source == nullptr) {
        source = take(each.jwks);
        source->issuers.clear();
      }
      source->issuers.push_back(each.issuer);
      source->ca = each.ca;
      source->refresh = each.refresh;
      if (source->last_try != Instant{})
        source->next = std::min(source->next, source->last_try + source->refresh);
    }
    for (auto& [url, source] : std::exchange(sources_, std::move(next))) {
      if (source != nullptr) end(std::move(source));
    }
    join_done();
    changed_.notify_all();
    for (const auto& [url, source] : sources_) start(source);
  }

  void fetch_soon(const std::string& url) {
    const std::lock_guard lock(mutex_);
    const auto found = sources_.find(url);
    if (found == sources_.end()) return;
    Source& source = *found->second;
    source.next = std::min(source.next, source.last_try + min_interval);
    changed_.notify_all();
  }

  std::vector<Status> statuses() const {
    const Instant now = Clock::now();
    const std::lock_guard lock(mutex_);
    std::vector<Status> all;
    for (const auto& [url, source] : sources_) {
      Status status{.issuer = {},
                    .age = {},
                    .fetched = source->fetched,
                    .failed = source->failed,
                    .last_failed = source->failing};
      if (source->fetched > 0) status.age = now - source->fetched_at;
      for (const std::string& issuer : source->issuers) {
        status.issuer = issuer;
        all.push_back(status);
      }
    }
    return all;
  }

 private:
  /// A set that is fetched, by a thread of its own.
  struct Source {
    explicit Source(std::string its_url) : url(std::move(its_url)) {}

    const std::string url;
    std::vector<std::string> issuers;
    std::string ca;
    Duration refresh{};
    Instant next{};      // fetch
    Instant last_try{};  // default: there was none
    Instant fetched_at{};
    Duration pause = first_pause;  // after the next failure
    std::uint64_t fetched = 0;
    std::uint64_t failed = 0;
    bool failing = false;
    std::string text;             // that was fetched last
    UrlClient* client = nullptr;  // of the request in progress
    bool ended = false;           // it is fetched no more
    bool done = false;            // the thread is about to end
    std::thread thread;
  };
  using Sources = std::map<std::string, std::shared_ptr<Source>>;  // by URL

  /// The source of a URL: the one that is there, or a new one. REQUIRES: the mutex is held.
  std::shared_ptr<Source> take(const std::string& url) {
    const auto known = sources_.find(url);
    return known == sources_.end() ? std::make_shared<Source>(url) : std::move(known->second);
  }

  /// Starts the source's thread, if it does not run. REQUIRES: the mutex is held.
  void start(const std::shared_ptr<Source>& source) {
    if (source->thread.joinable()) return;
    const SignalsBlocked blocked;  // inherited by the thread
    source->thread = std::thread([own = shared_from_this(), source] { own->run(*source); });
  }

  /// REQUIRES: the mutex is held.
  void end(std::shared_ptr<Source> source) {
    source->ended = true;
    if (source->client != nullptr) source->client->cancel();
    if (source->thread.joinable()) ended_.push_back(std::move(source));
  }

  /// REQUIRES: the mutex is held.
  void join_done() {
    std::erase_if(ended_, [](const std::shared_ptr<Source>& source) {
      if (source->done) source->thread.join();
      return source->done;
    });
  }

  void run(Source& source) {
    pthread_setname_np(pthread_self(), "key-set");
    setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), niceness);
    std::unique_lock lock(mutex_);
    while (!source.ended) {
      if (source.next > Clock::now()) {
        changed_.wait_until(lock, source.next);
      } else {
        fetch(source, lock);
      }
    }
    source.done = true;
    changed_.notify_all();
  }

  /// Fetches a set without the lock: the file may change meanwhile.
  void fetch(Source& source, std::unique_lock<std::mutex>& lock) {
    UrlClient client({.url = source.url,
                      .ca = source.ca,
                      .version = version_,
                      .max_answer_bytes = JwkSet::max_bytes});
    source.client = &client;
    lock.unlock();
    auto text =
        body_of(client.get("accept: application/json\r\nconnection: close\r\n", request_timeout));
    std::shared_ptr<const JwkSet> keys;
    std::string problem;
    if (text) {
      auto parsed = JwkSet::parse_published(*text);
      if (parsed) {
        keys = std::make_shared<const JwkSet>(std::move(*parsed));
      } else {
        problem = "what it answers is no key set: " + parsed.error().detail;
      }
    } else {
      problem = text.error().detail;
    }
    lock.lock();
    source.client = nullptr;
    if (source.ended) return;
    const bool is_first = source.last_try == Instant{};
    const bool is_new = keys != nullptr && source.text != *text;
    if (keys != nullptr) {
      note_success(source, std::move(*text), *keys, is_new);
    } else {
      note_failure(source, problem);
    }
    if (is_new || is_first) sink_(source.url, std::move(keys));
  }

  static void note_success(Source& source, std::string text, const JwkSet& keys, bool is_new) {
    const Instant now = Clock::now();
    if (is_new || source.failing) {
      log::reload.info(fmt::format("auth.jwt: {} keys fetched from {}{}", keys.keys().size(),
                                   without_query(source.url),
                                   is_new ? "" : ", the same as before"));
    }
    if (is_new && !keys.first_problem().empty()) {
      log::reload.warning(fmt::format("auth.jwt: keys from {} that cannot be used are left out: {}",
                                      without_query(source.url), keys.first_problem()));
    }
    source.failing = false;
    source.text = std::move(text);
    source.pause = first_pause;
    ++source.fetched;
    source.fetched_at = source.last_try = now;
    source.next = now + source.refresh;
  }

  /// Reports a failure once, until the set is fetched again.
  static void note_failure(Source& source, const std::string& problem) {
    const Instant now = Clock::now();
    if (!source.failing) {
      log::reload.error(fmt::format(
          "auth.jwt: keys cannot be fetched from {}: {}; {}", without_query(source.url), problem,
          source.fetched > 0 ? "those fetched last count on"
                             : "tokens of this issuer are refused until they can"));
    }
    source.failing = true;
    ++source.failed;
    source.last_try = now;
    source.next = now + source.pause;
    source.pause = std::min({2 * source.pause, max_pause, source.refresh});
  }

  const std::string version_;
  const Sink sink_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  Sources sources_;
  std::vector<std::shared_ptr<Source>> ended_;  // whose threads are to be joined
};

KeySetFetcher::KeySetFetcher(std::string version, Sink sink)
    : impl_(std::make_shared<Impl>(std::move(version), std::move(sink))) {}
KeySetFetcher::~KeySetFetcher() { impl_->stop(); }

void KeySetFetcher::apply(const std::vector<TokenIssuerConfig>& issuers) {
  try {
    impl_->apply(issuers);
  } catch (const std::system_error& error) {
    log::reload.error(std::string("auth.jwt: not all keys are fetched: no thread: ") +
                      error.what());
  }
}

void KeySetFetcher::fetch_soon(const std::string& url) { impl_->fetch_soon(url); }

std::vector<KeySetFetcher::Status> KeySetFetcher::statuses() const { return impl_->statuses(); }

}  // namespace evenkeel
