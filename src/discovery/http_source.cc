#include <algorithm>
#include <string>
#include <utility>

#include "discovery/source.h"
#include "discovery/source_server.h"
#include "evenkeel/base/rng.h"
#include "evenkeel/config/backend_list.h"

namespace evenkeel {
namespace {

constexpr Duration max_answer_time = std::chrono::seconds(10);
constexpr std::size_t max_list_bytes = std::size_t{4} << 20;

class HttpSource final : public DiscoverySource {
 public:
  HttpSource(const SourceParts& parts, const std::string& url, milliseconds interval)
      : loop_(parts.loop),
        found_(parts.found),
        rng_(parts.seed),
        interval_(interval),
        server_(loop_, parts.environment.resolve, url, "", {}),
        reading_(run()) {}

 private:
  Task<void> run() {
    co_await loop_.yield();  // not from inside the constructor
    while (true) {
      const bool again = co_await read();
      Duration pause = interval_;
      if (again) pause = std::min<Duration>(pause, FoundList::second_look);
      co_await loop_.sleep_for(std::chrono::duration_cast<Duration>(pause * spread()));
    }
  }

  double spread() { return 0.95 + 0.1 * rng_.unit(); }

  /// True if the list is to be read again soon, before it counts.
  Task<bool> read() {
    auto text = co_await fetch();
    if (!text) {
      found_.note_failure(server_.url() + " " + text.error().detail);
      co_return !found_.backends();
    }
    auto list = read_backend_list(*text, BackendListKind::targets);
    if (!list) {
      found_.note_failure(server_.url() + " answers with a wrong list: " + list.error().detail);
      co_return false;
    }
    co_return !found_.offer(std::move(*list));
  }

  Task<Result<std::string>> fetch() {
    const Instant deadline = loop_.read_clock() + max_answer_time;
    auto client = co_await server_.connect();
    if (!client) co_return unreadable("cannot be reached: " + client.error().detail);
    BackendClientRequest request{.path = server_.path(), .max_bytes = max_list_bytes};
    request.fields.emplace_back("accept", "application/json");
    request.fields.emplace_back(
        "x-prometheus-refresh-interval-seconds",
        std::to_string(std::chrono::ceil<std::chrono::seconds>(interval_).count()));
    auto fetched = co_await (*client)->fetch(std::move(request), deadline);
    if (!fetched) co_return unreadable("does not answer: " + fetched.error().detail);
    if (fetched->status != 200) co_return unreadable("answers " + std::to_string(fetched->status));
    if (!fetched->complete) co_return unreadable("answers with too long a list");
    co_return std::move(fetched->body);
  }

  static Error unreadable(std::string why) {
    return {.fault = Fault::connect_failed, .side = Side::backend, .detail = std::move(why)};
  }

  Loop& loop_;
  FoundList& found_;
  Rng rng_;
  Duration interval_;
  SourceServer server_;
  Task<void> reading_;
};

}  // namespace

DiscoverySourcePtr make_http_source(const SourceParts& parts, const std::string& url,
                                    milliseconds interval) {
  return std::make_unique<HttpSource>(parts, url, interval);
}

}  // namespace evenkeel
