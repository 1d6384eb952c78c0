#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "config/forms.h"
#include "config/text.h"
#include "evenkeel/base/ascii.h"
#include "evenkeel/base/path.h"
#include "evenkeel/base/regex.h"
#include "evenkeel/config/address.h"
#include "evenkeel/config/field_value.h"
#include "evenkeel/config/spelling.h"

// The checks of TextForm for what routes change in requests and in answers.
namespace evenkeel::config_file {
namespace {

bool starts_with_ignore_case(std::string_view text, std::string_view prefix) {
  return lower_case(text.substr(0, prefix.size())) == prefix;
}

/// True if a part of a URL may have the character as it is.
bool is_target_char(char c) {
  constexpr std::string_view others = "-._~!$&'()*+,;=:@/?%[]";
  return is_letter_or_digit(c) || others.find(c) != others.npos;
}

/// Names that one module alone writes, with the key that is meant instead.
struct OwnField {
  std::string_view name;
  std::string_view help;
};

constexpr std::string_view framing_help = "evenkeel frames messages itself";
constexpr std::string_view hop_help = "it is about one connection, and each has its own";
constexpr auto own_fields =
    std::to_array<OwnField>({{"host", "write `host` in the pool: what its backends get as Host"},
                             {"content-length", framing_help},
                             {"transfer-encoding", framing_help},
                             {"trailer", framing_help},
                             {"connection", hop_help},
                             {"keep-alive", hop_help},
                             {"proxy-connection", hop_help},
                             {"proxy-authenticate", hop_help},
                             {"proxy-authorization", hop_help},
                             {"http2-settings", hop_help},
                             {"te", hop_help},
                             {"upgrade", hop_help},
                             {"expect", hop_help}});

std::optional<ValidationError> check_value(std::string& value, bool of_response) {
  if (auto problem = check_field_value(value)) return problem;
  const auto parts = parse_template(value);
  if (!parts) {
    return ValidationError{"has a '$' without a name behind it",
                           "write $NAME, or $${NAME} where a letter follows"};
  }
  const std::vector<std::string> names = field_value_names(of_response);
  for (const TemplatePart& part : *parts) {
    if (part.name.empty() || std::ranges::find(names, part.name) != names.end()) continue;
    const std::string name(part.name);
    const auto meant = nearest_word(name, names);
    return ValidationError{
        fmt::format("'${}' is not known here", name),
        meant ? did_you_mean('$' + *meant) : fmt::format("available: {}", fmt::join(names, ", "))};
  }
  return std::nullopt;
}

}  // namespace

std::optional<ValidationError> check_regex(std::string& value) {
  const std::string problem = Regex(value).problem();
  if (problem.empty()) return std::nullopt;
  return ValidationError{fmt::format("not a regular expression: {}", problem),
                         "as RE2 has them: without backreferences and lookaround"};
}

std::optional<ValidationError> check_path_regex(std::string& value) {
  if (auto problem = check_regex(value)) return problem;
  const bool is_prefix = value.starts_with('^') && !value.ends_with('$') && !value.ends_with('*');
  if (!is_prefix) return std::nullopt;
  return ValidationError{
      fmt::format("'{}' would have to match all of the path, and has '^' only", value),
      did_you_mean(value.substr(1) + ".*")};
}

std::optional<ValidationError> check_path_prefix(std::string& value) {
  if (auto problem = check_plain_path(value)) return problem;
  std::string storage;
  const auto normal = normalised_path(value, storage);
  if (!normal) return ValidationError{fmt::format("'{}': {}", value, normal.error().detail), {}};
  const bool has_query = value.find('?') != value.npos;
  if (has_query || value.find('*') != value.npos) {
    return ValidationError{fmt::format("'{}' is not a path of segments", value),
                           has_query ? "the query stays as it is" : "write the segments alone"};
  }
  std::string path(*normal);
  while (path.ends_with('/')) path.pop_back();
  if (path.empty()) return ValidationError{"'/' changes nothing", "remove it"};
  value = std::move(path);
  return std::nullopt;
}

std::optional<ValidationError> check_redirect(std::string& value) {
  std::string_view rest = value;
  const std::size_t scheme_end = value.find("://");
  if (scheme_end != value.npos) {
    const std::string scheme = lower_case(value.substr(0, scheme_end));
    const std::size_t slash = std::min(value.find('/', scheme_end + 3), value.size());
    const std::string_view authority =
        std::string_view(value).substr(scheme_end + 3, slash - scheme_end - 3);
    std::string_view host = authority;
    const bool is_clients = host.starts_with("$host");
    if (is_clients) host.remove_prefix(5);
    const bool is_host = std::ranges::all_of(host, [](char c) {
      return is_letter_or_digit(c) || c == '.' || c == '-' || c == '_' || c == ':' || c == '[' ||
             c == ']';
    });
    const bool is_port = host.empty() || host.starts_with(':');
    if ((scheme != "http" && scheme != "https") || !is_host || authority.empty() ||
        (is_clients && !is_port)) {
      return ValidationError{fmt::format("'{}' is not a URL of http or https", value),
                             "write https://HOST/PATH, with $host for the client's HOST"};
    }
    rest.remove_prefix(slash);
  } else if (!value.starts_with('/') || value.starts_with("//")) {
    return ValidationError{fmt::format("'{}' is neither a URL nor a path", value),
                           "write https://HOST/PATH, or /PATH"};
  }
  constexpr std::string_view open_end = "/**";
  if (rest.ends_with(open_end)) rest.remove_suffix(open_end.size());
  const auto* const strange = std::ranges::find_if_not(rest, is_target_char);
  const bool has_variable = rest.find('$') != rest.npos;
  if (strange == rest.end() && !has_variable && rest.find('*') == rest.npos) return std::nullopt;
  return ValidationError{
      fmt::format("'{}' has '{}' in its path", value,
                  strange != rest.end() ? *strange : (has_variable ? '$' : '*')),
      "'/**' at the end is what that of match.path matched; other signs are percent-encoded"};
}

std::optional<ValidationError> check_edited_field(std::string& value) {
  if (auto problem = check_header_name(value)) return problem;
  const auto* const own = std::ranges::find(own_fields, value, &OwnField::name);
  if (own != own_fields.end())
    return ValidationError{fmt::format("'{}' is not a field that routes change", value),
                           std::string(own->help)};
  if (!starts_with_ignore_case(value, "sec-websocket-")) return std::nullopt;
  return ValidationError{fmt::format("'{}' is a part of the handshake of WebSockets", value), {}};
}

std::optional<ValidationError> check_request_value(std::string& value) {
  return check_value(value, false);
}

std::optional<ValidationError> check_response_value(std::string& value) {
  return check_value(value, true);
}

std::optional<ValidationError> check_origin(std::string& value) {
  if (value == "*") return std::nullopt;
  const std::string problem = fmt::format("'{}' is not an origin", value);
  const std::size_t scheme_end = value.find("://");
  if (scheme_end == value.npos) {
    return ValidationError{problem, did_you_mean("https://" + value)};
  }
  std::string origin = lower_case(value);
  while (origin.ends_with('/')) origin.pop_back();
  std::string_view host = std::string_view(origin).substr(scheme_end + 3);
  if (host.starts_with("*.")) host.remove_prefix(2);
  const bool good = !host.empty() && std::ranges::all_of(host, [](char c) {
    return is_letter_or_digit(c) || c == '.' || c == '-' || c == '_' || c == ':' || c == '[' ||
           c == ']';
  });
  if (!good) {
    return ValidationError{problem,
                           "write scheme://host, with :port unless it is the scheme's own; "
                           "https://*.example.org stands for all hosts below it"};
  }
  value = std::move(origin);
  return std::nullopt;
}

}  // namespace evenkeel::config_file
