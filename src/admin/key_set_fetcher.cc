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

#include "admin/http_client.h"
#include "evenkeel/base/log.h"
#include "evenkeel/base/signals_blocked.h"
#include "evenkeel/config/address.h"
#include "evenkeel/net/resolver.h"

namespace evenkeel {
namespace {

constexpr Duration request_timeout = std::chrono::seconds(10);
constexpr Duration first_pause = std::chrono::seconds(1);  // after a failure; doubles
constexpr Duration max_pause = std::chrono::seconds(60);
constexpr int niceness = 5;  // as that of the admin thread

std::string without_query(const std::string& url) { return url.substr(0, url.find('?')); }

Error failure(std::string why) { return {.fault = Fault::internal, .detail = std::move(why)}; }

/// The body of an answer that has keys.
Result<std::string> body_of(HttpAnswer answer) {
  const bool redirects = answer.status >= 300 && answer.status < 400;
  if (answer.status != 200) {
    return failure(fmt::format("the server answered with status {}{}", answer.status,
                               redirects ? ", and redirects are not followed" : ""));
  }
  return std::move(answer.body);
}

}  // namespace

class KeySetFetcher::Impl {
 public:
  Impl(std::string version, Sink sink) : version_(std::move(version)), sink_(std::move(sink)) {}
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  ~Impl() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      if (client_ != nullptr) client_->cancel();
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  /// Starts the thread, if it does not run.
  void start() {
    if (thread_.joinable()) return;
    const SignalsBlocked blocked;  // inherited by the thread
    thread_ = std::thread([this] { run(); });
  }

  void apply(const std::vector<TokenIssuerConfig>& issuers) {
    {
      const std::lock_guard lock(mutex_);
      std::map<std::string, Source> next;
      for (const TokenIssuerConfig& each : issuers) {
        if (!each.fetches_keys()) continue;
        const auto known = sources_.find(each.jwks);
        Source source = known == sources_.end() ? Source() : known->second;
        source.ca = each.ca;
        source.refresh = each.refresh;
        if (source.last_try != Instant{})
          source.next = std::min(source.next, source.last_try + source.refresh);
        next.emplace(each.jwks, std::move(source));
      }
      sources_ = std::move(next);
    }
    changed_.notify_all();
  }

  void fetch_soon(const std::string& url) {
    {
      const std::lock_guard lock(mutex_);
      const auto source = sources_.find(url);
      if (source == sources_.end()) return;
      source->second.next = std::min(source->second.next, source->second.last_try + min_interval);
    }
    changed_.notify_all();
  }

  std::vector<Status> statuses() const {
    const Instant now = Clock::now();
    const std::lock_guard lock(mutex_);
    std::vector<Status> all;
    for (const auto& [url, source] : sources_) {
      Status status{.url = without_query(url),
                    .age = {},
                    .fetched = source.fetched,
                    .failed = source.failed,
                    .last_failed = source.failing};
      if (source.fetched > 0) status.age = now - source.fetched_at;
      all.push_back(std::move(status));
    }
    return all;
  }

 private:
  /// A set that is fetched.
  struct Source {
    std::string ca;
    Duration refresh{};
    Instant next{};      // fetch
    Instant last_try{};  // default: there was none
    Instant fetched_at{};
    Duration pause = first_pause;  // after the next failure
    std::uint64_t fetched = 0;
    std::uint64_t failed = 0;
    bool failing = false;
    std::string text;  // that was fetched last
  };

  void run() {
    pthread_setname_np(pthread_self(), "key-sets");
    setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), niceness);
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      const auto next =
          std::ranges::min_element(sources_, {}, [](const auto& each) { return each.second.next; });
      if (next == sources_.end()) {
        changed_.wait(lock);
      } else if (next->second.next > Clock::now()) {
        changed_.wait_until(lock, next->second.next);
      } else {
        fetch(next->first, next->second.ca, lock);
      }
    }
  }

  /// Fetches a set without the lock: the file may change meanwhile.
  void fetch(std::string url, std::string ca, std::unique_lock<std::mutex>& lock) {
    const auto client = std::make_unique<HttpClient>(JwkSet::max_bytes);
    client_ = client.get();
    lock.unlock();
    auto text = request(*client, url, ca);
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
    client_ = nullptr;
    const auto source = sources_.find(url);
    if (stopping_ || source == sources_.end()) return;
    const bool is_first = source->second.last_try == Instant{};
    const bool is_new = keys != nullptr && source->second.text != *text;
    if (keys != nullptr) {
      note_success(url, source->second, std::move(*text), *keys, is_new);
    } else {
      note_failure(url, source->second, problem);
    }
    if (!is_new && !is_first) return;
    lock.unlock();
    sink_(url, std::move(keys));
    lock.lock();
  }

  static void note_success(const std::string& url, Source& source, std::string text,
                           const JwkSet& keys, bool is_new) {
    const Instant now = Clock::now();
    if (is_new || source.failing) {
      log::reload.info(fmt::format("auth.jwt: {} keys fetched from {}{}", keys.keys().size(),
                                   without_query(url), is_new ? "" : ", the same as before"));
    }
    if (is_new && !keys.first_problem().empty()) {
      log::reload.warning(fmt::format("auth.jwt: keys from {} that cannot be used are left out: {}",
                                      without_query(url), keys.first_problem()));
    }
    source.failing = false;
    source.text = std::move(text);
    source.pause = first_pause;
    ++source.fetched;
    source.fetched_at = source.last_try = now;
    source.next = now + source.refresh;
  }

  /// Reports a failure once, until the set is fetched again.
  static void note_failure(const std::string& url, Source& source, const std::string& problem) {
    const Instant now = Clock::now();
    if (!source.failing) {
      log::reload.error(fmt::format(
          "auth.jwt: keys cannot be fetched from {}: {}; {}", without_query(url), problem,
          source.fetched > 0 ? "those fetched last count on"
                             : "tokens of this issuer are refused until they can"));
    }
    source.failing = true;
    ++source.failed;
    source.last_try = now;
    source.next = now + source.pause;
    source.pause = std::min(2 * source.pause, std::min(max_pause, source.refresh));
  }

  /// Looks the name up each time: the server may have moved.
  Result<std::string> request(HttpClient& client, const std::string& url,
                              const std::string& ca) const {
    const std::size_t path_at = std::min(url.find('/', url.find("://") + 3), url.size());
    std::string why;
    const auto address = parse_backend_address(std::string_view(url).substr(0, path_at), why);
    if (!address) return failure(why);
    auto endpoints = resolve(address->host, address->port);
    if (!endpoints) return std::move(endpoints.error());
    auto context = verifying_tls_context(ca);
    if (!context) return std::move(context.error());
    client.server().endpoints = std::move(*endpoints);
    client.server().host = address->host;
    client.server().tls = std::move(*context);
    const std::string path = path_at < url.size() ? url.substr(path_at) : "/";
    auto answer =
        client.send(fmt::format("GET {} HTTP/1.1\r\nhost: {}\r\nuser-agent: evenkeel/{}\r\n"
                                "accept: application/json\r\nconnection: close\r\n\r\n",
                                path, to_string(*address), version_),
                    request_timeout);
    if (!answer) return std::move(answer.error());
    return body_of(std::move(*answer));
  }

  const std::string version_;
  const Sink sink_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::map<std::string, Source> sources_;  // by URL
  HttpClient* client_ = nullptr;           // of the request in progress
  bool stopping_ = false;
  std::thread thread_;
};

KeySetFetcher::KeySetFetcher(std::string version, Sink sink)
    : impl_(std::make_unique<Impl>(std::move(version), std::move(sink))) {}
KeySetFetcher::~KeySetFetcher() = default;

void KeySetFetcher::apply(const std::vector<TokenIssuerConfig>& issuers) {
  impl_->apply(issuers);
  try {
    if (std::ranges::any_of(issuers, &TokenIssuerConfig::fetches_keys)) impl_->start();
  } catch (const std::system_error& error) {
    log::reload.error(std::string("auth.jwt: no keys are fetched: no thread: ") + error.what());
  }
}

void KeySetFetcher::fetch_soon(const std::string& url) { impl_->fetch_soon(url); }

std::vector<KeySetFetcher::Status> KeySetFetcher::statuses() const { return impl_->statuses(); }

}  // namespace evenkeel
