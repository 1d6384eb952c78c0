#include "discovery/reflector.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "evenkeel/base/log.h"
#include "evenkeel/base/path.h"

namespace evenkeel {
namespace {

/// The delay after the first failure; doubles with each further one.
constexpr Duration min_delay = std::chrono::milliseconds(250);
constexpr Duration max_delay = std::chrono::seconds(8);
/// A watch that ends sooner, with nothing to tell, counts as a failure: else a server that ends all
/// at once would be asked without a pause.
constexpr Duration min_watch_time = std::chrono::seconds(1);
/// How long the server is asked to let a watch last.
constexpr std::uint32_t min_watch_s = 240;
constexpr std::uint32_t watch_spread_s = 120;

}  // namespace

Reflector::Reflector(Loop& loop, KubernetesApi& api, ObjectQuery query, ObjectListener& listener,
                     FoundList& found, bool is_main, std::uint64_t seed)
    : loop_(loop),
      api_(api),
      query_(std::move(query)),
      listener_(listener),
      found_(found),
      is_main_(is_main),
      rng_(seed) {
  running_ = run();
}

/// Draws a duration between a half and three halves of another, so that not all ask at once.
Duration Reflector::drawn(Duration about) {
  return std::chrono::duration_cast<Duration>(about * (0.5 + rng_.unit()));
}

void Reflector::note_good() {
  if (is_main_) found_.note_good();
}

Task<void> Reflector::run() {
  co_await loop_.yield();  // not from inside the constructor
  Duration delay = min_delay;
  while (true) {
    const bool listed = co_await list();
    if (listed) {
      const Instant began = loop_.read_clock();
      const WatchEnd end = co_await watch();
      if (end.kind == WatchEnd::Kind::failed) {
        found_.note_failure(end.problem);
      } else {
        log::discovery.debug(
            fmt::format("pool {}: the watch of {} has expired", found_.pool(), query_.path));
      }
      if (loop_.read_clock() - began > min_watch_time) delay = min_delay;
    }
    co_await loop_.sleep_for(drawn(delay));
    delay = std::min(2 * delay, max_delay);
  }
}

/// True if there is a list from whose version on to watch.
Task<bool> Reflector::list() {
  while (true) {
    auto document = co_await api_.get(query_.path + "?" + query_.filter);
    if (!document) {
      found_.note_failure(document.error().detail);
      co_return false;
    }
    const std::string& version = (*document)["metadata"]["resourceVersion"].text();
    const JsonValue& items = (*document)["items"];
    const bool is_list = (*document)["kind"].text().ends_with("List") && !version.empty() &&
                         (items.is_array() || items.is_null());
    if (!is_list) {
      found_.note_failure("the API server answers with no list at " + query_.path);
      co_return false;
    }
    log::discovery.debug(fmt::format("pool {}: {} objects at {}, version {}", found_.pool(),
                                     items.items().size(), query_.path, version));
    version_ = version;
    if (listener_.listed(items.items())) {
      note_good();
      co_return true;
    }
    co_await loop_.sleep_for(drawn(FoundList::second_look));
  }
}

/// Watches until that is no longer possible from the last version on.
Task<WatchEnd> Reflector::watch() {
  const KubernetesApi::OnEvent on_event = [this](const JsonValue& event) { return take(event); };
  while (true) {
    const std::string path = fmt::format(
        "{}?{}&watch=1&allowWatchBookmarks=true&resourceVersion={}&timeoutSeconds={}", query_.path,
        query_.filter, percent_encoded(version_), min_watch_s + rng_.below(watch_spread_s));
    const Instant began = loop_.read_clock();
    has_event_ = false;
    auto end = co_await api_.watch(path, on_event);
    if (end.kind != WatchEnd::Kind::closed) co_return end;
    note_good();
    if (!has_event_ && loop_.read_clock() - began < min_watch_time)
      co_return WatchEnd{.kind = WatchEnd::Kind::failed,
                         .problem = "the API server ends each watch at once"};
  }
}

std::optional<WatchEnd> Reflector::take(const JsonValue& event) {
  const std::string& type = event["type"].text();
  const JsonValue& object = event["object"];
  const auto failed = [](std::string why) {
    return WatchEnd{.kind = WatchEnd::Kind::failed, .problem = std::move(why)};
  };
  if (type == "ERROR") {
    if (object["code"].number() == 410.0) return WatchEnd{.kind = WatchEnd::Kind::expired};
    return failed("ends the watch with an error: " + object["message"].text());
  }
  const std::string& version = object["metadata"]["resourceVersion"].text();
  if (version.empty()) return failed("sends an event without a version");
  const bool deleted = type == "DELETED";
  if (deleted || type == "ADDED" || type == "MODIFIED") {
    log::discovery.debug(fmt::format("pool {}: {} {}, version {}", found_.pool(), type,
                                     object["metadata"]["name"].text(), version));
    auto problem = listener_.changed(object, deleted);
    if (problem) return failed("sends " + *problem);
  } else if (type != "BOOKMARK") {
    return failed("sends an event that is none");
  }
  version_ = version;
  has_event_ = true;
  note_good();
  return std::nullopt;
}

}  // namespace evenkeel
