#include "proxy/session_sources.h"

#include <algorithm>
#include <utility>

#include "evenkeel/base/ascii.h"
#include "evenkeel/base/hash.h"
#include "evenkeel/base/path.h"
#include "evenkeel/base/rng.h"
#include "evenkeel/http/grpc.h"
#include "proxy/agent_session.h"

namespace evenkeel {
namespace {

/// The value of a cookie in one field (RFC 6265, section 4.2.1).
std::string_view find_cookie(std::string_view field, std::string_view name) {
  while (!field.empty()) {
    const std::size_t end = std::min(field.find(';'), field.size());
    const std::string_view pair = trimmed(field.substr(0, end));
    if (pair.size() > name.size() && pair.starts_with(name) && pair[name.size()] == '=') {
      return pair.substr(name.size() + 1);
    }
    field.remove_prefix(std::min(end + 1, field.size()));
  }
  return {};
}

constexpr std::string_view responses = "/v1/responses";
constexpr std::string_view conversations = "/v1/conversations";

/// The id in `/v1/responses/ID`, `/v1/conversations/ID` and below, also behind a prefix; empty: it
/// has none.
std::string id_in_path(const Request& request) {
  const bool may_have = request.path.find("/v1/") != std::string_view::npos ||
                        request.path.find('%') != std::string_view::npos;
  if (!may_have) return {};
  std::string storage;
  const auto path = normalised_path(request.path, storage);
  if (!path) return {};
  for (const std::string_view place : {responses, conversations}) {
    const std::size_t at = path->find(place);
    if (at == std::string_view::npos) continue;
    std::string_view rest = path->substr(at + place.size());
    if (!rest.starts_with('/')) continue;
    rest.remove_prefix(1);
    const std::string_view id = next_path_segment(rest);
    // /v1/responses/compact and the like
    if (place == responses && rest.empty() && request.method == "POST") return {};
    return percent_decoded(id);
  }
  return {};
}

/// True if the request creates a response or a conversation.
bool creates_response(const Request& request) {
  if (request.method != "POST") return false;
  std::string storage;
  const auto path = normalised_path(request.path, storage);
  return path && (path->ends_with(responses) || path->ends_with(conversations));
}

/// True if the request's body may name a session, as far as the API is known.
bool has_prompt(InferenceTask task) {
  return task == InferenceTask::chat || task == InferenceTask::completion ||
         task == InferenceTask::embedding;
}

}  // namespace

std::string_view cookie_value(const Fields& fields, std::string_view name) {
  if (!fields.has(FieldId::cookie)) return {};
  for (const Field& field : fields) {
    if (field.id != FieldId::cookie) continue;
    const std::string_view value = find_cookie(field.value(), name);
    if (!value.empty()) return value;
  }
  return {};
}

std::string session_cookie(std::string_view session, bool secure) {
  std::string cookie(SessionSources::own_cookie);
  cookie += '=';
  cookie += session;
  cookie += "; Path=/; HttpOnly; SameSite=Lax";
  if (secure) cookie += "; Secure";
  return cookie;
}

/// A client that does name the session is in the same one.
std::shared_ptr<const TenantSessions> sessions_of(const std::vector<TenantConfig>& tenants) {
  TenantSessions sessions;
  for (const TenantConfig& tenant : tenants) {
    if (!tenant.session.empty()) sessions[tenant.name] = hash_of(tenant.session);
  }
  return sessions.empty() ? nullptr : std::make_shared<const TenantSessions>(std::move(sessions));
}

SessionSources::SessionSources(const std::vector<std::string>& by, AffinityMode mode,
                               std::shared_ptr<const TenantSessions> of_tenants)
    : of_tenants_(std::move(of_tenants)), is_soft_(mode == AffinityMode::soft) {
  constexpr std::string_view header = "header:";
  constexpr std::string_view cookie = "cookie:";
  for (const std::string& source : by) {
    if (source == "response-id") {
      by_response_id_ = learns_ = true;
    } else if (source.starts_with(header)) {
      sources_.push_back({Kind::header, source.substr(header.size())});
      learns_ = true;
    } else if (source.starts_with(cookie)) {
      sources_.push_back({Kind::cookie, source.substr(cookie.size())});
      learns_ = true;
    } else if (source == "cookie") {
      sources_.push_back({Kind::cookie, std::string(own_cookie)});
      sets_cookie_ = true;
    } else if (source == "agent-session") {
      sources_.push_back({Kind::agent_session, {}});
    } else {
      const bool is_sequence = source == "sequence_id";
      sources_.push_back({is_sequence ? Kind::sequence_id : Kind::session_id, {}});
    }
  }
  const bool has_agents = std::ranges::find(by, "agent-session") != by.end();
  for (Source& source : sources_) {
    source.is_of_agents = has_agents && source.kind == Kind::header && is_agent_field(source.name);
  }
}

std::uint64_t SessionSources::key_of(const Source& source, std::string_view value) {
  return source.is_of_agents ? agent_session_key(value) : hash_of(value);
}

std::optional<SessionHint> SessionSources::find(const Request& request) const {
  for (const Source& source : sources_) {
    auto session = find(source, request);
    if (!session) continue;
    session->is_soft = is_soft_ && !session->has_state;
    return session;
  }
  return of_tenants_ == nullptr ? std::nullopt : session_of_tenant(request);
}

std::optional<SessionHint> SessionSources::session_of_tenant(const Request& request) const {
  const auto found = of_tenants_->find(request.info.identity.tenant.name);
  if (found == of_tenants_->end()) return std::nullopt;
  return SessionHint{.key = found->second, .is_soft = is_soft_};
}

std::optional<SessionHint> SessionSources::find(const Source& source,
                                                const Request& request) const {
  const InferenceInfo* const info = request.info.inference.get();
  std::string_view value;
  switch (source.kind) {
    case Kind::agent_session: return find_agent_session(request);
    case Kind::header: value = request.fields.value(source.name).value_or(""); break;
    case Kind::cookie: value = cookie_value(request.fields, source.name); break;
    case Kind::session_id:
    case Kind::sequence_id: {
      if (info == nullptr || info->request.session.empty()) return std::nullopt;
      const bool is_sequence = source.kind == Kind::sequence_id;
      if (is_sequence != (info->request.task == InferenceTask::infer)) return std::nullopt;
      const std::uint64_t session = hash_of(info->request.session);
      // The ids of sequences are small numbers, and those of each model are its own.
      if (!is_sequence) return SessionHint{.key = session};
      return SessionHint{.key = mix(session) ^ hash_of(info->request.model),
                         .has_state = true,
                         .starts = info->request.starts_sequence};
    }
  }
  if (value.empty()) return std::nullopt;
  return SessionHint{.key = key_of(source, value)};
}

std::optional<std::uint64_t> find_response_id(const Request& request) {
  std::string id = id_in_path(request);
  const InferenceInfo* const info = request.info.inference.get();
  if (id.empty() && info != nullptr) id = info->request.previous_response;
  if (id.empty() && info != nullptr) id = info->request.conversation_id;
  if (id.empty()) return std::nullopt;
  return AnswerPins::key_of_id(std::string_view(id).substr(0, InferenceResponse::max_id));
}

bool SessionSources::awaits_name(const Request& request) const {
  const InferenceRequest& asked = request.info.inference->request;
  if (by_response_id_ && creates_response(request)) {
    return asked.previous_response.empty() && asked.conversation_id.empty();
  }
  for (const Source& source : sources_) {
    if (find(source, request)) return false;
    // In a gRPC message, parameters come before tensors.
    const bool of_infer = asked.task == InferenceTask::infer && !is_grpc(request);
    if (source.kind == Kind::sequence_id && of_infer) return true;
    if (source.kind == Kind::session_id && has_prompt(asked.task)) return true;
  }
  return false;
}

bool SessionSources::reads_answer(const Request& request) const {
  return by_response_id_ && request.info.inference != nullptr && creates_response(request);
}

void SessionSources::learn(const Request& request, const Response& response, const AnswerPins& pins,
                           Instant now) const {
  for (const Source& source : sources_) {
    if (source.kind == Kind::header) {
      const auto value = response.fields.value(source.name);
      const bool is_echo = value && request.fields.value(source.name) == value;
      // A client of a soft session can go on elsewhere.
      if (value && !value->empty() && !is_echo) pins.pin(key_of(source, *value), !is_soft_, now);
    } else if (source.kind == Kind::cookie && source.name != own_cookie) {
      for (const Field& field : response.fields) {
        if (!equals_ignore_case(field.name(), "set-cookie")) continue;
        const std::string_view pair = field.value().substr(0, field.value().find(';'));
        const std::string_view value = find_cookie(pair, source.name);
        if (!value.empty()) pins.pin(key_of(source, value), false, now);
      }
    }
  }
}

}  // namespace evenkeel
