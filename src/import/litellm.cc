#include "import/litellm.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "evenkeel/base/ascii.h"
#include "evenkeel/base/decimal.h"
#include "evenkeel/base/glob.h"
#include "evenkeel/base/utf8.h"
#include "evenkeel/config/foreign.h"
#include "evenkeel/net/sha256.h"
#include "import/draft.h"

namespace evenkeel::import {
namespace {

using config_file::Tree;

/// Providers whose servers are one's own and speak OpenAI's API, and their engines.
constexpr std::pair<std::string_view, std::string_view> providers[] = {
    {"hosted_vllm", "vllm"},   {"vllm", "vllm"},        {"ollama", "ollama"},
    {"ollama_chat", "ollama"}, {"huggingface", "tgi"},  {"openai", "auto"},
    {"custom_openai", "auto"}, {"openai_like", "auto"}, {"text-completion-openai", "auto"},
    {"litellm_proxy", "auto"}, {"lm_studio", "auto"},   {"llamafile", "llamacpp"}};

/// Providers whose APIs are OpenAI's own, under /v1, and the variables that LiteLLM takes their
/// keys from.
struct HostedApi {
  std::string_view provider;
  std::string_view host;
  std::string_view variable;
};
constexpr HostedApi hosted_apis[] = {{"openai", "api.openai.com", "OPENAI_API_KEY"},
                                     {"text-completion-openai", "api.openai.com", "OPENAI_API_KEY"},
                                     {"mistral", "api.mistral.ai", "MISTRAL_API_KEY"},
                                     {"deepseek", "api.deepseek.com", "DEEPSEEK_API_KEY"},
                                     {"together_ai", "api.together.xyz", "TOGETHERAI_API_KEY"},
                                     {"xai", "api.x.ai", "XAI_API_KEY"}};

/// What to do about a key that is left out.
struct Cure {
  std::string_view key;
  std::string_view text;
  bool opens = false;  ///< it kept something from clients or servers
};
constexpr std::string_view of_metrics =
    "metrics are at /metrics of the admin listener, traces go to `tracing.otlp`";
constexpr std::string_view in_database =
    "keys and their limits are not read from a database: `evenkeel key create`, `tenants`";
constexpr Cure cures[] = {
    {"include", "its models may reach a pool with a pattern", true},
    {"max_budget", "`limits.cost` of tenants, by `usage.prices`", true},
    {"budget_duration", "as max_budget"},
    {"global_max_parallel_requests", "`concurrent` of `rate_limits`", true},
    {"upperbound_key_generate_params", "`limits` of tenants", true},
    {"allowed_routes", "`match.path` of routes", true},
    {"guardrails", "contents are not looked at", true},
    {"database_url", in_database},
    {"store_model_in_db", in_database},
    {"alerting", of_metrics},
    {"callbacks", of_metrics},
    {"success_callback", of_metrics},
    {"failure_callback", of_metrics},
    {"cache", "`cache` of a pool keeps answers"},
    {"cache_params", "`cache` of a pool keeps answers"},
    {"redis_host", "`shared_state` shares limits between replicas"},
    {"context_window_fallbacks", "routes by length: `match.prompt_tokens`"},
    {"default_fallbacks", "`fallback` of each pool"},
    {"enable_pre_call_checks", "routes by length: `match.prompt_tokens`"},
    {"stream_timeout", "`timeouts.idle` of the pool"},
    {"max_tokens", "`body` of the pool"},
    {"temperature", "`body` of the pool"},
    {"modify_params", "bodies stay as clients send them; `body` of a pool changes parameters"},
    {"environment_variables", "${NAME} in a file of ours has the value of a variable"}};

/// General settings that let in some clients only, and that are not read.
constexpr std::string_view other_checks[] = {"custom_auth", "enable_jwt_auth", "enable_oauth2_auth",
                                             "allowed_ips"};

constexpr std::size_t max_model = 256;

std::string shown(std::string_view text) { return printable_utf8(text.substr(0, 90)); }

/// The value of a key; null if there is none.
const Tree* value_at(const Tree& map, std::string_view key) {
  const auto found = std::ranges::find(map.keys, key, &Tree::Key::name);
  if (map.kind != Tree::Kind::map || found == map.keys.end()) return nullptr;
  return &map.items[static_cast<std::size_t>(found - map.keys.begin())];
}

std::string text_at(const Tree& map, std::string_view key) {
  const Tree* value = value_at(map, key);
  return value && value->is_scalar() ? value->scalar : std::string();
}

/// A number of seconds, which may have a fraction.
std::optional<milliseconds> seconds_at(const Tree& map, std::string_view key) {
  const auto seconds = parse_number<double>(text_at(map, key));
  if (!seconds || !(*seconds > 0 && *seconds <= 86400)) return std::nullopt;
  return std::max(milliseconds{1}, milliseconds(static_cast<milliseconds::rep>(*seconds * 1000)));
}

/// Where a deployment is, and what it serves.
struct Deployment {
  std::string_view engine;
  std::string served;     ///< the name that the server knows
  std::string authority;  ///< host:port
  bool secure = false;
  std::string key_file;  ///< of a provider's API; empty: a server of one's own
};

/// The limits of the deployments of one name, in a minute.
struct NamedLimits {
  int line = 0;
  std::uint64_t deployments = 0;
  std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> sums;  // "rpm": how many, sum
};

/// A pool of deployments that serve one model under one name.
struct Group {
  std::string name;  ///< that clients use; may have stars
  std::string served;
  std::string pool;
  std::uint32_t weight = 0;
  int line = 0;
};

class LitellmImport {
 public:
  explicit LitellmImport(const Tree& root) : root_(root) {}

  Import run();

 private:
  void read_deployment(const Tree& entry);
  std::optional<Deployment> deployment_of(const Tree& params, int line);
  std::optional<Deployment> hosted_of(const Tree& params, Deployment found, int line);
  void read_rates(const Tree& entry, const Tree& params, const std::string& name);
  void add_rates();
  void add_rate(const std::string& name, RateLimitConfig limit);
  void leave_out_rate(const std::string& name, const std::string& key, std::string_view why);
  void read_parameters(const Tree& params, PoolConfig& pool, BackendConfig& backend, int line);
  Group& group_of(const std::string& name, const Deployment& deployment, int line);
  PoolConfig& pool_named(const std::string& name);
  void read_router();
  bool read_access();
  bool read_master_key(const Tree& general);
  void read_strategy(const Tree& router);
  void read_fails(const Tree& settings);
  void read_fallbacks(const Tree& settings);
  void add_fallback(const std::string& from, const std::string& to, int line);
  void read_aliases(const Tree& router);
  void add_routes();
  void report_rest(const Tree& map, std::initializer_list<std::string_view> read,
                   std::string_view of);

  const Tree& root_;
  Draft draft_;
  std::vector<Group> groups_;
  std::map<std::string, std::size_t, std::less<>> pools_;  // places of the pools, by name
  std::map<std::string, std::vector<std::string>, std::less<>> aliases_;  // by the model's name
  std::set<std::string, std::less<>> timed_;               // pools whose deployments name a timeout
  std::map<std::string, NamedLimits, std::less<>> rates_;  // by name of the model
  std::map<std::string, int, std::less<>> lost_;  // names of models that are left out, their lines
};

Import LitellmImport::run() {
  const Tree* models = value_at(root_, "model_list");
  if (models != nullptr) {
    for (const Tree& entry : models->items) read_deployment(entry);
  }
  read_router();
  add_routes();
  add_rates();
  ListenerConfig& listener = draft_.config.listeners.emplace_back();
  listener.address = {read_access() ? "0.0.0.0" : "127.0.0.1", 4000};
  if (!draft_.config.pools.empty()) {
    draft_.note(0, "requests are not translated between APIs: each server must speak its clients'");
    draft_.warn(0,
                "servers get requests of any path, also of their management: give the routes "
                "`match: {path: /v1/**}`");
  }
  return std::move(draft_).finished(
      "no entry of model_list has an api_base that can be kept; providers' own APIs cannot");
}

void LitellmImport::report_rest(const Tree& map, std::initializer_list<std::string_view> read,
                                std::string_view of) {
  for (const Tree::Key& key : map.keys) {
    if (std::ranges::find(read, key.name) != read.end()) continue;
    const auto* const cure = std::ranges::find(cures, key.name, &Cure::key);
    const bool is_known = cure != std::end(cures);
    std::string text = "left out: " + std::string(of) + shown(key.name);
    if (is_known) text.append(" (").append(cure->text).append(")");
    if (is_known && cure->opens) {
      draft_.warn(key.mark.line, std::move(text));
    } else {
      draft_.note(key.mark.line, std::move(text));
    }
  }
}

/// A provider's API, whose key is in a file. Nothing: it is none that ours can speak to.
std::optional<Deployment> LitellmImport::hosted_of(const Tree& params, Deployment found, int line) {
  const std::string model = text_at(params, "model");
  const std::size_t slash = model.find('/');
  const std::string provider = slash == std::string::npos ? "openai" : model.substr(0, slash);
  const auto* const api = std::ranges::find(hosted_apis, provider, &HostedApi::provider);
  const bool is_bare = slash == std::string::npos;
  if (api == std::end(hosted_apis) || (is_bare && !model.starts_with("gpt-"))) return std::nullopt;
  if (is_bare) found.served = model;
  found.engine = "generic";
  found.authority = api->host;
  found.secure = true;
  const std::string key = text_at(params, "api_key");
  constexpr std::string_view variable = "os.environ/";
  std::string name(key.starts_with(variable) ? std::string_view(key).substr(variable.size())
                                             : api->variable);
  const bool is_name =
      !name.empty() && name.size() < 64 &&
      std::ranges::all_of(name, [](char c) { return is_letter_or_digit(c) || c == '_'; });
  if (!is_name) return std::nullopt;
  found.key_file = "/etc/evenkeel/" + name;
  draft_.note(line, shown(model) + " is a pool with `hosted: true`: write its api_key to " +
                        found.key_file);
  return found;
}

std::optional<Deployment> LitellmImport::deployment_of(const Tree& params, int line) {
  const std::string model = text_at(params, "model");
  const std::size_t slash = std::min(model.find('/'), model.size());
  const std::string_view provider = std::string_view(model).substr(0, slash);
  const auto* known =
      std::ranges::find(providers, provider, &std::pair<std::string_view, std::string_view>::first);
  const auto refuse = [&](std::string_view why) {
    draft_.note(line, "left out: " + shown(model) + " (" + std::string(why) + ")");
    return std::nullopt;
  };
  std::string base = text_at(params, "api_base");
  Deployment found{.served = model.substr(std::min(slash + 1, model.size()))};
  if (base.empty() && found.served.size() < max_model) {
    if (auto hosted = hosted_of(params, found, line)) return hosted;
  }
  if (known == std::end(providers)) {
    return refuse(
        "a provider's own API, or unknown: a pool with `hosted: true` and `api_key_file` takes one "
        "that speaks OpenAI's, and `rewrite` of its route other paths than /v1");
  }
  found.engine = known->second;
  if (found.served.empty() || found.served.size() > max_model ||
      printable_utf8(found.served) != found.served) {
    return refuse("no name of a model");
  }
  if (base.empty()) return refuse("no api_base: a provider's own API");
  if (base.starts_with("os.environ/")) return refuse("write the address that its variable has");
  while (base.ends_with('/')) base.pop_back();
  if (base.ends_with("/v1")) base.resize(base.size() - 3);
  found.secure = base.starts_with("https://");
  if (!found.secure && !base.starts_with("http://")) return refuse("api_base is no http address");
  found.authority = base.substr(found.secure ? 8 : 7);
  if (found.authority.find('/') != std::string::npos)
    return refuse("paths other than /v1 are not rewritten");
  return found;
}

/// Lets in who has the master key. False: there is one, but not in the file.
bool LitellmImport::read_master_key(const Tree& general) {
  const Tree* const value = value_at(general, "master_key");
  if (value == nullptr) return true;
  const std::string& key = value->scalar;
  if (key.empty() || key.starts_with("os.environ/")) return false;
  draft_.config.tenants.push_back(
      {.name = "master", .keys_sha256 = {fmt::format("{:02x}", fmt::join(sha256(key), ""))}});
  draft_.config.auth.emplace();
  draft_.note(value->mark.line,
              "general_settings: master_key became the key of tenant master; keys in LiteLLM's "
              "database are not read: `evenkeel key create` makes others");
  return true;
}

/// Reads which clients the file lets in. False: it lets in some only, and nothing of ours does.
bool LitellmImport::read_access() {
  const Tree* const general = value_at(root_, "general_settings");
  if (general == nullptr) return true;
  const auto refuse = [&](const Tree::Key& key) {
    draft_.warn(key.mark.line,
                "general_settings: " + key.name +
                    " is not read, so this listens on 127.0.0.1 only: say in `auth` and `tenants` "
                    "who may ask (`evenkeel key create` makes a key) before you change `address`");
  };
  bool is_complete = read_master_key(*general);
  for (const Tree::Key& key : general->keys) {
    const bool is_read = key.name != "master_key" || is_complete;
    if (is_read && std::ranges::find(other_checks, key.name) == std::end(other_checks)) continue;
    refuse(key);
    is_complete = false;
  }
  return is_complete;
}

PoolConfig& LitellmImport::pool_named(const std::string& name) {
  return draft_.config.pools[pools_.at(name)];
}

Group& LitellmImport::group_of(const std::string& name, const Deployment& deployment, int line) {
  for (Group& each : groups_) {
    const bool same = each.name == name && each.served == deployment.served;
    const PoolConfig& pool = pool_named(each.pool);
    const bool is_hosted = !deployment.key_file.empty();
    if (same && pool.engine == deployment.engine && pool.hosted == is_hosted) return each;
  }
  PoolConfig& pool = draft_.add_pool(name.substr(name.rfind('/') + 1));
  pools_[pool.name] = draft_.config.pools.size() - 1;
  Draft::set_engine(pool, deployment.engine);
  pool.hosted = !deployment.key_file.empty();
  pool.inspect = true;
  const bool renames =
      name != deployment.served && deployment.served.find('*') == std::string::npos;
  if (renames) pool.model = deployment.served;
  return groups_.emplace_back(Group{name, deployment.served, pool.name, 0, line});
}

void LitellmImport::read_deployment(const Tree& entry) {
  const int line = entry.mark.line;
  const std::string name = text_at(entry, "model_name");
  const Tree* params = value_at(entry, "litellm_params");
  if (name.empty() || name.size() > max_model || printable_utf8(name) != name ||
      params == nullptr) {
    draft_.note(line, "left out: an entry without model_name and litellm_params");
    return;
  }
  report_rest(entry, {"model_name", "litellm_params", "model_info", "rpm", "tpm"}, "");
  if (const Tree* info = value_at(entry, "model_info")) {
    for (const Tree::Key& key : info->keys) {
      if (key.name.find("_cost_per_") != std::string::npos)
        draft_.note(key.mark.line,
                    "left out: model_info: " + shown(key.name) + " (`usage.prices` of the model)");
    }
  }
  const auto deployment = deployment_of(*params, line);
  const bool is_out = parse_count(text_at(*params, "weight")) == 0U;
  if (is_out) draft_.note(line, "left out: a deployment of weight 0");
  if (!deployment || is_out || draft_.config.pools.size() == max_pools) {
    lost_.try_emplace(name, line);
    return;
  }
  Group& group = group_of(name, *deployment, line);
  PoolConfig& pool = pool_named(group.pool);
  BackendConfig* backend =
      draft_.add_backend(pool, deployment->authority, deployment->secure, line);
  if (backend != nullptr) {
    backend->api_key_file = deployment->key_file;
    read_parameters(*params, pool, *backend, line);
    read_rates(entry, *params, name);
    group.weight += backend->weight;
  }
  if (!pool.backends.empty()) return;
  lost_.try_emplace(name, line);
  draft_.config.pools.pop_back();  // the group is new: its first server is no address
  groups_.pop_back();
}

/// Counts the limits of a deployment, which stand in its parameters or beside them.
void LitellmImport::read_rates(const Tree& entry, const Tree& params, const std::string& name) {
  NamedLimits& limits = rates_[name];
  if (limits.deployments++ == 0) limits.line = entry.mark.line;
  for (const char* const key : {"rpm", "tpm"}) {
    const Tree& from = value_at(params, key) != nullptr ? params : entry;
    const auto most = parse_count(text_at(from, key));
    if (!most || *most == 0) continue;
    auto& [count, sum] = limits.sums[key];
    ++count;
    sum = std::min<std::uint64_t>(sum + *most, 1'000'000'000'000);
  }
}

/// Adds the limits of each name all of whose deployments have one; notes the others as lost.
void LitellmImport::add_rates() {
  for (const auto& [name, limits] : rates_) {
    RateLimitConfig limit;
    for (const auto& [key, sum] : limits.sums) {
      const bool is_pattern = name.find('*') != std::string::npos;
      if (is_pattern || sum.first < limits.deployments) {
        leave_out_rate(name, key,
                       is_pattern ? "its models share it" : "not all deployments have one");
        continue;
      }
      auto& rates = key == "rpm" ? limit.requests : limit.tokens;
      rates.push_back({.amount = sum.second, .period = LimitPeriod::minute});
    }
    if (!limit.requests.empty() || !limit.tokens.empty()) add_rate(name, std::move(limit));
  }
}

void LitellmImport::leave_out_rate(const std::string& name, const std::string& key,
                                   std::string_view why) {
  const NamedLimits& limits = rates_.at(name);
  draft_.warn(limits.line,
              fmt::format("left out: {} of {} ({}; `rate_limits: [{{by: model, models: [{}], {}: "
                          "{}/min}}]` limits each name)",
                          key, shown(name), why, shown(name), key == "rpm" ? "requests" : "tokens",
                          limits.sums.at(key).second));
}

/// Adds a limit for each of the names of a model, beside those of other models that are the same.
void LitellmImport::add_rate(const std::string& name, RateLimitConfig limit) {
  constexpr std::size_t max_limits = 28;  // one request may have a few more
  std::vector<RateLimitConfig>& all = draft_.config.rate_limits;
  std::size_t count = limit.requests.size() + limit.tokens.size();
  for (const RateLimitConfig& each : all) count += each.requests.size() + each.tokens.size();
  auto same = std::ranges::find_if(all, [&](const RateLimitConfig& each) {
    return each.requests == limit.requests && each.tokens == limit.tokens;
  });
  if (same == all.end() && count > max_limits) {
    for (const auto& [key, sum] : rates_.at(name).sums) leave_out_rate(name, key, "too many");
    return;
  }
  limit.by = {"model"};
  if (same == all.end()) same = all.insert(all.end(), std::move(limit));
  same->models.push_back(glob_of(name));
  for (const std::string& alias : aliases_[name]) same->models.push_back(glob_of(alias));
  std::string text =
      "the limits of all deployments of " + shown(name) + " together are in `rate_limits`";
  if (!aliases_[name].empty()) text += ", and for each of its aliases";
  draft_.note(rates_.at(name).line, std::move(text));
}

void LitellmImport::read_parameters(const Tree& params, PoolConfig& pool, BackendConfig& backend,
                                    int line) {
  if (const auto weight = parse_count(text_at(params, "weight"))) {
    backend.weight = std::clamp(*weight, 1U, 1000U);
  }
  if (const auto most = parse_count(text_at(params, "max_parallel_requests"))) {
    pool.limits.max_in_flight = std::min(*most, 1'000'000U);
  }
  if (const auto time = seconds_at(params, "timeout")) {
    if (!timed_.insert(pool.name).second && pool.timeouts.first_byte != *time) {
      draft_.note(line,
                  "pool " + pool.name + ": its deployments have several timeouts; this one counts");
    }
    pool.timeouts.first_byte = *time;
  }
  const std::string key = text_at(params, "api_key");
  constexpr std::string_view no_keys[] = {"",         "none",       "EMPTY", "fake",
                                          "fake-key", "not-needed", "dummy", "sk-no-key-required"};
  if (backend.api_key_file.empty() && std::ranges::find(no_keys, key) == std::end(no_keys)) {
    const bool is_variable = key.starts_with("os.environ/");
    draft_.note(line, "left out: api_key of " + to_string(backend.address) + " (write " +
                          (is_variable ? "the value of " + shown(key.substr(11)) : "it") +
                          " to a file, and name that in `api_key_file`)");
  }
  report_rest(
      params,
      {"model", "api_base", "api_key", "weight", "max_parallel_requests", "timeout", "rpm", "tpm"},
      "litellm_params: ");
}

void LitellmImport::read_strategy(const Tree& router) {
  const std::string strategy = text_at(router, "routing_strategy");
  const Tree* value = value_at(router, "routing_strategy");
  const bool shuffles = strategy.empty() || strategy == "simple-shuffle";
  for (PoolConfig& pool : draft_.config.pools) {
    if (strategy == "latency-based-routing") pool.picker.name = "least-latency";
    if (!shuffles) continue;
    const bool weighted = std::ranges::any_of(
        pool.backends, [](const BackendConfig& each) { return each.weight != 1; });
    pool.picker.name = weighted ? "weighted" : "round-robin";
  }
  const int line = value ? value->mark.line : 0;
  if (draft_.config.pools.empty()) return;
  if (shuffles) {
    draft_.note(line,
                "simple-shuffle became round-robin, or weighted; `picker: expected-time` or "
                "`least-connections` place requests by load");
  } else if (strategy != "least-busy" && strategy != "latency-based-routing") {
    draft_.note(line, "routing_strategy " + shown(strategy) + " became least-connections");
  }
}

void LitellmImport::add_fallback(const std::string& from, const std::string& to, int line) {
  const auto target = std::ranges::find(groups_, to, &Group::name);
  for (const Group& group : groups_) {
    if (group.name != from) continue;
    PoolConfig& pool = pool_named(group.pool);
    bool cycle = target == groups_.end();
    for (std::string at = cycle ? "" : target->pool; !at.empty() && !cycle;
         at = pool_named(at).fallback.pool) {
      cycle = at == pool.name;
    }
    if (cycle || !pool.fallback.pool.empty()) {
      draft_.note(line, "left out: fallback of " + shown(from) + " to " + shown(to) +
                            " (a cycle, a second one, or to no pool)");
    } else {
      pool.fallback.pool = target->pool;
      // Its requests name another model.
      if (target->served.find('*') == std::string::npos)
        pool_named(target->pool).model = target->served;
    }
  }
}

void LitellmImport::read_fallbacks(const Tree& settings) {
  const Tree* list = value_at(settings, "fallbacks");
  if (list == nullptr) return;
  std::size_t count = 0;
  for (const Tree& entry : list->items) {
    for (std::size_t at = 0; at < entry.keys.size(); ++at) {
      for (const Tree& to : entry.items[at].items) {
        if (++count > max_pools) return;
        add_fallback(entry.keys[at].name, to.scalar, entry.keys[at].mark.line);
      }
    }
  }
}

void LitellmImport::read_aliases(const Tree& router) {
  const Tree* aliases = value_at(router, "model_group_alias");
  if (aliases == nullptr) return;
  for (std::size_t at = 0; at < std::min(aliases->keys.size(), max_pools); ++at) {
    const std::string& alias = aliases->keys[at].name;
    const Tree& value = aliases->items[at];
    const std::string name = value.is_scalar() ? value.scalar : text_at(value, "model");
    const bool usable = alias.size() <= max_model && printable_utf8(alias) == alias &&
                        std::ranges::find(groups_, name, &Group::name) != groups_.end();
    if (!usable) {
      const int line = aliases->keys[at].mark.line;
      draft_.note(line, "left out: alias " + shown(alias));
      if (alias.size() <= max_model && printable_utf8(alias) == alias)
        lost_.try_emplace(alias, line);
      continue;
    }
    aliases_[name].push_back(alias);
    for (const Group& group : groups_) {
      PoolConfig& pool = pool_named(group.pool);
      const bool literal = group.served.find('*') == std::string::npos;
      if (group.name == name && literal) pool.model = group.served;
    }
  }
}

void LitellmImport::read_fails(const Tree& settings) {
  const auto fails = parse_count(text_at(settings, "allowed_fails"));
  const auto cooldown = seconds_at(settings, "cooldown_time");
  if ((!fails && !cooldown) || draft_.config.pools.empty()) return;
  constexpr milliseconds least{100};
  for (PoolConfig& pool : draft_.config.pools) {
    if (fails) pool.outlier.consecutive = std::min(*fails, 9'999U) + 1;
    if (cooldown) pool.outlier.ejection = std::max(*cooldown, least);
  }
  const Tree::Key& first = *std::ranges::find_if(settings.keys, [](const Tree::Key& key) {
    return key.name == "allowed_fails" || key.name == "cooldown_time";
  });
  draft_.note(first.mark.line,
              "allowed_fails and cooldown_time became `outlier`, which counts failures in a row, "
              "not in a minute");
}

void LitellmImport::read_router() {
  static const Tree none;
  const Tree* router = value_at(root_, "router_settings");
  const Tree* settings = value_at(root_, "litellm_settings");
  if (router == nullptr) router = &none;
  if (settings == nullptr) settings = &none;
  read_strategy(*router);
  for (const Tree* each : {settings, router}) {
    read_fallbacks(*each);
    read_fails(*each);
    const auto retries = parse_count(text_at(*each, "num_retries"));
    auto time = seconds_at(*each, "request_timeout");
    if (!time) time = seconds_at(*each, "timeout");
    for (PoolConfig& pool : draft_.config.pools) {
      if (retries) pool.retry.attempts = std::min(*retries, 7U) + 1;
      if (time && !timed_.contains(pool.name)) {
        pool.timeouts.first_byte = *time;
      }
    }
  }
  read_aliases(*router);
  report_rest(*settings,
              {"fallbacks", "num_retries", "request_timeout", "drop_params", "set_verbose",
               "allowed_fails", "cooldown_time"},
              "litellm_settings: ");
  report_rest(*router,
              {"fallbacks", "num_retries", "timeout", "routing_strategy", "model_group_alias",
               "allowed_fails", "cooldown_time"},
              "router_settings: ");
  if (const Tree* general = value_at(root_, "general_settings")) {
    const auto most = parse_count(text_at(*general, "max_parallel_requests"));
    for (PoolConfig& pool : draft_.config.pools) {
      if (most && pool.limits.max_in_flight == 0)
        pool.limits.max_in_flight = std::min(*most, 1'000'000U);
    }
    report_rest(*general,
                {"master_key", "custom_auth", "enable_jwt_auth", "enable_oauth2_auth",
                 "allowed_ips", "max_parallel_requests", "disable_key_check"},
                "general_settings: ");
  }
  report_rest(root_, {"model_list", "router_settings", "litellm_settings", "general_settings"}, "");
}

/// Exact names before patterns, longer patterns before shorter ones. A model that is left out is
/// answered by evenkeel itself where a pattern would take it.
void LitellmImport::add_routes() {
  std::map<std::string, int> lines;  // of the first entry of each name
  for (const Group& group : groups_) lines.try_emplace(group.name, group.line);
  const auto is_pattern = [](const std::string& name) { return name.find('*') != name.npos; };
  const std::map<std::string, int> kept = lines;
  for (const auto& [name, line] : lost_) {
    const bool falls_through = std::ranges::any_of(kept, [&, &lost = name](const auto& each) {
      return is_pattern(each.first) && (is_pattern(lost) || matches_glob(each.first, lost));
    });
    if (falls_through) lines.try_emplace(name, line);
  }
  std::vector<std::pair<std::string, int>> names(lines.begin(), lines.end());
  std::ranges::sort(names, std::ranges::greater(), [&](const auto& each) {
    const auto& [name, line] = each;
    return std::tuple(is_pattern(name) ? name.size() : std::string::npos, -line);
  });
  for (const auto& [name, line] : names) {
    RouteConfig route;
    for (const Group& group : groups_) {
      if (group.name == name)
        route.targets.push_back({.pool = group.pool, .weight = std::min(group.weight, 10'000U)});
    }
    if (route.targets.size() == 1) route.targets[0].weight = 1;
    route.match.model.push_back(is_pattern(name) ? name : glob_of(name));
    for (const std::string& alias : aliases_[name]) route.match.model.push_back(glob_of(alias));
    if (route.targets.empty()) {
      route = answer(std::move(route.match), left_out_status);
      draft_.note(line, "requests for " + shown(name) + " get " + std::to_string(left_out_status) +
                            ", not a pool with a pattern");
    } else if (name == "*") {
      route.match.model.clear();
    }
    draft_.add_route(std::move(route), line);
  }
}

}  // namespace

Import import_litellm(std::string_view text) {
  const auto read = read_foreign_yaml(text);
  if (const auto* error = std::get_if<YamlError>(&read)) {
    return {.config = {}, .notes = {}, .error = {error->line, error->message}};
  }
  return LitellmImport(std::get<Tree>(read)).run();
}

}  // namespace evenkeel::import
