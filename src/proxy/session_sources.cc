#include "proxy/session_sources.h"

#include <algorithm>

#include "evenkeel/base/hash.h"
#include "evenkeel/base/rng.h"

namespace evenkeel {
namespace {

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
  while (text.ends_with(' ') || text.ends_with('\t')) text.remove_suffix(1);
  return text;
}

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

SessionSources::SessionSources(const std::vector<std::string>& by) {
  constexpr std::string_view header = "header:";
  constexpr std::string_view cookie = "cookie:";
  for (const std::string& source : by) {
    if (source.starts_with(header)) {
      sources_.push_back({Kind::header, source.substr(header.size())});
    } else if (source.starts_with(cookie)) {
      sources_.push_back({Kind::cookie, source.substr(cookie.size())});
    } else if (source == "cookie") {
      sources_.push_back({Kind::cookie, std::string(own_cookie)});
      sets_cookie_ = true;
    } else {
      const bool is_sequence = source == "sequence_id";
      sources_.push_back({is_sequence ? Kind::sequence_id : Kind::session_id, {}});
    }
  }
}

std::optional<SessionHint> SessionSources::find(const Request& request) const {
  const InferenceInfo* const info = request.info.inference.get();
  for (const Source& source : sources_) {
    const bool of_body = source.kind == Kind::session_id || source.kind == Kind::sequence_id;
    if (of_body) {
      const bool is_sequence = source.kind == Kind::sequence_id;
      if (info == nullptr || info->request.session.empty()) continue;
      if (is_sequence != (info->request.task == InferenceTask::infer)) continue;
      const std::uint64_t session = hash_of(info->request.session);
      // The ids of sequences are small numbers, and those of each model are its own.
      if (!is_sequence) return SessionHint{.key = session};
      return SessionHint{.key = mix(session) ^ hash_of(info->request.model),
                         .is_sequence = true,
                         .starts = info->request.starts_sequence};
    }
    const std::string_view value = source.kind == Kind::header
                                       ? request.fields.value(source.name).value_or("")
                                       : cookie_value(request.fields, source.name);
    if (!value.empty()) return SessionHint{.key = hash_of(value)};
  }
  return std::nullopt;
}

}  // namespace evenkeel
