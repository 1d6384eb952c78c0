#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "config/forms.h"
#include "config/validation.h"
#include "evenkeel/stats/access_log_format.h"
#include "evenkeel/stats/usage_position.h"

namespace evenkeel::config_file {
namespace {

std::vector<UsedAddress> backend_addresses(const Config& config, const ParseContext& context) {
  std::vector<UsedAddress> all;
  for (const auto& [path, pool] : items_of("pools", config.pools)) {
    for (const auto& [place, backend] : items_of(path + ".backends", pool.backends)) {
      const std::string key = path_of_address(context, place);
      if (!context.report.has_problem(key)) all.push_back({key, {}, backend.address});
    }
  }
  return all;
}

// ---- host names

using HostErrors = std::map<std::string, std::optional<std::string>>;

// Sets why each host has no address. A name server may take seconds to report that, so several
// names are resolved at a time.
void resolve_all(HostErrors& errors, const Environment& environment) {
  constexpr std::size_t max_threads = 16;
  std::vector<HostErrors::iterator> lookups;
  for (auto it = errors.begin(); it != errors.end(); ++it) lookups.push_back(it);
  std::atomic<std::size_t> next{0};
  const auto resolve_remaining = [&] {
    for (std::size_t i = next++; i < lookups.size(); i = next++) {
      lookups[i]->second = environment.resolve_error(lookups[i]->first);
    }
  };
  std::vector<std::jthread> threads;
  for (std::size_t i = 1; i < std::min(lookups.size(), max_threads); ++i) {
    threads.emplace_back(resolve_remaining);
  }
  resolve_remaining();
}

// A backend without an address joins when its name has one; a listener cannot be opened.
void check_hosts(const Config& config, ParseContext& context) {
  if (!context.environment.resolve_error) return;
  const auto names_of = [](std::vector<UsedAddress> all) {
    std::erase_if(all, [](const UsedAddress& each) {
      return each.address.host.empty() || parse_ip(each.address.host).has_value();
    });
    return all;
  };
  const std::vector<UsedAddress> listeners = names_of(listen_addresses(config, context));
  // With `dns.servers` the daemon does not use the system's resolver, which may know other names.
  std::vector<UsedAddress> backends;
  if (config.dns.servers.empty()) backends = names_of(backend_addresses(config, context));

  HostErrors errors;
  for (const UsedAddress& each : listeners) errors.emplace(each.address.host, std::nullopt);
  for (const UsedAddress& each : backends) errors.emplace(each.address.host, std::nullopt);
  resolve_all(errors, context.environment);
  const auto text = [](const UsedAddress& used, const std::string& error) {
    return fmt::format("the host name '{}' has no address: {}", used.address.host, error);
  };
  for (const UsedAddress& each : listeners) {
    const auto& error = errors.at(each.address.host);
    if (error) context.add(each.path, text(each, *error));
  }
  for (const UsedAddress& each : backends) {
    const auto& error = errors.at(each.address.host);
    if (!error) continue;
    context.warn(each.path, text(each, *error), "it gets requests once its name has one");
  }
}

// ---- backends that are this process

// True if the address is this machine's. The only host name that counts as this machine is
// "localhost": the addresses of others may change.
bool is_this_machine(const Address& address, const Environment& environment) {
  if (normal_host(address.host) == "localhost" || is_wildcard(address)) return true;
  const auto ip = parse_ip(address.host);
  return ip && environment.is_local_ip(*ip);
}

bool reaches(const Address& backend, const Address& listener, const Environment& environment) {
  if (listener.port == 0 || backend.port != listener.port) return false;
  if (normal_host(backend.host) == normal_host(listener.host)) return true;
  if (!is_this_machine(backend, environment)) return false;
  if (is_wildcard(listener)) return true;
  const auto ip_of = [](const Address& address) {
    const bool is_loopback = normal_host(address.host) == "localhost" || is_wildcard(address);
    return parse_ip(is_loopback ? std::string{"127.0.0.1"} : address.host);
  };
  return ip_of(backend).has_value() && ip_of(backend) == ip_of(listener);
}

void check_own_listeners(const Config& config, ParseContext& context) {
  if (!context.environment.is_local_ip) return;
  std::unordered_map<std::uint16_t, std::vector<UsedAddress>> listeners;  // by port
  for (UsedAddress& each : listen_addresses(config, context)) {
    listeners[each.address.port].push_back(std::move(each));
  }
  for (const UsedAddress& backend : backend_addresses(config, context)) {
    const auto same_port = listeners.find(backend.address.port);
    if (same_port == listeners.end()) continue;
    const auto own = std::ranges::find_if(same_port->second, [&](const UsedAddress& listener) {
      return reaches(backend.address, listener.address, context.environment);
    });
    if (own == same_port->second.end()) continue;
    context.add(backend.path,
                fmt::format("this is {} on {}: evenkeel would send requests to itself", own->owner,
                            to_string(own->address)),
                "give the address of the inference server, or the listener another port");
  }
}

// ---- files

void check_named_file(FileUse use, const std::string& key, const std::string& file,
                      std::string_view help, ParseContext& context) {
  if (file.empty() || context.report.has_problem(key)) return;
  const auto error = context.environment.file_error(use, file);
  if (!error) return;
  const std::string message = fmt::format("'{}' {}", file, *error);
  // The daemon serves without its state, while no syslog listens, and with the last good list.
  if (use == FileUse::state || use == FileUse::syslog || use == FileUse::backend_list)
    return context.warn(key, message, std::string{help});
  context.add(key, message, std::string{help});
}

void check_usage_http(const UsageConfig& usage, ParseContext& context) {
  // Records wait in their file, so that the daemon serves without it.
  check_named_file(FileUse::state, "usage.http", usage_position_path(usage.path),
                   "let this user write to its folder: the file keeps which records were sent, and "
                   "without it none is",
                   context);
  check_named_file(FileUse::api_key, "usage.http.token_file", usage.http->token_file,
                   "give a file that holds the collector's token", context);
  check_named_file(FileUse::authorities, "usage.http.ca", usage.http->ca,
                   "give a file with certificates of authorities in PEM", context);
}

void check_discovery_files(const Config& config, ParseContext& context) {
  check_named_file(FileUse::api_key, "kubernetes.token_file", config.kubernetes.token_file,
                   "give a file that holds a token of a service account", context);
  check_named_file(FileUse::authorities, "kubernetes.ca", config.kubernetes.ca,
                   "give a file with the cluster's authorities in PEM", context);
  for (const auto& [path, pool] : items_of("pools", config.pools)) {
    if (!pool.discover) continue;
    check_named_file(FileUse::backend_list, path + ".discover.file", pool.discover->file,
                     "the pool gets its backends once the file is there and right", context);
  }
}

void check_named_files(const Config& config, ParseContext& context) {
  if (!context.environment.file_error) return;
  check_discovery_files(config, context);
  check_named_file(FileUse::state, "state_file", config.state_file,
                   "create its folder and let this user write to it, or what the daemon learns "
                   "is lost with it",
                   context);
  check_named_file(FileUse::usage, "usage.path", config.usage.path,
                   "create its folder and let this user write to it", context);
  if (config.usage.is_on() && config.usage.http) check_usage_http(config.usage, context);
  check_named_file(FileUse::audit, "audit.path", config.audit.path,
                   "create its folder and let this user write to it", context);
  check_named_file(FileUse::audit_key, "audit.key_file", config.audit.key_file,
                   "write a secret to it, such as that of `openssl rand -hex 32`", context);
  const bool to_syslog = syslog_path(config.access_log.path).has_value();
  check_named_file(FileUse::access_log, "access_log.path", config.access_log.path,
                   to_syslog ? "name the socket of the local syslog or journal: syslog:PATH"
                             : "create its folder and let this user write to it",
                   context);
  if (to_syslog) {
    check_named_file(FileUse::syslog, "access_log.path", config.access_log.path,
                     "start the local syslog or journal, or name its socket: syslog:PATH; lines "
                     "wait for it, until their memory is full",
                     context);
  }
  check_named_file(FileUse::admin_token, "admin.token_file", config.admin.token_file,
                   "write a token to it, such as that of `openssl rand -hex 32`", context);
  if (config.shared_state) {
    check_named_file(FileUse::api_key, "shared_state.password_file",
                     config.shared_state->password_file,
                     "give a file that holds the server's password", context);
  }
  if (config.auth) {
    for (const auto& [place, issuer] : items_of("auth.jwt", config.auth->jwt)) {
      if (!issuer.fetches_keys()) {
        check_named_file(FileUse::key_set, place + ".jwks", issuer.jwks,
                         "give a file with the issuer's JSON Web Key Set", context);
      }
      check_named_file(FileUse::authorities, place + ".ca", issuer.ca,
                       "give a file with certificates of authorities in PEM", context);
    }
  }
  for (const auto& [path, route] : items_of("routes", config.routes)) {
    for (const auto& [place, page] : items_of(path + ".error_pages", route.error_pages)) {
      check_named_file(FileUse::error_page, place + ".file", page.file,
                       "give a file with the page, of 64 KiB at most", context);
    }
  }
  for (const auto& [path, pool] : items_of("pools", config.pools)) {
    for (const auto& [place, backend] : items_of(path + ".backends", pool.backends)) {
      check_named_file(FileUse::api_key, place + ".api_key_file", backend.api_key_file,
                       "give a file that holds the server's key", context);
    }
  }
}

// The file has lines of its own, which a problem names.
void check_key_file(const Config& config, ParseContext& context) {
  const auto& problems_of = context.environment.key_file_problems;
  const std::string key = "auth.keys.file";
  if (!problems_of || !config.auth || config.auth->keys.file.empty()) return;
  if (context.report.has_problem(key) || context.report.has_problem("tenants")) return;
  for (const FileProblem& problem : problems_of(config.auth->keys.file, config.tenants)) {
    if (problem.line > 0) {
      context.report.add_in_file(config.auth->keys.file, problem, key);
    } else {
      context.add(key, fmt::format("'{}' {}", config.auth->keys.file, problem.message),
                  problem.help);
    }
  }
}

// ---- certificates

// Reports what `problems_of`, which may be empty, finds in the files of a `tls` section.
template <class Tls>
void check_tls(const std::string& place, const std::optional<Tls>& tls,
               const std::function<std::vector<TlsProblem>(const Tls&)>& problems_of,
               ParseContext& context) {
  if (!problems_of || !tls || context.report.has_problem(place)) return;
  for (const TlsProblem& problem : problems_of(*tls)) {
    const std::string path = place + "." + problem.key;
    if (problem.warning) {
      context.report.warn(context.mark_of(path), path, problem.message, problem.help);
    } else {
      context.add(path, problem.message, problem.help);
    }
  }
}

void check_certificates(const Config& config, ParseContext& context) {
  const Environment& environment = context.environment;
  check_tls("admin.tls", config.admin.tls, environment.listener_tls_problems, context);
  for (const auto& [path, listener] : items_of("listeners", config.listeners))
    check_tls(path + ".tls", listener.tls, environment.listener_tls_problems, context);
  for (const auto& [path, pool] : items_of("pools", config.pools))
    check_tls(path + ".tls", pool.tls, environment.pool_tls_problems, context);
}

// ---- memory

std::optional<std::uint64_t> limit_of(const MemoryLimit& setting, const Environment& environment) {
  if (setting.kind == MemoryLimit::Kind::bytes) return setting.bytes;
  if (setting.kind == MemoryLimit::Kind::off || !environment.memory_limit) return std::nullopt;
  return environment.memory_limit(setting);
}

/// The prefix indexes of expected-time are allocated in full when the pools are built.
void check_index_memory(const Config& config, ParseContext& context) {
  if (context.report.has_problem("limits.memory")) return;
  std::uint64_t sum = 0;
  std::uint64_t largest = 0;
  std::string key;
  for (const auto& [pool_path, pool] : items_of("pools", config.pools)) {
    const std::string path = pool_path + ".picker.index_memory";
    if (!pool.picker.has_scheduler() || context.report.has_problem(path)) continue;
    const std::uint64_t bytes = pool.picker.index_bytes;
    sum += bytes;
    if (bytes <= largest) continue;
    largest = bytes;
    key = path;
  }
  if (sum == 0) return;
  const auto limit = limit_of(config.limits.memory, context.environment);
  if (!limit || sum <= *limit / 2) return;
  const auto mib = [](std::uint64_t bytes) { return (bytes + MiB / 2) / MiB; };
  const std::string indexes = largest == sum ? "the index takes" : "the indexes of all pools take";
  if (sum > *limit) {
    context.add(key,
                fmt::format("{} {} MiB, and the limit of the process is {} MiB (`limits.memory`)",
                            indexes, mib(sum), mib(*limit)),
                "lower `picker.index_memory`, which is taken in full for each pool, or "
                "raise that limit");
    return;
  }
  context.report.warn(
      context.mark_of(key), key,
      fmt::format("{} {} MiB, more than half of the {} MiB that the process may use "
                  "(`limits.memory`)",
                  indexes, mib(sum), mib(*limit)),
      "lower `picker.index_memory`, or raise that limit: at 95 % of it requests get 503, "
      "and a reload that changes an index needs both for a while");
}

}  // namespace

void check_environment(const Config& config, ParseContext& context) {
  check_index_memory(config, context);
  check_hosts(config, context);
  check_own_listeners(config, context);
  check_named_files(config, context);
  check_key_file(config, context);
  check_certificates(config, context);
}

}  // namespace evenkeel::config_file
