// What names the session of a request, for pools that pin sessions to backends.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/config/config.h"
#include "evenkeel/http/message.h"
#include "evenkeel/picker/hint.h"
#include "evenkeel/pool/affinity_table.h"

namespace evenkeel {

/// The sessions of tenants' requests that name none, by the tenant's name: keys as SessionHint has
/// them.
using TenantSessions = std::map<std::string, std::uint64_t, std::less<>>;
/// Returns null if no tenant has one.
std::shared_ptr<const TenantSessions> sessions_of(const std::vector<TenantConfig>& tenants);

/// Where a pool looks for the name of a session: the first source that a request has counts. Ids
/// that servers hand out are learned from their answers. A request without any belongs to the
/// session of its tenant, if that has one.
class SessionSources {
 public:
  /// The cookie that evenkeel sets itself.
  static constexpr std::string_view own_cookie = "evenkeel-session";

  /// Parses the sources of the file: `agent-session`, `response-id`, `header:NAME`, `cookie:NAME`,
  /// `cookie`, `session_id`, `sequence_id`. `of_tenants`: null: none. REQUIRES: `mode` is not
  /// `off`.
  explicit SessionSources(const std::vector<std::string>& by,
                          AffinityMode mode = AffinityMode::hard,
                          std::shared_ptr<const TenantSessions> of_tenants = nullptr);

  /// Nothing if the request has none of the sources but `response-id`. Those of its body count only
  /// if that was inspected.
  std::optional<SessionHint> find(const Request& request) const;
  /// True if ids of responses and conversations lead to the servers that have handed them out.
  bool by_response_id() const { return by_response_id_; }
  /// True if the rest of the request's body, which is being read, may name the session. Only
  /// sources that the file names one by one count.
  bool awaits_name(const Request& request) const;
  /// True if a request without a session gets one, with a cookie that names it.
  bool sets_cookie() const { return sets_cookie_; }
  /// True if answers may name a session.
  bool learns() const { return learns_; }
  /// Pins what the head of the answer names: a field or a cookie of `by` with a value that the
  /// request did not have.
  void learn(const Request& request, const Response& response, const AnswerPins& pins,
             Instant now) const;
  /// True if the body of the answer is to be read for the id of a response or a conversation.
  bool reads_answer(const Request& request) const;

 private:
  enum class Kind : std::uint8_t { agent_session, header, cookie, session_id, sequence_id };
  struct Source {
    Kind kind;
    std::string name;
    bool is_of_agents = false;  // a field by which `agent-session` finds the same session
  };

  std::optional<SessionHint> find(const Source& source, const Request& request) const;
  std::optional<SessionHint> session_of_tenant(const Request& request) const;
  static std::uint64_t key_of(const Source& source, std::string_view value);

  std::vector<Source> sources_;
  const std::shared_ptr<const TenantSessions> of_tenants_;
  const bool is_soft_;
  bool sets_cookie_ = false;
  bool learns_ = false;
  bool by_response_id_ = false;
};

/// The id of a response or a conversation that the request is about or goes on from, which a server
/// has handed out: a key as SessionHint has it.
std::optional<std::uint64_t> find_response_id(const Request& request);

/// The value of a cookie; empty: there is none.
std::string_view cookie_value(const Fields& fields, std::string_view name);

/// The `set-cookie` that names a session. `secure`: the client uses TLS.
std::string session_cookie(std::string_view session, bool secure);

}  // namespace evenkeel
