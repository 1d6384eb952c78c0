#include "evenkeel/http/credentials.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "evenkeel/base/ascii.h"
#include "evenkeel/base/path.h"

namespace evenkeel {
namespace {

constexpr std::array<std::string_view, 12> endings = {
    "api-key",   "apikey",     "auth-key",     "subscription-key", "functions-key", "authorization",
    "api-token", "auth-token", "access-token", "security-token",   "private-token", "client-secret",
};

// Names that count in queries alone, not as those of fields.
constexpr std::array<std::string_view, 2> query_names = {"key", "token"};
constexpr std::array<std::string_view, 2> query_endings = {"refresh-token", "id-token"};

// What may be part of the request, such as the signature of the URL that it is about: a backend
// gets it, a log does not. Signed URLs of clouds have names such as `X-Amz-Signature`.
constexpr std::array<std::string_view, 1> hidden_names = {"sig"};
constexpr std::array<std::string_view, 6> hidden_endings = {"signature", "credential", "password",
                                                            "passwd",    "pwd",        "secret"};

/// How often a value may have been percent-encoded and still be looked into.
constexpr int max_encodings = 3;

char folded(char c) { return c == '_' ? '-' : to_lower(c); }

bool ends_as_one_of(std::span<const std::string_view> all, std::string_view name) {
  return std::any_of(all.begin(), all.end(), [name](std::string_view ending) {
    return name.size() >= ending.size() &&
           is_spelling_of(name.substr(name.size() - ending.size()), ending);
  });
}

bool is_one_of(std::span<const std::string_view> all, std::string_view name) {
  return std::any_of(all.begin(), all.end(),
                     [name](std::string_view each) { return is_spelling_of(name, each); });
}

/// What a lenient server may read as the name: it may have spaces around it, or be that of a list.
std::string_view bare_name(std::string_view name) {
  constexpr std::string_view blank(" +\t\0", 4);
  return trimmed(name.substr(0, name.find('[')), blank);
}

bool names_credential_in_query(std::string_view name) {
  return is_one_of(query_names, name) || ends_as_one_of(query_endings, name) ||
         names_credential(name);
}

constexpr std::uint32_t letter_bit(char letter) {
  return 1U << static_cast<unsigned>(letter - 'a');
}

/// The letters with which names of secrets end, a bit each.
constexpr std::uint32_t last_letters = [] {
  std::uint32_t letters = 0;
  const auto add = [&letters](const auto& names) {
    for (const std::string_view name : names) letters |= letter_bit(name.back());
  };
  add(endings);
  add(query_names);
  add(query_endings);
  add(hidden_names);
  add(hidden_endings);
  return letters;
}();

/// True if no secret has a name with this last letter, as most have none.
bool rules_out_secret(char last) {
  const char letter = to_lower(last);
  return letter < 'a' || letter > 'z' || (last_letters & letter_bit(letter)) == 0;
}

bool names_secret(std::string_view name) {
  if (name.empty() || rules_out_secret(name.back())) return false;
  return is_one_of(hidden_names, name) || ends_as_one_of(hidden_endings, name) ||
         names_credential_in_query(name);
}

/// True for what separates parameters: lenient servers know others than '&'.
constexpr bool is_separator(char c) { return c == '&' || c == ';' || c == '?' || c == '#'; }

/// Calls `use` for each parameter of a query, with the separator before it.
template <class Use>
void each_parameter(std::string_view query, const Use& use) {
  char separator = '?';
  while (true) {
    const auto* const end = std::find_if(query.begin(), query.end(), is_separator);
    const auto size = static_cast<std::size_t>(end - query.begin());
    use(separator, query.substr(0, size));
    if (size == query.size()) return;
    separator = *end;
    query.remove_prefix(size + 1);
  }
}

/// True for a parameter that is a credential, however its name is encoded.
bool is_credential(std::string_view parameter) {
  const auto is_named = [](std::string_view decoded) {
    return names_credential_in_query(bare_name(decoded.substr(0, decoded.find('='))));
  };
  const bool encoded = parameter.find('%') != std::string_view::npos;
  return encoded ? is_named(percent_decoded(parameter)) : is_named(parameter);
}

/// True if something in the text is given a value that is to be hidden.
bool assigns_secret(std::string_view text) {
  bool found = false;
  each_parameter(text, [&](char, std::string_view piece) {
    for (auto end = piece.find('='); end != std::string_view::npos; end = piece.find('=')) {
      found |= names_secret(bare_name(piece.substr(0, end)));
      piece.remove_prefix(end + 1);
    }
  });
  return found;
}

/// True for a parameter that a log is not to show: its value may be a URL with a query of its own.
bool is_secret(std::string_view parameter) {
  std::string decoded;
  for (int encodings = 0; !assigns_secret(parameter); ++encodings) {
    const bool encoded = parameter.find('%') != std::string_view::npos;
    if (!encoded || encodings == max_encodings) return false;
    decoded = percent_decoded(parameter);
    parameter = decoded;
  }
  return true;
}

/// The name of a parameter with a secret, for the log; empty if the secret is in it.
std::string_view plain_name(std::string_view parameter) {
  const std::string_view name = parameter.substr(0, parameter.find('='));
  return is_secret(name) ? std::string_view() : name;
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
  each_parameter(query, [&](char, std::string_view each) { found = found || is_credential(each); });
  return found;
}

bool query_holds_secret(std::string_view target) {
  bool found = false;
  each_parameter(target.substr(target.find('?') + 1),
                 [&](char, std::string_view each) { found = found || is_secret(each); });
  return found;
}

std::string target_without_credentials(std::string_view target) {
  const std::size_t mark = target.find('?');
  std::string changed(target.substr(0, mark));
  if (mark == std::string_view::npos) return changed;
  bool is_first = true;
  each_parameter(target.substr(mark + 1), [&](char separator, std::string_view each) {
    if (is_credential(each)) return;
    changed.append(1, is_first ? '?' : separator).append(each);
    is_first = false;
  });
  return changed;
}

std::string target_with_hidden_secrets(std::string_view target) {
  const std::size_t mark = target.find('?');
  std::string changed(target.substr(0, mark));
  if (mark == std::string_view::npos) return changed;
  each_parameter(target.substr(mark + 1), [&](char separator, std::string_view each) {
    const bool secret = is_secret(each);
    changed.append(1, separator).append(secret ? plain_name(each) : each);
    if (secret) changed.append("=***");
  });
  return changed;
}

}  // namespace evenkeel
