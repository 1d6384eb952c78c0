#include "proxy/agent_session.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "evenkeel/base/hash.h"

namespace evenkeel {
namespace {

enum class Role : std::uint8_t { session, parent, end };

struct KnownField {
  std::string_view name;
  Role role = Role::session;
};

// The fields, in the order in which they count.
constexpr auto known_fields = std::to_array<KnownField>({
    {"x-claude-code-agent-id"},  // of a child
    {"x-claude-code-parent-agent-id", Role::parent},
    {"x-claude-code-session-id"},  // also the parent of a child that names none
    {"thread-id"},                 // Codex
    {"x-codex-parent-thread-id", Role::parent},
    {"session-id"},  // older ones
    {"session_id"},
    {"x-session-affinity"},  // OpenCode
    {"x-parent-session-id", Role::parent},
    {"x-dynamo-session-id"},
    {"x-dynamo-parent-session-id", Role::parent},
    {"x-dynamo-session-final", Role::end},
    {"x-smg-routing-key"},
    {"x-session-id"},
    {"x-session-token"},
});

using Values = std::array<std::string_view, known_fields.size()>;

/// The values of the known fields, found in one pass: few requests have any.
Values values_of(const Fields& fields) {
  Values values{};
  for (const Field& field : fields) {
    const char first = field.name_size > 0 ? static_cast<char>(*field.name_begin | 0x20) : ' ';
    if (field.id != FieldId::other || (first != 'x' && first != 's' && first != 't')) continue;
    for (std::size_t i = 0; i < known_fields.size(); ++i) {
      const std::string_view name = known_fields[i].name;
      if (name.size() != field.name_size || !equals_ignore_case(name, field.name())) continue;
      if (values[i].empty()) values[i] = field.value();
      break;
    }
  }
  return values;
}

std::string_view first_of(const Values& values, Role role) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (known_fields[i].role == role && !values[i].empty()) return values[i];
  }
  return {};
}

/// The name in the body, of the widest use last.
std::string_view name_in_body(const Request& request) {
  if (request.info.inference == nullptr) return {};
  const InferenceRequest& asked = request.info.inference->request;
  if (asked.task == InferenceTask::infer) return {};  // its sequence is no conversation
  for (const std::string* name : {&asked.session, &asked.conversation_id, &asked.user}) {
    if (!name->empty()) return *name;
  }
  return {};
}

}  // namespace

bool is_agent_field(std::string_view name) {
  return std::ranges::any_of(known_fields, [name](const KnownField& each) {
    return each.role == Role::session && equals_ignore_case(each.name, name);
  });
}

std::uint64_t agent_session_key(std::string_view session) {
  constexpr std::uint64_t salt = 0xbb67ae8584caa73b;
  return hash_of(session) ^ salt;
}

std::optional<SessionHint> find_agent_session(const Request& request) {
  const Values values = values_of(request.fields);
  std::string_view session = first_of(values, Role::session);
  if (session.empty()) session = name_in_body(request);
  if (session.empty()) return std::nullopt;
  SessionHint hint{.key = agent_session_key(session),
                   .ends = equals_ignore_case(first_of(values, Role::end), "true")};
  std::string_view parent = first_of(values, Role::parent);
  // A child of Claude Code's main agent, which is named by the session alone.
  constexpr std::size_t agent = 0;
  constexpr std::size_t main_agent = 2;
  if (parent.empty() && !values[agent].empty()) parent = values[main_agent];
  if (!parent.empty()) hint.parent = agent_session_key(parent);
  return hint;
}

}  // namespace evenkeel
