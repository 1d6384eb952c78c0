#include "evenkeel/http/credentials.h"

#include <algorithm>
#include <array>
#include <span>

#include "evenkeel/base/ascii.h"
#include "evenkeel/base/path.h"

namespace evenkeel {
namespace {

constexpr std::array<std::string_view, 12> endings = {
    "api-key",   "apikey",     "auth-key",     "subscription-key", "functions-key", "authorization",
    "api-token", "auth-token", "access-token", "security-token",   "private-token", "client-secret",
};

// Names that count in queries alone, not as those of fields. "Signature" and "credential" end those
// of signed URLs of clouds, such as `X-Amz-Signature`.
constexpr std::array<std::string_view, 3> query_names = {"key", "token", "sig"};
constexpr std::array<std::string_view, 4> query_endings = {"signature", "credential", "password",
                                                           "passwd"};

char folded(char c) { return c == '_' ? '-' : to_lower(c); }

bool ends_as_one_of(std::span<const std::string_view> all, std::string_view name) {
  return std::any_of(all.begin(), all.end(), [name](std::string_view ending) {
    return name.size() >= ending.size() &&
           is_spelling_of(name.substr(name.size() - ending.size()), ending);
  });
}

/// True for whatever a lenient server may read as the name: escaped, with spaces, or as of a list.
bool names_credential_in_query(std::string_view parameter) {
  std::string decoded = percent_decoded(parameter);
  std::replace(decoded.begin(), decoded.end(), '+', ' ');
  std::string_view name = std::string_view(decoded).substr(0, decoded.find_first_of("=["));
  constexpr std::string_view blank(" \t\0", 3);
  name = trimmed(name, blank);
  const auto is_name = [name](std::string_view each) { return is_spelling_of(name, each); };
  return std::any_of(query_names.begin(), query_names.end(), is_name) ||
         ends_as_one_of(query_endings, name) || names_credential(name);
}

/// Calls `use` for each parameter of a query, with the separator before it. Lenient servers know
/// others than '&'.
template <class Use>
void each_parameter(std::string_view query, const Use& use) {
  char separator = '?';
  while (true) {
    const std::size_t end = query.find_first_of("&;?#");
    use(separator, query.substr(0, end));
    if (end == std::string_view::npos) return;
    separator = query[end];
    query.remove_prefix(end + 1);
  }
}

/// The name of a parameter with a credential, for the log; empty if more than a name may be in it.
std::string_view plain_name(std::string_view parameter) {
  const std::string_view name = parameter.substr(0, parameter.find('='));
  return percent_decoded(name).find('=') == std::string::npos ? name : std::string_view();
}

/// Calls `use` for each item of a list of subprotocols.
template <class Use>
void each_subprotocol(std::string_view list, const Use& use) {
  while (!list.empty()) {
    const std::size_t begin = list.find_first_not_of(" \t,");
    if (begin == std::string_view::npos) return;
    const std::size_t end = std::min(list.find_first_of(" \t,", begin), list.size());
    use(list.substr(begin, end - begin));
    list.remove_prefix(end);
  }
}

/// True for the way in which OpenAI's clients in browsers send their key.
bool is_key(std::string_view subprotocol) {
  constexpr std::string_view prefix = "openai-insecure-api-key.";
  return subprotocol.size() > prefix.size() && starts_with_ignore_case(subprotocol, prefix);
}

}  // namespace

bool is_spelling_of(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char left, char right) { return folded(left) == folded(right); });
}

bool ends_as_credential(std::string_view name) { return ends_as_one_of(endings, name); }

bool lists_credential(std::string_view name, std::string_view value) {
  bool has_key = false;
  if (is_spelling_of(name, subprotocol_field))
    each_subprotocol(value, [&](std::string_view item) { has_key |= is_key(item); });
  return has_key;
}

void add_other_subprotocols(std::string_view subprotocols, std::string& to) {
  each_subprotocol(subprotocols, [&](std::string_view item) {
    if (!is_key(item)) to.append(to.empty() ? "" : ", ").append(item);
  });
}

bool query_holds_credential(std::string_view target) {
  const std::string_view query = target.substr(target.find('?') + 1);
  bool found = false;
  each_parameter(query,
                 [&](char, std::string_view each) { found |= names_credential_in_query(each); });
  return found;
}

std::string target_without_credentials(std::string_view target) {
  const std::size_t mark = target.find('?');
  std::string changed(target.substr(0, mark));
  if (mark == std::string_view::npos) return changed;
  bool is_first = true;
  each_parameter(target.substr(mark + 1), [&](char separator, std::string_view each) {
    if (names_credential_in_query(each)) return;
    changed.append(1, is_first ? '?' : separator).append(each);
    is_first = false;
  });
  return changed;
}

std::string target_with_hidden_credentials(std::string_view target) {
  const std::size_t mark = target.find('?');
  std::string changed(target.substr(0, mark));
  if (mark == std::string_view::npos) return changed;
  each_parameter(target.substr(mark + 1), [&](char separator, std::string_view each) {
    const bool secret = names_credential_in_query(each);
    changed.append(1, separator).append(secret ? plain_name(each) : each);
    if (secret) changed.append("=***");
  });
  return changed;
}

}  // namespace evenkeel
