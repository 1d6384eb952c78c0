#include "admin/actions.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "admin/documents.h"
#include "evenkeel/admin/control.h"
#include "evenkeel/base/json.h"
#include "evenkeel/base/log.h"
#include "evenkeel/inference/json.h"

namespace evenkeel {
namespace {

constexpr std::size_t max_body_bytes = 16 * 1024;
constexpr std::uint32_t max_weight = 1000;

constexpr std::array<std::pair<std::string_view, BackendAction>, 3> action_names = {
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
struct BackendPosition {
  std::size_t pool;
  std::size_t backend;
};

std::vector<BackendPosition> find_backends(const PoolSet& pool_set, const BackendCall& call) {
  std::vector<BackendPosition> found;
  for (std::size_t i = 0; i < pool_set.pools().size(); ++i) {
    const PoolState& pool = *pool_set.pools()[i].state;
    if (call.pool && pool.spec().name != *call.pool) continue;
    for (std::size_t j = 0; j < pool.backends().size(); ++j) {
      if (pool.backends()[j]->id() == call.id) found.push_back({i, j});
    }
  }
  return found;
}

AdminResponse ambiguous_backend(const PoolSet& pool_set, const BackendCall& call,
                                const std::vector<BackendPosition>& positions) {
  std::string names;
  for (const BackendPosition& position : positions) {
    names += (names.empty() ? "" : ", ") + pool_set.pools()[position.pool].state->spec().name;
  }
  return admin_error(409, fmt::format("backend '{}' is in several pools ({}); say which with "
                                      "?pool=NAME",
                                      call.id, names));
}

AdminResponse no_such_backend(const BackendCall& call) {
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
    if (text.size() + chunk->bytes.size() > max_body_bytes) co_return std::nullopt;
    text += chunk->bytes;
    last = chunk->last;
  }
  co_return text;
}

/// {"weight": N}; an error says what is wrong with it.
Result<std::uint32_t> parse_weight(std::string body) {
  const auto invalid = [](std::string detail) {
    return Error{.fault = Fault::bad_request, .side = Side::client, .detail = std::move(detail)};
  };
  constexpr const char* wanted = "the body is {\"weight\": N}, N from 1 to 1000";
  auto scalars = parse_json_scalars(body);
  if (!scalars) return invalid(fmt::format("{}: {}", wanted, scalars.error().detail));
  const auto weight = scalars->find("weight");
  if (weight == scalars->end() || scalars->size() != 1) return invalid(wanted);
  const double* number = std::get_if<double>(&weight->second);
  if (number == nullptr || !(*number >= 1) || *number > max_weight ||
      *number != std::floor(*number)) {
    return invalid(wanted);
  }
  return static_cast<std::uint32_t>(*number);
}

AdminResponse backend_response(const RuntimeAccess& runtime, BackendStateHistory& history,
                               BackendPosition position) {
  history.update(runtime.status->snapshot()->pool_set, Clock::now(),
                 std::chrono::system_clock::now());
  return {.document = backend_document(runtime, history, position.pool, position.backend)};
}

}  // namespace

AdminResponse admin_error(int status, std::string_view message) {
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
  for (const auto& [word, action] : action_names) {
    if (path.substr(slash + 1) != word) continue;
    return BackendCall{action, percent_decoded(path.substr(0, slash)), parameter(query, "pool")};
  }
  return std::nullopt;
}

Task<AdminResponse> apply_backend_action(const RuntimeAccess& runtime, BackendStateHistory& history,
                                         BackendCall call, Request& request) {
  std::uint32_t weight = 0;
  if (call.action == BackendAction::weight) {
    auto body = co_await read_body(request);
    if (!body) co_return admin_error(413, "a body of 16 KiB at most, please, and all of it");
    auto parsed = parse_weight(std::move(*body));
    if (!parsed) co_return admin_error(422, parsed.error().detail);
    weight = *parsed;
  }

  auto pool_set = runtime.status->snapshot()->pool_set;
  auto positions = find_backends(*pool_set, call);
  if (positions.empty()) co_return no_such_backend(call);
  if (positions.size() > 1) co_return ambiguous_backend(*pool_set, call, positions);
  const PoolState& pool = *pool_set->pools()[positions[0].pool].state;
  const BackendPtr backend = pool.backends()[positions[0].backend];
  const std::string name = fmt::format("pool {}: backend {}", pool.spec().name, call.id);
  const std::string requester = fmt::format("as {} asked", request.info.identity.client);
  switch (call.action) {
    case BackendAction::drain:
      backend->load().take_out(OutOfRotation::draining);
      log::info(fmt::format("{} drains, {}", name, requester));
      co_return backend_response(runtime, history, positions[0]);
    case BackendAction::undrain:
      backend->put_back(OutOfRotation::draining);
      log::info(fmt::format("{} drains no more, {}", name, requester));
      co_return backend_response(runtime, history, positions[0]);
    case BackendAction::weight: break;
  }

  if (runtime.control == nullptr) co_return admin_error(503, "nothing can be changed now");
  call.pool = pool.spec().name;
  auto set = co_await runtime.control->set_weight(*call.pool, call.id, weight);
  if (!set) co_return admin_error(422, set.error().detail);
  log::info(fmt::format("{} has weight {}, {}", name, weight, requester));
  pool_set = runtime.status->snapshot()->pool_set;  // which has the weight
  positions = find_backends(*pool_set, call);
  if (positions.empty()) co_return no_such_backend(call);
  co_return backend_response(runtime, history, positions[0]);
}

Task<AdminResponse> apply_reload(const RuntimeAccess& runtime) {
  if (runtime.control == nullptr) co_return admin_error(503, "nothing can be changed now");
  auto problems = co_await runtime.control->reload();
  if (!problems.empty()) co_return AdminResponse{422, problems_json(problems)};
  co_return AdminResponse{200, status_document(runtime)};
}

}  // namespace evenkeel
