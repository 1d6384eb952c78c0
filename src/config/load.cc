#include "evenkeel/config/load.h"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <sstream>

#include "config/fields.h"
#include "config/node.h"
#include "config/otel_variables.h"
#include "config/readable_text.h"
#include "config/text_lines.h"
#include "config/validation.h"
#include "config/yaml.h"
#include "evenkeel/base/hash.h"
#include "evenkeel/base/utf8.h"
#include "evenkeel/config/foreign.h"
#include "evenkeel/config/named_files.h"

namespace evenkeel {
namespace config_file {
namespace {

constexpr std::size_t max_file_bytes = 16 * MiB;
constexpr std::ptrdiff_t max_lines = 1'000'000;

// The first byte that is not UTF-8 text. yaml-cpp must not see it: it reads a control character as
// the end of the file, and other encodings as UTF-8.
std::optional<std::size_t> first_invalid_byte(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text.substr(at));
    const auto first = static_cast<unsigned char>(text[at]);
    const bool is_control = first < 0x20 && first != '\t' && first != '\n' && first != '\r';
    if (length == 0 || is_control || first == 0x7f) return at;
    at += length;
  }
  return std::nullopt;
}

constexpr std::string_view minimal_file =
    "the smallest file that runs is pools: [{name: llama, backends: [http://127.0.0.1:8000]}]";

void read_tree(const Tree& tree, Config& config, ParseContext& context) {
  const Node root{tree, {}, context};
  if (tree.kind == Tree::Kind::nothing) {
    root.fail("the file is empty", std::string{minimal_file});
  } else if (!root.is_map()) {
    root.fail_expected("a mapping of keys such as 'pools'", std::string{minimal_file});
  } else {
    StructForm<Config>{}.read(root, config);
  }
}

bool has_too_many_lines(std::string_view text) {
  return std::ranges::count(text, '\n') > max_lines;
}

void read_text(std::string_view text, Config& config, ParseContext& context) {
  if (!is_readable(text, context.report)) return;
  const ParsedYaml parsed = parse_yaml(text, context.report);
  context.incomplete = parsed.syntax_error.has_value() || parsed.structure_unreliable;
  read_tree(parsed.root, config, context);
  if (const auto& error = parsed.syntax_error) {
    context.report.discard_from(error->unreliable_from);
    context.report.add(error->mark, {}, error->message, error->help);
  } else if (parsed.root.kind == Tree::Kind::map && !context.incomplete) {
    read_otel_variables(config.tracing, context);
    validate_config(config, context);
  }
}

// Adds the places of what is used later: the other keys are checked with the file.
void add_places(Places& places, const ParseContext& context) {
  for (const auto& [path, mark] : context.marks) {
    const bool used_later = path.starts_with("listeners") || path.starts_with("admin") ||
                            path.starts_with("access_log") || path.starts_with("usage") ||
                            path.starts_with("audit") || path == "pools";
    if (used_later) places.add(path, {.line = mark.line, .column = mark.column});
  }
}

// True if the address is this machine's. Not cached: interfaces come and go.
bool is_local_ip(const IpBytes& ip) {
  if (ip_text(ip).starts_with("127.")) return true;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return false;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner{all, freeifaddrs};
  for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr) continue;
    std::array<char, INET6_ADDRSTRLEN> text{};
    const socklen_t size = each->ifa_addr->sa_family == AF_INET    ? sizeof(sockaddr_in)
                           : each->ifa_addr->sa_family == AF_INET6 ? sizeof(sockaddr_in6)
                                                                   : 0;
    const bool has_ip = size > 0 && getnameinfo(each->ifa_addr, size, text.data(), text.size(),
                                                nullptr, 0, NI_NUMERICHOST) == 0;
    if (has_ip && parse_ip(text.data()) == ip) return true;
  }
  return false;
}

std::optional<std::string> read_all(const std::string& file, std::string& why) {
  std::ostringstream text;
  if (file == "-") {
    text << std::cin.rdbuf();
    return text.str();
  }
  const auto close = [](std::FILE* stream) { std::fclose(stream); };
  const std::unique_ptr<std::FILE, decltype(close)> stream{std::fopen(file.c_str(), "rb"), close};
  if (stream) {
    std::array<char, 65536> piece;
    std::size_t size = 0;
    while (const std::size_t count = std::fread(piece.data(), 1, piece.size(), stream.get())) {
      text.write(piece.data(), static_cast<std::streamsize>(count));
      if ((size += count) > max_file_bytes) break;  // reading a device might never end
    }
    if (std::ferror(stream.get()) == 0) return text.str();
  }
  why = std::strerror(errno);
  return std::nullopt;
}

}  // namespace

bool is_readable(std::string_view text, Report& report) {
  if (text.size() > max_file_bytes) {
    report.add({1, 1}, {}, fmt::format("larger than {} MiB", max_file_bytes / MiB));
    return false;
  }
  if (has_too_many_lines(text)) {
    report.add({1, 1}, {}, fmt::format("more than {} lines", max_lines));
    return false;
  }
  if (const auto invalid = first_invalid_byte(text)) {
    const auto byte = static_cast<unsigned char>(text[*invalid]);
    report.add(TextLines(text).mark_of(text, *invalid), {},
               fmt::format("byte 0x{:02x} is not text in UTF-8", byte));
    return false;
  }
  return true;
}

}  // namespace config_file

Environment Environment::from_process() {
  Environment environment;
  environment.variable = [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return value;
  };
  environment.resolve_error = [](const std::string& host) -> std::optional<std::string> {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found);
    if (error != 0) return gai_strerror(error);
    freeaddrinfo(found);
    return std::nullopt;
  };
  environment.is_local_ip = config_file::is_local_ip;
  environment.file_error = named_file_error;
  return environment;
}

LoadResult read_config(std::string_view text, const std::string& file,
                       const Environment& environment) {
  LoadResult result;
  if (!config_file::has_too_many_lines(text)) result.text = text;  // else no line is shown
  result.hash = fmt::format("{:016x}", hash_of(text));
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  config_file::ParseContext context{config_file::Report{file}, environment, {}, false};
  config_file::read_text(text, result.config, context);
  result.text = context.report.without_secrets(std::move(result.text));
  result.problems = context.report.take();
  result.warnings = context.report.take_warnings();
  result.variables = std::move(context.report.variables);
  config_file::add_places(result.places, context);
  return result;
}

LoadResult load_config(const std::string& file, const Environment& environment) {
  std::string why;
  const std::string name = file == "-" ? "<stdin>" : file;
  const auto text = config_file::read_all(file, why);
  if (text) return read_config(*text, name, environment);
  LoadResult result;
  result.problems.push_back({name, 0, 0, {}, "cannot be read: " + why, {}});
  return result;
}

std::optional<std::string> read_foreign_file(const std::string& file, std::string& why) {
  return config_file::read_all(file, why);
}

std::variant<config_file::Tree, YamlError> read_foreign_yaml(std::string_view text) {
  config_file::Report report({});
  if (config_file::is_readable(text, report)) {
    config_file::ParsedYaml parsed = config_file::parse_yaml(text, report);
    if (parsed.syntax_error) {
      return YamlError{parsed.syntax_error->mark.line, parsed.syntax_error->message};
    }
    if (report.size() == 0) return std::move(parsed.root);
  }
  const Problem first = report.take().front();
  return YamlError{first.line, first.message};
}

}  // namespace evenkeel
