#include "server/admin_actions.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "evenkeel/base/json.h"
#include "evenkeel/base/log.h"
#include "evenkeel/inference/json.h"
#include "server/admin_documents.h"
#include "server/control.h"

namespace evenkeel {
namespace {

constexpr std::size_t most_body_bytes = 16 * 1024;
constexpr std::uint32_t most_weight = 1000;

constexpr std::array<std::pair<std::string_view, BackendAction>, 3> action_words = {
    {{"drain", BackendAction::drain},
     {"undrain", BackendAction::undrain},
     {"weight", BackendAction::weight}}};

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// A '%' that two hexadecimal digits do not follow stands for itself: no id has one.
std::string percent_decoded(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const int high = text[i] == '%' && i + 2 < text.size() ? digit_of(text[i + 1]) : -1;
    const int low = high < 0 ? -1 : digit_of(text[i + 2]);
    if (low < 0) {
      decoded += text[i];
      continue;
    }
    decoded += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return decoded;
}

std::optional<std::string> parameter(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), pair.size() + 1));
    const auto equals = pair.find('=');
    if (pair.substr(0, equals) != name) continue;
    return equals == std::string_view::npos ? std::string()
                                            : percent_decoded(pair.substr(equals + 1));
  }
  return std::nullopt;
}

/// Where a backend is in the fleet.
struct Place {
  std::size_t pool;
  std::size_t backend;
};

std::vector<Place> find_backends(const Fleet& fleet, const BackendCall& call) {
  std::vector<Place> found;
  for (std::size_t i = 0; i < fleet.pools().size(); ++i) {
    const PoolState& pool = *fleet.pools()[i].state;
    if (call.pool && pool.spec().name != *call.pool) continue;
    for (std::size_t j = 0; j < pool.backends().size(); ++j) {
      if (pool.backends()[j]->id() == call.id) found.push_back({i, j});
    }
  }
  return found;
}

AdminAnswer several_pools(const Fleet& fleet, const BackendCall& call,
                          const std::vector<Place>& places) {
  std::string names;
  for (const Place& place : places) {
    names += (names.empty() ? "" : ", ") + fleet.pools()[place.pool].state->spec().name;
  }
  return admin_error(409, fmt::format("backend '{}' is in several pools ({}); say which with "
                                      "?pool=NAME",
                                      call.id, names));
}

AdminAnswer no_such_backend(const BackendCall& call) {
  if (call.pool) {
    return admin_error(404, fmt::format("pool '{}' has no backend '{}'", *call.pool, call.id));
  }
  return admin_error(
      404, fmt::format("no pool has a backend '{}'; /api/v1/backends lists them", call.id));
}

/// The whole body, or nothing when it is too long or breaks off.
Task<std::optional<std::string>> read_body(Request& request) {
  std::string text;
  if (request.body == nullptr) co_return text;
  bool last = false;
  while (!last) {
    auto chunk = co_await request.body->read();
    if (!chunk) co_return std::nullopt;
    if (text.size() + chunk->bytes.size() > most_body_bytes) co_return std::nullopt;
    text += chunk->bytes;
    last = chunk->last;
  }
  co_return text;
}

/// {"weight": N}; an error says what is wrong with it.
Result<std::uint32_t> parse_weight(std::string body) {
  const auto wrong = [](std::string detail) {
    return Error{.fault = Fault::bad_request, .side = Side::client, .detail = std::move(detail)};
  };
  constexpr const char* wanted = "the body is {\"weight\": N}, N from 1 to 1000";
  auto scalars = parse_json_scalars(body);
  if (!scalars) return wrong(fmt::format("{}: {}", wanted, scalars.error().detail));
  const auto weight = scalars->find("weight");
  if (weight == scalars->end() || scalars->size() != 1) return wrong(wanted);
  const double* number = std::get_if<double>(&weight->second);
  if (number == nullptr || !(*number >= 1) || *number > most_weight ||
      *number != std::floor(*number)) {
    return wrong(wanted);
  }
  return static_cast<std::uint32_t>(*number);
}

AdminAnswer told(const Overview& overview, StateHistory& history, Place place) {
  history.look(overview.fleet, Clock::now(), std::chrono::system_clock::now());
  return {.document = backend_document(overview, history, place.pool, place.backend)};
}

}  // namespace

AdminAnswer admin_error(int status, std::string_view message) {
  JsonWriter json;
  json.begin_object().field("error", message).end_object();
  return {status, json.take()};
}

std::optional<BackendCall> parse_backend_call(std::string_view path, std::string_view query) {
  constexpr std::string_view prefix = "/api/v1/backends/";
  if (!path.starts_with(prefix)) return std::nullopt;
  path.remove_prefix(prefix.size());
  const auto slash = path.rfind('/');
  if (slash == std::string_view::npos || slash == 0) return std::nullopt;
  for (const auto& [word, action] : action_words) {
    if (path.substr(slash + 1) != word) continue;
    return BackendCall{action, percent_decoded(path.substr(0, slash)), parameter(query, "pool")};
  }
  return std::nullopt;
}

Task<AdminAnswer> act_on_backend(const Overview& overview, StateHistory& history, BackendCall call,
                                 Request& request) {
  std::uint32_t weight = 0;
  if (call.action == BackendAction::weight) {
    auto body = co_await read_body(request);
    if (!body) co_return admin_error(413, "a body of 16 KiB at most, please, and all of it");
    auto parsed = parse_weight(std::move(*body));
    if (!parsed) co_return admin_error(422, parsed.error().detail);
    weight = *parsed;
  }

  auto places = find_backends(*overview.fleet, call);
  if (places.empty()) co_return no_such_backend(call);
  if (places.size() > 1) co_return several_pools(*overview.fleet, call, places);
  const PoolState& pool = *overview.fleet->pools()[places[0].pool].state;
  const BackendPtr backend = pool.backends()[places[0].backend];
  const std::string name = fmt::format("pool {}: backend {}", pool.spec().name, call.id);
  const std::string who = fmt::format("as {} asked", request.about.client);
  switch (call.action) {
    case BackendAction::drain:
      backend->load().close(Closure::draining);
      log::info(fmt::format("{} drains, {}", name, who));
      co_return told(overview, history, places[0]);
    case BackendAction::undrain:
      backend->reopen(Closure::draining);
      log::info(fmt::format("{} drains no more, {}", name, who));
      co_return told(overview, history, places[0]);
    case BackendAction::weight: break;
  }

  if (overview.control == nullptr) co_return admin_error(503, "nothing can be changed now");
  call.pool = pool.spec().name;
  auto set = co_await overview.control->set_weight(*call.pool, call.id, weight);
  if (!set) co_return admin_error(422, set.error().detail);
  log::info(fmt::format("{} has weight {}, {}", name, weight, who));
  places = find_backends(*overview.fleet, call);  // in the fleet that has it
  if (places.empty()) co_return no_such_backend(call);
  co_return told(overview, history, places[0]);
}

Task<AdminAnswer> act_reload(const Overview& overview) {
  if (overview.control == nullptr) co_return admin_error(503, "nothing can be changed now");
  auto problems = co_await overview.control->reload();
  if (!problems.empty()) co_return AdminAnswer{422, problems_json(problems)};
  co_return AdminAnswer{200, status_document(overview)};
}

}  // namespace evenkeel
