#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "config/forms.h"
#include "config/text.h"
#include "evenkeel/base/ascii.h"
#include "evenkeel/base/hex.h"
#include "evenkeel/base/path.h"
#include "evenkeel/config/address.h"
#include "evenkeel/config/spelling.h"

// The checks that TextForm runs on names, paths, URLs and the like.
namespace evenkeel::config_file {

std::string lower_without(std::string_view characters, std::string_view text) {
  std::string out = lower_case(text);
  std::erase_if(out, [&](char c) { return characters.find(c) != characters.npos; });
  return out;
}

bool lists_word(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    const std::size_t end = std::min(words.find(' '), words.size());
    if (words.substr(0, end) == word) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

std::string join(const std::string& path, std::string_view key) {
  return path.empty() ? std::string{key} : fmt::format("{}.{}", path, key);
}

std::string did_you_mean(std::string_view word) { return fmt::format("did you mean '{}'?", word); }

namespace {

// True if the text is a token of RFC 9110.
bool is_token(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, is_token_char);
}

// True if the text is a media type without parameters; a star counts as any word.
bool is_media_type(std::string_view text) {
  const std::size_t slash = text.find('/');
  return slash != text.npos && is_token(text.substr(0, slash)) && is_token(text.substr(slash + 1));
}

}  // namespace

std::optional<ValidationError> check_name(std::string& value) {
  constexpr std::size_t longest = 64;
  const bool good = !value.empty() && value.size() <= longest && is_letter_or_digit(value[0]) &&
                    std::ranges::all_of(value, [](char c) {
                      return is_letter_or_digit(c) || c == '.' || c == '_' || c == '-';
                    });
  if (good) return std::nullopt;
  return ValidationError{
      fmt::format("'{}' is not a name: expected up to {} letters, digits, '.', '_' and "
                  "'-', the first a letter or digit",
                  value.substr(0, longest + 1), longest),
      {}};
}

std::optional<ValidationError> check_not_empty(std::string& value) {
  if (!value.empty()) return std::nullopt;
  return ValidationError{"is empty", {}};
}

std::optional<ValidationError> check_field_value(std::string& value) {
  const bool good =
      !value.empty() && !value.starts_with(' ') && !value.ends_with(' ') &&
      std::ranges::all_of(value, [](unsigned char c) { return c >= 0x20 && c != 0x7f; });
  if (good) return std::nullopt;
  return ValidationError{
      "is not the value of a header field: it is empty, begins or ends with a "
      "space, or has control characters",
      {}};
}

// The message does not show the value, which may be a key that is not hashed.
std::optional<ValidationError> check_sha256(std::string& value) {
  const bool is_hexadecimal = std::ranges::all_of(value, [](char c) { return hex_value(c) >= 0; });
  if (value.size() != 64 || !is_hexadecimal) {
    return ValidationError{"not a SHA-256 in hexadecimal, which has 64 digits",
                           "write what `printf %s KEY | sha256sum` prints"};
  }
  value = lower_case(value);
  return std::nullopt;
}

std::optional<ValidationError> check_certificate_name(std::string& value) {
  const auto fail = [&value](std::string_view why, std::string help) {
    return ValidationError{fmt::format("'{}' is no name of certificates: {}", value, why),
                           std::move(help)};
  };
  const bool is_visible = std::ranges::all_of(value, [](char c) { return c > ' ' && c < '\x7f'; });
  if (value.empty() || !is_visible) {
    return fail("it is empty, or has a space or what is not ASCII",
                "write a name of DNS, or a URI such as spiffe://prod/ns/acme/sa/app");
  }
  const bool is_uri = value.find(':') != value.npos;
  const bool ends_in_any = is_uri && value.ends_with("/*") && !value.ends_with("//*");
  if (value.find('*') < value.size() - (ends_in_any ? 1 : 0)) {
    return fail("'*' can only stand for the end of a URI's path",
                "write it as in spiffe://prod/ns/acme/*, or list the names");
  }
  if (is_uri) return std::nullopt;
  const bool is_host = std::ranges::all_of(
      value, [](char c) { return is_letter_or_digit(c) || c == '.' || c == '-' || c == '_'; });
  if (!is_host) {
    return fail("it is no name of DNS, and no URI",
                "take it from the Subject Alternative Name of the certificate");
  }
  value = lower_case(value);
  return std::nullopt;
}

std::optional<ValidationError> check_cache_salt(std::string& value) {
  constexpr std::size_t shortest = 16;
  constexpr std::size_t longest = 256;
  const bool is_plain = std::ranges::all_of(
      value, [](char c) { return is_letter_or_digit(c) || c == '-' || c == '_' || c == '='; });
  if (is_plain && value.size() >= shortest && value.size() <= longest) return std::nullopt;
  return ValidationError{
      fmt::format("needs {} to {} letters and digits that cannot be guessed", shortest, longest),
      "write what `openssl rand -hex 16` prints"};
}

std::optional<ValidationError> check_model_name(std::string& value) {
  constexpr std::size_t longest = 256;
  if (value.empty()) return ValidationError{"is empty", {}};
  if (value.size() > longest) {
    return ValidationError{fmt::format("is longer than {} bytes", longest), {}};
  }
  return std::nullopt;
}

std::optional<ValidationError> check_task(std::string& value) {
  constexpr auto tasks = std::to_array<std::string_view>(
      {"chat", "completion", "embedding", "rerank", "score", "audio", "infer"});
  if (std::ranges::find(tasks, value) != tasks.end()) return std::nullopt;
  auto unknown = unknown_word("task", value, tasks);
  return ValidationError{std::move(unknown.message), std::move(unknown.help)};
}

std::optional<ValidationError> check_header_name(std::string& value) {
  if (!is_token(value)) {
    return ValidationError{fmt::format("'{}' is not the name of a header field", value), {}};
  }
  value = lower_case(value);
  return std::nullopt;
}

std::optional<ValidationError> check_compressed_type(std::string& value) {
  value = lower_case(value);
  const std::size_t star = value.find('*');
  const bool is_range = star != value.npos && value.ends_with("/*") && star + 1 == value.size();
  if (!is_media_type(value) || (star != value.npos && !is_range)) {
    return ValidationError{fmt::format("'{}' is not a media type", value),
                           "write `application/json`, without parameters, or `text/*`"};
  }
  if (value != "text/event-stream" && value != "application/x-ndjson" &&
      !value.starts_with("application/grpc")) {
    return std::nullopt;
  }
  return ValidationError{
      fmt::format("'{}' is never compressed: its messages are sent one by one", value),
      "remove it"};
}

std::optional<ValidationError> check_content_type(std::string& value) {
  if (auto problem = check_field_value(value)) return problem;
  const std::string type = value.substr(0, std::min(value.find_first_of("; "), value.size()));
  if (is_media_type(type) && type.find('*') == type.npos) return std::nullopt;
  return ValidationError{fmt::format("'{}' is not a media type", value),
                         "write `text/html; charset=utf-8`, or another"};
}

std::optional<ValidationError> check_key_field(std::string& value) {
  if (auto problem = check_header_name(value)) return problem;
  constexpr auto framing = std::to_array<std::string_view>(
      {"host", "connection", "content-length", "content-type", "transfer-encoding", "te", "upgrade",
       "trailer", "expect", "keep-alive", "proxy-connection", "content-encoding"});
  if (std::ranges::find(framing, value) != framing.end()) {
    return ValidationError{fmt::format("'{}' cannot carry a key", value),
                           "take `api-key`, `x-api-key`, or leave it out for a bearer token"};
  }
  if (value == "authorization") value.clear();
  return std::nullopt;
}

std::optional<ValidationError> check_session_source(std::string& value) {
  constexpr std::string_view header = "header:";
  constexpr std::string_view cookie = "cookie:";
  constexpr auto words = std::to_array<std::string_view>(
      {"agent-session", "response-id", "cookie", "session_id", "sequence_id"});
  if (std::ranges::find(words, value) != words.end()) return std::nullopt;
  if (value.starts_with(cookie) && is_token(value.substr(cookie.size()))) return std::nullopt;
  if (value.starts_with(header) && is_token(value.substr(header.size()))) {
    value = lower_case(value);
    return std::nullopt;
  }
  const std::string problem = fmt::format("'{}' names no session", value);
  if (const auto word = nearest_word(value, {words.begin(), words.end()}))
    return ValidationError{problem, did_you_mean(*word)};
  if (is_token(value) && value.find('-') != std::string::npos)  // as names of header fields have
    return ValidationError{problem, did_you_mean("header:" + lower_case(value))};
  return ValidationError{problem,
                         "take agent-session, response-id, header:NAME, cookie, cookie:NAME, "
                         "session_id or sequence_id"};
}

std::optional<ValidationError> check_records_path(std::string& value) {
  for (const std::string_view word : {"stdout", "stderr", "off", "syslog"}) {
    if (value == word)
      return ValidationError{fmt::format("'{}' is not a file, which records need", value),
                             value == "off" ? "remove the key" : "write the path of a file"};
  }
  return check_not_empty(value);
}

std::optional<ValidationError> check_rewrite_target(std::string& value) {
  const auto invalid =
      std::ranges::find_if(value, [](char c) { return c <= ' ' || c >= '\x7f' || c == '#'; });
  if (value.empty()) return check_not_empty(value);
  if (invalid == value.end()) return std::nullopt;
  return ValidationError{"has a character that no request target has",
                         "write a blank as %20; a '#' and what follows it never reach a server"};
}

std::optional<ValidationError> check_key_set(std::string& value) {
  if (value.find("://") == value.npos) return check_not_empty(value);
  if (value.starts_with("https://")) return check_url(value);
  return ValidationError{fmt::format("'{}' is no https:// URL", value),
                         "keys that come in the clear may be forged: write https://..., or "
                         "the path of a file"};
}

std::optional<ValidationError> check_limit_subject(std::string& value) {
  constexpr std::string_view header = "header:";
  constexpr auto words = std::to_array<std::string_view>({"tenant", "key", "model", "address"});
  if (std::ranges::find(words, value) != words.end()) return std::nullopt;
  if (value.starts_with(header) && is_token(value.substr(header.size()))) {
    value = lower_case(value);
    return std::nullopt;
  }
  const std::string problem = fmt::format("'{}' tells no clients apart", value);
  if (const auto word = nearest_word(value, {words.begin(), words.end()}))
    return ValidationError{problem, did_you_mean(*word)};
  return ValidationError{problem, "take tenant, key, model, address or header:NAME"};
}

std::optional<ValidationError> check_method(std::string& value) {
  std::string upper = value;
  std::ranges::transform(upper, upper.begin(), to_upper);
  if (!is_token(value)) return ValidationError{fmt::format("'{}' is not a method", value), {}};
  if (value != upper) {
    return ValidationError{fmt::format("'{}' is not a method: they are in upper case", value),
                           did_you_mean(upper)};
  }
  return std::nullopt;
}

std::optional<ValidationError> check_backend_host(std::string& value) {
  constexpr auto words = std::to_array<std::string_view>({"backend", "client"});
  if (std::ranges::find(words, value) != words.end()) return std::nullopt;
  if (const std::string word = lower_case(value); std::ranges::find(words, word) != words.end()) {
    return ValidationError{fmt::format("'{}' is not a host name", value), did_you_mean(word)};
  }
  std::string why;
  if (is_host_field(value, why)) return std::nullopt;
  return ValidationError{
      fmt::format("'{}' is not what a Host field holds: {}", value, why),
      "take `backend` for the backend's own name, `client` for what the client sent, or write "
      "host or host:port"};
}

std::optional<ValidationError> check_host_pattern(std::string& value) {
  std::string_view name = value;
  const bool is_wildcard = name.starts_with("*.");
  if (is_wildcard) name.remove_prefix(2);
  const std::string normal = normal_host(name);
  name = normal;
  if (name.find(':') != name.npos && !parse_ip(name)) {
    return ValidationError{fmt::format("'{}' is not a host name", value),
                           "write the name alone, without scheme and port"};
  }
  const bool good = !name.empty() && std::ranges::all_of(name, [](char c) {
    return is_letter_or_digit(c) || c == '.' || c == '-' || c == '_' || c == ':';
  });
  if (!good) {
    return ValidationError{fmt::format("'{}' is not a host name, nor '*.' before one", value), {}};
  }
  value = is_wildcard ? "*." + normal : normal;
  return std::nullopt;
}

std::optional<ValidationError> check_namespaced_name(std::string& value) {
  const std::size_t slash = value.find('/');
  if (slash != value.npos && slash > 0 && slash + 1 < value.size() &&
      value.find('/', slash + 1) == value.npos)
    return std::nullopt;
  return ValidationError{fmt::format("'{}' is no namespace and name", value),
                         "write `namespace/name`, such as default/llama"};
}

std::optional<ValidationError> check_plain_path(std::string& value) {
  if (!value.starts_with('/')) {
    return ValidationError{fmt::format("'{}' is not a path: it starts with '/'", value),
                           did_you_mean("/" + value)};
  }
  const auto strange = std::ranges::find_if(value, [](char c) {
    return static_cast<unsigned char>(c) <= 0x20 || static_cast<unsigned char>(c) >= 0x7f ||
           c == '#' || c == '\\';
  });
  if (strange == value.end()) return std::nullopt;
  return ValidationError{
      fmt::format("'{}' is not a path: characters other than letters, digits and common signs "
                  "must be percent-encoded",
                  value),
      {}};
}

std::optional<ValidationError> check_url(std::string& value) {
  const std::size_t scheme_end = value.find("://");
  if (scheme_end == value.npos) {
    return ValidationError{fmt::format("'{}' is not a URL", value),
                           did_you_mean("http://" + value)};
  }
  const std::size_t slash = value.find('/', scheme_end + 3);
  std::string why;
  if (!parse_backend_address(std::string_view{value}.substr(0, slash), why)) {
    return ValidationError{fmt::format("'{}': {}", value, why), "write http://host:port/path"};
  }
  if (slash == value.npos) return std::nullopt;
  std::string path = value.substr(slash);
  return check_plain_path(path);
}

std::optional<ValidationError> check_collector(std::string& value) {
  if (value == "off") return std::nullopt;
  if (auto error = check_url(value)) return error;
  const std::size_t slash = value.find('/', value.find("://") + 3);
  if (slash != value.npos && slash + 1 < value.size()) return std::nullopt;
  value = value.substr(0, slash) + "/v1/traces";
  return std::nullopt;
}

namespace {

// "^/v1" as in a regular expression, "~ /v1" and "= /v1" as in nginx, and URLs.
ValidationError no_slash_at_start(const std::string& value) {
  const std::string message = fmt::format("'{}' is not a path: it starts with '/'", value);
  if (value.find("://") != value.npos) return {message, "write the path alone"};
  const std::size_t slash = std::min(value.find('/'), value.size());
  const bool has_operator = value.find_first_not_of("^~=* ") == slash && slash < value.size();
  if (!has_operator) return {message, did_you_mean("/" + value)};
  std::string path = value.substr(slash);
  if (value.find('=') < slash) return {message, did_you_mean(path)};
  const std::string not_a_regex =
      fmt::format("'{}' is not a path, which starts with '/' and is no regular expression", value);
  if (path.find_first_of("$.*+()[]{}|\\^") != path.npos) {
    return {not_a_regex, "write /v1/* for one segment, /v1/** for everything below /v1"};
  }
  path += path.ends_with('/') ? "**" : "/**";
  return {not_a_regex, did_you_mean(path)};
}

}  // namespace

std::optional<ValidationError> check_path_pattern(std::string& value) {
  if (!value.starts_with('/')) return no_slash_at_start(value);
  const auto strange = std::ranges::find_if(value, [](char c) {
    return static_cast<unsigned char>(c) <= 0x20 || c == 0x7f || c == '?' || c == '#' || c == '\\';
  });
  if (strange != value.end()) {
    return ValidationError{fmt::format("'{}' is not a path: it contains '{}'", value, *strange),
                           *strange == '?' ? "only the path is matched, not the query" : ""};
  }
  for (std::size_t at = value.find('%'); at != value.npos; at = value.find('%', at + 1)) {
    if (percent_encoded_char(std::string_view(value).substr(at))) continue;
    return ValidationError{
        fmt::format("'{}' is not a path: its '%' begins no encoding such as %20", value),
        "write %25 for a '%'"};
  }
  std::string storage;
  const auto normal = normalised_path(value, storage);
  if (!normal) return ValidationError{fmt::format("'{}': {}", value, normal.error().detail), {}};
  value = std::string(*normal);
  std::string_view rest = std::string_view{value}.substr(1);
  for (;;) {
    const std::size_t end = std::min(rest.find('/'), rest.size());
    const std::string_view segment = rest.substr(0, end);
    const bool last = end == rest.size();
    if (segment == "**" && !last) {
      return ValidationError{fmt::format("'{}': '**' can only be the last segment", value), {}};
    }
    if (segment != "*" && segment != "**" && segment.find('*') != segment.npos) {
      return ValidationError{fmt::format("'{}': '*' matches a whole segment only", value),
                             "write /v1/* for one segment, /v1/** for everything below /v1"};
    }
    if (last) return std::nullopt;
    rest.remove_prefix(end + 1);
  }
}

std::optional<ValidationError> check_grpc_name(std::string& value) {
  if (value.starts_with('/')) {
    const std::string name = value.substr(1);
    return ValidationError{fmt::format("'{}' is a path, not the name of a gRPC service", value),
                           did_you_mean(name)};
  }
  if (value.ends_with("/*")) {
    return ValidationError{fmt::format("'{}': without a method it is the whole service", value),
                           did_you_mean(value.substr(0, value.size() - 2))};
  }
  // As protobuf names things: letters, digits and underscores, with dots between them.
  const auto is_name = [](std::string_view name, bool dotted) {
    bool begins = true;
    for (const char c : name) {
      if (c == '.' && dotted && !begins) {
        begins = true;
        continue;
      }
      if (!(is_letter_or_digit(c) || c == '_') || (begins && is_digit(c))) return false;
      begins = false;
    }
    return !begins;
  };
  const std::size_t slash = value.find('/');
  const std::string_view service = std::string_view{value}.substr(0, slash);
  const bool good =
      is_name(service, true) &&
      (slash == value.npos || is_name(std::string_view{value}.substr(slash + 1), false));
  if (good) return std::nullopt;
  return ValidationError{
      fmt::format("'{}' is not the name of a gRPC service, nor of a method", value),
      "write package.Service, or package.Service/Method"};
}

}  // namespace evenkeel::config_file
