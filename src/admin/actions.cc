#include "admin/actions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stop_token>
#include <utility>
#include <vector>

#include "admin/canaries.h"
#include "admin/documents.h"
#include "admin/on_loop.h"
#include "evenkeel/admin/control.h"
#include "evenkeel/base/log.h"
#include "evenkeel/base/path.h"
#include "evenkeel/config/address.h"
#include "evenkeel/config/spelling.h"
#include "evenkeel/json/value.h"
#include "evenkeel/pool/answer_cache.h"
#include "evenkeel/upstream/redis_answers.h"

namespace evenkeel {
namespace {

constexpr std::size_t max_body_bytes = 16 * 1024;
constexpr std::uint32_t max_weight = 1000;
/// What the control loop takes at most for a change that it makes at once.
constexpr Duration change_timeout = std::chrono::seconds(5);
/// A change that is built anew waits for name servers, for changes that are queued before it, and
/// for a process that takes over.
constexpr Duration change_queue_timeout = std::chrono::seconds(75);
/// The time for which a client may wait (`ctl reload --wait`).
constexpr Duration reload_timeout = std::chrono::hours(1);

constexpr double max_drain_seconds = 365.0 * 24 * 3600;
constexpr std::string_view drain_usage =
    "the body is empty, or {\"for_seconds\": N}: the backend is undrained after so long, a year at "
    "most";
/// The limit of a preview, and how often it is looked whether its client has left.
constexpr Duration preview_timeout = std::chrono::seconds(60);
constexpr Duration client_check_interval = std::chrono::milliseconds(100);

constexpr std::string_view weight_usage = "the body is {\"weight\": N}, N from 1 to 1000";
constexpr std::string_view no_answer =
    "the control loop has not answered in time; the change may still be made";
constexpr std::string_view no_control = "this daemon accepts no changes";
constexpr std::string_view upgrade_in_progress =
    "not changed: an upgrade is in progress; try again when it has ended";
constexpr std::string_view taken_over =
    "not changed: another process has taken over; send it again, to that process";

constexpr std::array<std::pair<std::string_view, BackendAction>, 3> action_names = {
    {{"drain", BackendAction::drain},
     {"undrain", BackendAction::undrain},
     {"weight", BackendAction::weight}}};

AdminReply try_again(int status, std::string_view why) {
  AdminReply reply = error_reply(status, why);
  reply.fields.emplace_back("retry-after", "1");
  return reply;
}

/// 503 from the start of an upgrade on: the new process has a copy of what was set before. Nothing:
/// changes are accepted.
std::optional<AdminReply> refuse_in_upgrade(const RuntimeStatus& status) {
  if (status.successor != 0) return try_again(503, taken_over);
  if (status.upgrading) return try_again(503, upgrade_in_progress);
  return std::nullopt;
}

struct BackendPosition {
  std::size_t pool;
  std::size_t backend;
};

/// The id of the backend that is called so, in its normal form: HOST:PORT, or HOST:PORT@IP.
std::string backend_id(const std::string& name) {
  const std::size_t at = name.find('@');
  std::string why;
  const auto address = parse_backend_address(std::string_view(name).substr(0, at), why);
  if (!address) return name;
  std::string id = to_string(*address);
  if (at != name.npos) id += "@" + normal_host(std::string_view(name).substr(at + 1));
  return id;
}

std::vector<BackendPosition> find_backends(const PoolSet& pool_set, const BackendCall& call) {
  std::vector<BackendPosition> found;
  for (std::size_t i = 0; i < pool_set.pools().size(); ++i) {
    const PoolState& pool = *pool_set.pools()[i].state;
    if (call.pool && pool.config().name != *call.pool) continue;
    for (std::size_t j = 0; j < pool.backends().size(); ++j) {
      if (pool.backends()[j]->id() == call.id) found.push_back({i, j});
    }
  }
  return found;
}

AdminReply ambiguous_backend(const PoolSet& pool_set, const BackendCall& call,
                             const std::vector<BackendPosition>& positions) {
  std::string names;
  for (const BackendPosition& position : positions) {
    names += (names.empty() ? "" : ", ") + pool_set.pools()[position.pool].state->config().name;
  }
  return error_reply(409, fmt::format("backend '{}' is in several pools ({}); name one with "
                                      "?pool=NAME",
                                      call.id, names));
}

JsonValue list_of(const std::vector<std::string>& texts) {
  return JsonValue::List(texts.begin(), texts.end());
}

/// {"name": N}; nothing: it is something else.
std::optional<double> parse_number(std::string_view body, std::string_view name) {
  const auto document = parse_json(body);
  if (!document || document->members().size() != 1) return std::nullopt;
  return (*document)[name].number();
}

/// {"weight": N}; nothing: it is something else.
std::optional<std::uint32_t> parse_weight(std::string_view body) {
  const auto number = parse_number(body, "weight");
  if (!number || !(*number >= 1 && *number <= max_weight)) return std::nullopt;
  const auto whole = static_cast<std::uint32_t>(*number);
  if (static_cast<double>(whole) != *number) return std::nullopt;
  return whole;
}

/// {"for_seconds": N}; nothing: it is something else.
std::optional<Duration> parse_period(std::string_view body) {
  const auto seconds = parse_number(body, "for_seconds");
  if (!seconds || !(*seconds > 0 && *seconds <= max_drain_seconds)) return std::nullopt;
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(*seconds));
}

/// "; did you mean 'a', 'b'?"; empty: none is near.
std::string did_you_mean(std::string_view name, const std::vector<std::string_view>& known) {
  const auto near = near_names(name, known);
  if (near.empty()) return {};
  return fmt::format("; did you mean '{}'?", fmt::join(near, "', '"));
}

AdminReply no_such_backend(const PoolSet& pool_set, const BackendCall& call) {
  std::vector<std::string_view> pools;
  std::vector<std::string_view> backends;
  bool has_pool = !call.pool;
  for (const PoolSet::PoolEntry& entry : pool_set.pools()) {
    const std::string_view pool = entry.state->config().name;
    pools.push_back(pool);
    if (call.pool && pool != *call.pool) continue;
    has_pool = true;
    for (const BackendPtr& backend : entry.state->backends()) backends.push_back(backend->id());
  }
  if (!has_pool) {
    return error_reply(
        404, fmt::format("there is no pool '{}'{}", *call.pool, did_you_mean(*call.pool, pools)));
  }
  const std::string whose =
      call.pool ? fmt::format("pool '{}' has no", *call.pool) : "no pool has a";
  std::string meant = did_you_mean(call.id, backends);
  if (meant.empty()) meant = "; /api/v1/backends lists them";
  return error_reply(404, fmt::format("{} backend '{}'{}", whose, call.id, meant));
}

}  // namespace

std::optional<BackendCall> parse_backend_call(const AdminRequest& request) {
  constexpr std::string_view prefix = "/api/v1/backends/";
  std::string_view path = request.path();
  if (!path.starts_with(prefix)) return std::nullopt;
  path.remove_prefix(prefix.size());
  const auto slash = path.rfind('/');
  if (slash == std::string_view::npos || slash == 0) return std::nullopt;
  for (const auto& [word, action] : action_names) {
    if (path.substr(slash + 1) != word) continue;
    return BackendCall{action, backend_id(percent_decoded(path.substr(0, slash))),
                       request.parameter("pool")};
  }
  return std::nullopt;
}

Awaitable<AdminReply> AdminActions::apply(BackendCall call, const AdminRequest& request) {
  std::optional<std::uint32_t> weight;
  std::optional<Duration> period;  // of a drain; none: it lasts
  if (request.body.size() > max_body_bytes) co_return error_reply(413, "body larger than 16 KiB");
  if (call.action == BackendAction::weight) {
    weight = parse_weight(request.body);
    if (!weight) co_return error_reply(422, weight_usage);
  }
  if (call.action == BackendAction::drain && !request.body.empty() && request.body != "{}") {
    period = parse_period(request.body);
    if (!period) co_return error_reply(422, drain_usage);
    if (runtime_.control == nullptr) co_return error_reply(503, no_control);
  }
  const auto pool_set = runtime_.status->snapshot()->pool_set;
  const auto positions = find_backends(*pool_set, call);
  if (positions.empty()) co_return no_such_backend(*pool_set, call);
  if (positions.size() > 1) co_return ambiguous_backend(*pool_set, call, positions);

  const PoolState& pool = *pool_set->pools()[positions[0].pool].state;
  const BackendPtr backend = pool.backends()[positions[0].backend];
  call.pool = pool.config().name;
  auto refusal = refuse_in_upgrade(*runtime_.status->snapshot());
  if (refusal) co_return std::move(*refusal);
  AdminReply failed;
  if (weight) {
    failed = co_await set_weight(*call.pool, call.id, *weight);
  } else {
    const bool drains = call.action == BackendAction::drain;
    failed = co_await set_drained(backend, *call.pool, drains, period);
  }
  if (failed.status != 200) co_return failed;
  const std::string what = weight ? fmt::format("weight {} set", *weight)
                           : call.action == BackendAction::undrain ? std::string("undrained")
                           : period ? fmt::format("drained for {:.0f} s", seconds_of(*period))
                                    : std::string("drained");
  log::admin.record(
      fmt::format("pool {}: backend {}: {} by {}", *call.pool, call.id, what, request.client));
  co_return backend_reply(call);
}

/// 200, or why not.
Awaitable<AdminReply> AdminActions::set_drained(BackendPtr backend, std::string pool, bool drained,
                                                std::optional<Duration> period) {
  std::optional<Control::Time> end;
  if (period) {
    end = std::chrono::system_clock::now() +
          std::chrono::duration_cast<std::chrono::system_clock::duration>(*period);
  }
  const auto change = [backend, pool = std::move(pool), drained, end, status = runtime_.status,
                       control = runtime_.control] {
    const auto now = status->snapshot();
    if (now->upgrading || now->successor != 0) return false;
    if (drained) {
      backend->state().take_out(OutOfRotation::draining);
    } else {
      backend->put_back(OutOfRotation::draining);
    }
    if (control != nullptr) control->set_drain_end(pool, backend->id(), end);
    return true;  // not Done: see LoopCall
  };
  const auto done = co_await on_loop(io_, *runtime_.control_loop, change, change_timeout);
  if (!done) co_return error_reply(503, no_answer);
  if (!*done) co_return try_again(503, upgrade_in_progress);
  co_return AdminReply{};
}

/// 200, or why not.
Awaitable<AdminReply> AdminActions::set_weight(std::string pool, std::string id,
                                               std::uint32_t weight) {
  if (runtime_.control == nullptr) co_return error_reply(503, no_control);
  const auto change = [control = runtime_.control, pool = std::move(pool), id = std::move(id),
                       weight] { return control->set_weight(pool, id, weight); };
  auto set = co_await on_loop(io_, *runtime_.control_loop, change, change_queue_timeout);
  if (!set) co_return error_reply(503, no_answer);
  if (!*set && set->error().fault == Fault::draining) {
    co_return try_again(503, set->error().detail);
  }
  if (!*set) co_return error_reply(422, set->error().detail);
  co_return AdminReply{};
}

/// Describes a backend of the newest pool set: a new weight comes with a new one.
AdminReply AdminActions::backend_reply(const BackendCall& call) {
  const RuntimeView view(runtime_);
  const auto positions = find_backends(*view.status->pool_set, call);
  if (positions.empty()) return no_such_backend(*view.status->pool_set, call);
  events_.update(view, std::chrono::system_clock::now());
  return json_reply(200, json_text(backend_document(view, events_.states(), positions[0].pool,
                                                    positions[0].backend)));
}

/// Drops the answers that replicas share first: one that was found there before is not kept then.
Awaitable<AdminReply> AdminActions::purge_answers(const AdminRequest& request) {
  const auto pool_set = runtime_.status->snapshot()->pool_set;
  const auto wanted = request.parameter("pool");
  std::vector<std::string_view> keeping;
  std::vector<std::shared_ptr<AnswerCache>> caches;
  std::vector<std::string> shared;
  for (const PoolSet::PoolEntry& pool : pool_set->pools()) {
    const auto& answers = pool.state->answers();
    if (answers == nullptr) continue;
    const PoolConfig& config = pool.state->config();
    keeping.push_back(config.name);
    if (wanted && config.name != *wanted) continue;
    caches.push_back(answers);
    if (config.cache && config.cache->shared) shared.push_back(config.name);
  }
  if (wanted && caches.empty()) {
    co_return error_reply(404, fmt::format("there is no pool '{}' with `cache`{}", *wanted,
                                           did_you_mean(*wanted, keeping)));
  }
  bool is_done = true;
  if (!shared.empty() && pool_set->shared_state()) {
    const auto change = [loop = runtime_.control_loop, options = *pool_set->shared_state(),
                         shared] { return clear_shared_answers(*loop, options, shared); };
    const auto cleared = co_await on_loop(io_, *runtime_.control_loop, change, change_timeout);
    is_done = cleared && *cleared;
  }
  std::uint64_t dropped = 0;
  for (const auto& answers : caches) dropped += answers->clear();
  log::admin.record(fmt::format("{}: {} kept answers dropped by {}{}",
                                wanted ? "pool " + *wanted : "all pools", dropped, request.client,
                                is_done ? "" : "; Redis may still have those that are shared"));
  if (!is_done) co_return error_reply(503, "Redis has not dropped the answers that replicas share");
  JsonValue document;
  document.add("dropped", dropped);
  co_return json_reply(200, json_text(document));
}

AdminReply AdminActions::restart_canary(const AdminRequest& request) const {
  const RuntimeView view(runtime_);
  if (auto refusal = refuse_in_upgrade(*view.status)) return std::move(*refusal);
  const auto wanted = request.parameter("route");
  if (!wanted) return error_reply(422, "name the route: ?route=NAME; /api/v1/canaries lists them");
  const PoolSet::Canary* const canary = view.status->pool_set->canary_of(*wanted);
  if (canary == nullptr) {
    std::vector<std::string_view> routes;
    for (const PoolSet::Canary& each : view.status->pool_set->canaries())
      routes.push_back(each.route);
    return error_reply(404, fmt::format("there is no route '{}' with a canary{}", *wanted,
                                        did_you_mean(*wanted, routes)));
  }
  canary->trial->restart();
  log::admin.record(fmt::format("route {}: the canary {} is on trial again, by {}", canary->route,
                                canary->config.target, request.client));
  return json_reply(200, json_text(canary_document(*canary, view.now)));
}

Awaitable<AdminReply> AdminActions::reload() {
  if (runtime_.control == nullptr) co_return error_reply(503, no_control);
  const auto change = [control = runtime_.control] { return control->reload(); };
  const auto problems = co_await on_loop(io_, *runtime_.control_loop, change, reload_timeout);
  if (!problems) co_return error_reply(503, no_answer);
  if (!problems->empty() && runtime_.status->snapshot()->successor != 0) {
    co_return try_again(503, taken_over);
  }
  if (!problems->empty()) co_return json_reply(422, problems_json(*problems));
  const RuntimeView view(runtime_);
  co_return json_reply(200, json_text(status_document(view)));
}

Awaitable<AdminReply> AdminActions::upgrade() {
  if (runtime_.control == nullptr) co_return error_reply(503, no_control);
  const auto change = [control = runtime_.control] { return control->upgrade(); };
  const auto done = co_await on_loop(io_, *runtime_.control_loop, change, reload_timeout);
  if (!done) co_return error_reply(503, no_answer);
  if (!*done) co_return error_reply(422, done->error().detail);
  const RuntimeView view(runtime_);
  co_return json_reply(200, json_text(status_document(view)));
}

/// Ends when the client leaves: nothing is done for one that has.
Awaitable<AdminReply> AdminActions::check(const AdminRequest& request, bool authorized) {
  if (runtime_.control == nullptr) co_return error_reply(503, no_control);
  struct StopAtEnd {
    std::stop_source source;
    ~StopAtEnd() { source.request_stop(); }
  } const end;
  const auto ask = [control = runtime_.control,
                    preview = PreviewRequest{.text = std::string(request.body),
                                             .authorized = authorized,
                                             .left = end.source.get_token()}] {
    return control->preview(preview);
  };
  LoopCall<Result<ReloadPreview>> call(io_, *runtime_.control_loop, ask);
  const Instant deadline = Clock::now() + preview_timeout;
  std::optional<Result<ReloadPreview>> preview;
  while (!preview && Clock::now() < deadline) {
    if (request.has_left && request.has_left()) break;
    preview = co_await call.result(Clock::now() + client_check_interval);
  }
  if (!preview) co_return error_reply(503, "the check has not ended in time");
  if (!*preview) {
    co_return try_again(429, (*preview).error().detail);
  }
  JsonValue::List problems;
  for (const Problem& problem : (*preview)->problems) problems.push_back(problem_document(problem));
  JsonValue document;
  document.add("problems", std::move(problems));
  document.add("changes", list_of((*preview)->changes));
  document.add("takeover", list_of((*preview)->takeover));
  document.add("unchecked", list_of((*preview)->unchecked));
  co_return json_reply(200, json_text(document));
}

}  // namespace evenkeel
