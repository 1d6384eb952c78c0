#include "evenkeel/filter/auth.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "evenkeel/base/path.h"
#include "evenkeel/base/utf8.h"
#include "evenkeel/filter/held_bodies.h"
#include "evenkeel/http/grpc.h"
#include "evenkeel/inference/api_paths.h"
#include "evenkeel/inference/request_reader.h"

namespace evenkeel {
namespace {

constexpr std::string_view how_to_send = "send a key as `authorization: Bearer KEY` or `x-api-key`";

Error unauthorized(CredentialState state) {
  std::string detail;
  switch (state) {
    case CredentialState::accepted:
    case CredentialState::missing: detail = "the request has no API key or token: "; break;
    case CredentialState::unnamed:
      detail =
          "the request has no API key or token, and its client certificate is no tenant's or has "
          "expired: ";
      break;
    case CredentialState::unknown:
      detail = "the API key or token of the request is not known here: ";
      break;
    case CredentialState::expired:
      detail = "the API key or token of the request has expired: ";
      break;
    case CredentialState::unverifiable:
      return {.fault = Fault::unauthorized,
              .side = Side::client,
              .detail =
                  "the token of the request cannot be verified: the keys of its issuer have "
                  "not been fetched yet; try again"};
  }
  return {.fault = Fault::unauthorized, .side = Side::client, .detail = detail.append(how_to_send)};
}

Error not_allowed(std::string detail) {
  return {.fault = Fault::model_not_allowed, .side = Side::client, .detail = std::move(detail)};
}

/// The model that a request without a readable body names: in its path, or, for a tunnel, in its
/// query.
std::string model_in_target(const Request& request, std::string_view path) {
  std::string model = model_in_path(request.method, path);
  return model.empty() && !request.upgrade.empty() ? model_in_query(request.path) : model;
}

/// True if the model may be the query's alone, while the body says nothing that could be read.
bool may_be_of_query(const Request& request, const InferenceInfo& info) {
  const std::string in_query = model_in_query(request.path);
  return !in_query.empty() && in_query == info.request.model && !info.is_empty &&
         info.places.model_values.empty();
}

/// The model as the client names it; empty if nothing tells. A body that was not read may name
/// another one than the query does, and an API that is not known may mean something else by it.
std::string model_of(const Request& request) {
  std::string storage;
  const auto path = normalised_path(request.path, storage);
  if (!path) return {};
  const InferenceInfo* const info = request.info.inference.get();
  if (info == nullptr) {
    const bool is_tunnel = !request.upgrade.empty();
    return request.body == nullptr || is_tunnel ? model_in_target(request, *path) : std::string();
  }
  const bool is_known = info->request.task != InferenceTask::other ||
                        api_path_of(*path) != nullptr ||
                        !model_in_path(request.method, *path).empty();
  return is_known && !may_be_of_query(request, *info) ? info->request.model : std::string();
}

/// True if the body may name another model than it seems to: its end was not read, or servers
/// differ in what they read. Of calls of gRPC the first message counts.
bool may_name_another(const Request& request, const InferenceInfo& info) {
  if (info.request.model_disputed) return true;
  return !info.is_empty && info.places.names_model && !info.request.complete && !is_grpc(request);
}

/// Why the tenant may not use the model of the request; nothing: it may.
std::optional<Error> model_refusal(const Request& request) {
  const RequestTenant& tenant = request.info.identity.tenant;
  const InferenceInfo* const info = request.info.inference.get();
  // What was not read could name another model.
  if (info != nullptr && info->cut_short) return no_room_for_bodies();
  if (info != nullptr && may_name_another(request, *info)) {
    return not_allowed(
        "this client may use some models only, and the body may name another one: it could not be "
        "read to its end, or has a member such as `MODEL` or `lora_path`");
  }
  const std::string model = model_of(request);
  if (!model.empty()) {
    if (may_use(tenant, model)) return std::nullopt;
    return not_allowed(
        fmt::format("the model `{}` is not among those that this client may use; GET /v1/models "
                    "lists them",
                    printable_utf8(model)));
  }
  return not_allowed(
      "this client may use some models only, and nothing tells which one the request is for");
}

}  // namespace

std::optional<Error> AuthFilter::refusal_of(const Request& request) const {
  const AuthRule rule = rules_.rule_of(request);
  if (rule == AuthRule::off) return std::nullopt;
  const CredentialState state = rules_.credential_of(request);
  if (state == CredentialState::accepted) {
    std::string denial = rules_.denial_of(request);
    if (denial.empty()) return std::nullopt;
    return Error{
        .fault = Fault::tenant_not_allowed, .side = Side::client, .detail = std::move(denial)};
  }
  const bool has_none = state == CredentialState::missing || state == CredentialState::unnamed;
  if (rule == AuthRule::optional && has_none) return std::nullopt;
  return unauthorized(state);
}

Task<Result<Response>> AuthFilter::handle(Request& request, Handler& next) {
  if (auto refusal = refusal_of(request)) return Result<Response>(std::move(*refusal));
  if (request.info.identity.tenant.has_model_limit()) {
    request.info.identity.routing.reads_body = true;
  }
  return next.handle(request);
}

std::optional<Error> AuthFilter::admit(Request& request) const {
  auto refusal = refusal_of(request);
  if (!refusal) rules_.remove_credential(request);
  return refusal;
}

Task<Result<Response>> AuthorizationFilter::handle(Request& request, Handler& next) {
  if (auto refusal = auth_.admit(request)) return Result<Response>(std::move(*refusal));
  const bool is_limited =
      request.info.identity.tenant.has_model_limit() && rules_.rule_of(request) != AuthRule::off;
  if (is_limited) {
    if (auto refusal = model_refusal(request)) return Result<Response>(std::move(*refusal));
  }
  return next.handle(request);
}

}  // namespace evenkeel
