#include "import/haproxy_pools.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "evenkeel/base/ascii.h"
#include "evenkeel/base/utf8.h"

namespace evenkeel::import {
namespace {

constexpr milliseconds plain_milliseconds{1};

/// Parameters of servers that take a value, and are not read.
constexpr std::string_view unread_with_value[] = {
    "addr",        "agent-addr",     "agent-inter",  "agent-port",    "check-sni",
    "check-alpn",  "ciphers",        "downinter",    "error-limit",   "fastinter",
    "id",          "init-addr",      "maxqueue",     "minconn",       "observe",
    "on-error",    "on-marked-down", "on-marked-up", "pool-max-conn", "pool-purge-delay",
    "resolve-net", "resolve-prefer", "resolvers",    "source",        "track",
    "ssl-min-ver", "ssl-max-ver",    "cookie"};

class PoolReader {
 public:
  PoolReader(Draft& draft, PoolConfig& pool) : draft_(draft), pool_(pool) {}

  void read(HaproxyLine& line, bool own);
  void finish(int line);

 private:
  bool read_timeout(const HaproxyLine& line);
  bool read_balance(const HaproxyLine& line);
  bool read_check(const HaproxyLine& line);
  bool read_cookie(const HaproxyLine& line);
  bool is_secure(const HaproxyLine& line) const;
  void read_server(const HaproxyLine& line);
  void read_most(const HaproxyLine& line, std::uint32_t most);
  void read_parameters(const HaproxyLine& line, std::size_t first, BackendConfig* backend);
  bool read_parameter(std::string_view name, std::string_view value, BackendConfig* backend);
  PoolTlsConfig& tls() { return pool_.tls ? *pool_.tls : pool_.tls.emplace(); }

  Draft& draft_;
  PoolConfig& pool_;
  bool goes_round_ = true;
  bool is_secure_ = false;  // unless a server says otherwise
};

void PoolReader::read(HaproxyLine& line, bool own) {
  const std::string& keyword = line.keyword();
  bool used = false;
  if (keyword == "timeout") used = read_timeout(line);
  if (keyword == "balance") used = read_balance(line);
  if (keyword == "option" || keyword == "http-check") used = read_check(line);
  if (keyword == "cookie") used = read_cookie(line);
  if (keyword == "default-server") {
    is_secure_ = is_secure(line);
    read_parameters(line, 1, nullptr);
    used = true;
  }
  if ((keyword == "server" || keyword == "server-template") && own) {
    read_server(line);
    used = true;
  }
  if (used) line.used = true;
}

bool PoolReader::read_timeout(const HaproxyLine& line) {
  const auto time = haproxy_timeout(draft_, line);
  if (!time) return false;
  const std::string_view what = line.word(1);
  if (what == "connect") {
    pool_.timeouts.connect = *time;
  } else if (what == "server") {
    pool_.timeouts.first_byte = pool_.timeouts.idle = *time;
  } else if (what == "queue") {
    pool_.limits.queue.timeout = *time;
  } else if (what == "check") {
    pool_.health.timeout = std::clamp(*time, milliseconds{10}, milliseconds{600'000});
  } else {
    return false;
  }
  return true;
}

bool PoolReader::read_balance(const HaproxyLine& line) {
  const std::string_view how = line.word(1);
  pool_.picker = {};
  goes_round_ = how == "roundrobin" || how == "static-rr";
  if (goes_round_ || how == "leastconn" || how == "random") return true;
  if (how.starts_with("hdr(") && how.ends_with(')')) {
    const auto header = field_name(how.substr(4, how.size() - 5));
    pool_.picker.name = header ? "consistent-hash" : pool_.picker.name;
    if (header) pool_.picker.header = *header;
    return header.has_value();
  }
  if (how != "source") return false;
  pool_.affinity = AffinityConfig{.by = {"cookie"}, .mode = AffinityMode::soft};
  draft_.note(line.line, "pool " + pool_.name +
                             ": balance source became sessions by the cookie evenkeel-session; "
                             "for clients without cookies see `affinity.by`");
  return true;
}

bool PoolReader::read_check(const HaproxyLine& line) {
  std::string_view path;
  if (line.keyword() == "option" && line.word(1) == "httpchk") {
    path = line.word(line.words.size() > 3 ? 3 : 2);
    if (path.empty()) path = "/";
  } else if (line.keyword() == "http-check" && line.word(1) == "send") {
    const auto uri = std::ranges::find(line.words, "uri");
    if (uri == line.words.end() || std::next(uri) == line.words.end()) return false;
    path = *std::next(uri);
  } else if (line.keyword() == "http-check" && line.word(1) == "expect") {
    return line.word(2) == "status" && line.word(3) == "200";
  }
  if (!path.starts_with('/')) return false;
  pool_.health.check = HealthCheckKind::http;
  pool_.health.path = path;
  return true;
}

bool PoolReader::read_cookie(const HaproxyLine& line) {
  if (line.words.size() < 3 || !field_name(line.words[1])) return false;
  const bool ours = std::ranges::find(line.words, "insert") != line.words.end();
  pool_.affinity = AffinityConfig{.by = {ours ? "cookie" : "cookie:" + line.words[1]}};
  if (ours) {
    draft_.note(line.line, "pool " + pool_.name +
                               ": the cookie is called evenkeel-session; sessions of " +
                               "today's cookies begin anew");
  }
  return true;
}

/// True if connections to the server are to use TLS.
bool PoolReader::is_secure(const HaproxyLine& line) const {
  bool secure = is_secure_;
  for (const std::string& word : line.words) {
    if (word == "ssl" || word == "no-ssl") secure = word == "ssl";
  }
  return secure;
}

void PoolReader::read_server(const HaproxyLine& line) {
  const auto has = [&](const char* word) {
    return std::ranges::find(line.words, word) != line.words.end();
  };
  const auto weight = std::ranges::find(line.words, "weight");
  const bool is_out = weight != line.words.end() && weight + 1 != line.words.end() &&
                      parse_count(*(weight + 1)) == 0U;
  if (has("disabled") || is_out) {
    draft_.leave_out(line.line, line.words, is_out ? "weight 0: it takes no new requests" : "");
    return;
  }
  // The names of a template are those that its host has in DNS.
  const std::size_t place = line.keyword() == "server-template" ? 3 : 2;
  std::string_view address = line.word(place);
  for (const std::string_view family : {"ipv4@", "ipv6@"}) {
    address = value_of(address, family).value_or(address);
  }
  BackendConfig* backend = draft_.add_backend(pool_, address, is_secure(line), line.line);
  if (backend == nullptr) return;
  if (address.find(':') == address.npos) {
    draft_.note(line.line, "server " + to_string(backend->address) +
                               ": the file names no port, so the default of its protocol");
  }
  read_parameters(line, place + 1, backend);
}

void PoolReader::read_most(const HaproxyLine& line, std::uint32_t most) {
  std::uint32_t& limit = pool_.limits.max_in_flight;
  if (limit != 0 && limit != most) {
    draft_.note(line.line,
                "pool " + pool_.name + ": the servers differ in maxconn; each has the " + "lowest");
  }
  limit = limit == 0 ? most : std::min(limit, most);
}

void PoolReader::read_parameters(const HaproxyLine& line, std::size_t first,
                                 BackendConfig* backend) {
  std::vector<std::string> unread{line.keyword(), std::string(backend ? line.word(1) : "")};
  for (std::size_t at = first; at < line.words.size(); ++at) {
    const std::string_view name = line.word(at);
    constexpr std::string_view with_value[] = {"weight", "maxconn", "inter",    "fall", "rise",
                                               "port",   "verify",  "ca-file",  "crt",  "sni",
                                               "alpn",   "proto",   "slowstart"};
    if (std::ranges::find(with_value, name) != std::end(with_value)) {
      const std::string_view value = line.word(++at);
      const auto count = parse_count(value);
      if (name == "maxconn" && count && *count > 0) {
        read_most(line, std::min(*count, 1'000'000U));
      } else if (!read_parameter(name, value, backend)) {
        unread.emplace_back(name);
      }
    } else if (std::ranges::find(unread_with_value, name) != std::end(unread_with_value)) {
      if (name != "cookie" && name != "resolvers" && name != "init-addr") unread.emplace_back(name);
      ++at;
    } else if (name == "backup") {
      if (backend) backend->standby = true;
    } else if (name != "check" && name != "ssl" && name != "no-ssl" && name != "no-check") {
      unread.emplace_back(name);
    }
  }
  if (unread.size() > 2) draft_.leave_out(line.line, unread);
}

bool PoolReader::read_parameter(std::string_view name, std::string_view value,
                                BackendConfig* backend) {
  const auto count = parse_count(value);
  const auto time = parse_time(value, plain_milliseconds);
  if (name == "weight" && count && backend) {
    backend->weight = std::clamp(*count, 1U, 1000U);
  } else if (name == "inter" && time) {
    pool_.health.interval = std::clamp(*time, milliseconds{100}, milliseconds{3'600'000});
  } else if (name == "fall" && count) {
    pool_.health.fall = std::clamp(*count, 1U, 1000U);
  } else if (name == "rise" && count) {
    pool_.health.rise = std::clamp(*count, 1U, 1000U);
  } else if (name == "port" && count && *count <= 65535) {
    pool_.health.port = static_cast<std::uint16_t>(*count);
  } else if (name == "slowstart" && time) {
    pool_.slow_start = std::min(*time, milliseconds{3'600'000});
  } else if (name == "verify") {
    tls().verify = value != "none";
  } else if (name == "ca-file") {
    if (value != "@system-ca") tls().ca = value;
  } else if (name == "sni" && value.starts_with("str(") && value.size() > 5) {
    tls().server_name = value.substr(4, value.size() - 5);
  } else if (name == "alpn" || name == "proto") {
    if (value == "h2") pool_.protocol = BackendProtocol::http2;
  } else {
    return false;
  }
  return true;
}

void PoolReader::finish(int line) {
  const bool secure = std::ranges::any_of(
      pool_.backends, [](const BackendConfig& each) { return each.address.secure; });
  if (!secure) pool_.tls.reset();
  if (!goes_round_ || pool_.affinity) return;
  const bool weighted = std::ranges::any_of(
      pool_.backends, [](const BackendConfig& each) { return each.weight != 1; });
  pool_.picker.name = weighted ? "weighted" : "round-robin";
  draft_.note(line, "pool " + pool_.name +
                        ": requests go round as in HAProxy; `picker: expected-time` or "
                        "`least-connections` places them by load");
}

}  // namespace

std::optional<milliseconds> haproxy_timeout(Draft& draft, const HaproxyLine& line) {
  const auto time = parse_time(line.word(2), plain_milliseconds);
  if (!time || time->count() > 0) return time;
  draft.note(line.line, "timeout " + printable_utf8(line.word(1).substr(0, 40)) +
                            " 0 became the longest one, 24 h: there is always one");
  return max_time;
}

bool add_haproxy_pool(Draft& draft, HaproxySection& section, HaproxySection* defaults) {
  if (draft.config.pools.size() == max_pools) return false;
  PoolConfig& pool = draft.add_pool(section.name());
  PoolReader reader(draft, pool);
  if (defaults) {
    for (HaproxyLine& line : defaults->lines) reader.read(line, false);
  }
  for (HaproxyLine& line : section.lines) reader.read(line, true);
  section.head.used = true;
  if (pool.backends.empty()) {
    draft.note(section.head.line, "left out: pool " + pool.name + ", which has no usable server");
    draft.config.pools.pop_back();
    return false;
  }
  reader.finish(section.head.line);
  return true;
}

}  // namespace evenkeel::import
