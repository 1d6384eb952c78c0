#include "cli/quick_draft.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "evenkeel/base/ascii.h"
#include "evenkeel/base/glob.h"
#include "evenkeel/base/text_table.h"
#include "evenkeel/base/utf8.h"
#include "evenkeel/inference/engine.h"

namespace evenkeel {
namespace {

constexpr std::size_t max_name_length = 64;
constexpr std::size_t max_models_listed = 8;

using Models = std::vector<std::string>;
using Servers = std::vector<const DetectedServer*>;

bool answered(const DetectedServer& server) {
  return server.result.outcome == DetectionResult::Outcome::answered;
}

const EngineIdentity& identity_of(const DetectedServer& server) { return server.result.identity; }

/// True if the server's engine will be detected when it answers.
bool engine_unknown(const DetectedServer& server) {
  return !answered(server) || (identity_of(server).loading && identity_of(server).evidence.empty());
}

bool lists_models(const DetectedServer& server) {
  return answered(server) && !identity_of(server).models.empty();
}

/// Joins names, with control characters replaced: models are named by servers.
std::string joined(const Models& models) {
  if (models.size() <= max_models_listed) {
    return printable(fmt::format("{}", fmt::join(models, ", ")));
  }
  const auto end = models.begin() + max_models_listed;
  return fmt::format("{} and {} more",
                     printable(fmt::format("{}", fmt::join(models.begin(), end, ", "))),
                     models.size() - max_models_listed);
}

std::string describe(const DetectedServer& server) {
  if (!answered(server)) {
    return fmt::format(
        "warning: {} does not answer ({}); it is used nevertheless, because a server that is "
        "loading its model does not answer either",
        server.url, printable(server.result.reason));
  }
  const EngineIdentity& identity = identity_of(server);
  std::string note = server.url + ": ";
  if (engine_unknown(server)) return note + "fails every request, as while loading a model";
  note += identity.evidence.empty()
              ? "unknown engine, so generic"
              : fmt::format("{} ({})", identity.engine, printable(identity.evidence));
  if (!identity.models.empty()) note += ", serves " + joined(identity.models);
  if (identity.loading) note += ", still loading its model";
  if (identity.requires_api_key) note += "; requires an API key to list its models";
  return note;
}

/// Models that the same servers have, and these servers.
struct ModelGroup {
  Models models;
  Servers servers;
};

/// Groups servers by model: every listed model is in one group, with every server that lists it.
/// Groups and their models are in the order of the servers and of their lists.
std::vector<ModelGroup> group_by_servers(const Servers& servers) {
  std::map<std::string_view, Servers> holders;
  std::vector<std::string_view> order;
  for (const DetectedServer* server : servers) {
    for (const std::string& model : identity_of(*server).models) {
      Servers& having = holders[model];
      if (having.empty()) order.push_back(model);
      having.push_back(server);
    }
  }
  std::vector<ModelGroup> groups;
  for (const std::string_view model : order) {
    const Servers& having = holders.at(model);
    auto group = std::ranges::find(groups, having, &ModelGroup::servers);
    if (group == groups.end()) group = groups.insert(groups.end(), {{}, having});
    group->models.emplace_back(model);
  }
  return groups;
}

/// The engines that were detected, each once, in the order of the servers.
std::vector<std::string> engines_of(const Servers& servers) {
  std::vector<std::string> engines;
  for (const DetectedServer* server : servers) {
    if (engine_unknown(*server)) continue;
    const std::string engine(identity_of(*server).engine);
    if (std::ranges::find(engines, engine) == engines.end()) engines.push_back(engine);
  }
  return engines;
}

/// Servers of which nothing is known run one of the engines of `all`.
std::string engine_of(const Servers& servers, const Servers& all) {
  const bool any_unknown = std::ranges::any_of(
      servers, [](const DetectedServer* server) { return engine_unknown(*server); });
  const std::vector<std::string> engines = engines_of(any_unknown ? all : servers);
  if (engines.empty()) return PoolConfig{}.engine;
  return engines.size() == 1 ? engines.front() : std::string(undetected_engine);
}

std::string urls_of(const Servers& servers) {
  std::string urls;
  for (const DetectedServer* server : servers) urls += (urls.empty() ? "" : ", ") + server->url;
  return urls;
}

/// "meta-llama/Llama-3-8B" gives "Llama-3-8B"; invalid characters become '-'.
std::string pool_name(const Models& models, const std::string& engine) {
  std::string name = models.empty() ? engine : models.front();
  while (name.ends_with('/')) name.pop_back();
  name.erase(0, name.find_last_of('/') + 1);
  for (char& c : name) {
    if (!is_letter_or_digit(c) && c != '.' && c != '_') c = '-';
  }
  while (!name.empty() && !is_letter_or_digit(name.front())) name.erase(0, 1);
  name.resize(std::min(name.size(), max_name_length));
  return name.empty() ? engine : name;
}

/// The name with a number if another pool has it already.
std::string unique_name(const std::string& name, const std::vector<PoolConfig>& pools) {
  std::string unique = name;
  for (int number = 2; std::ranges::find(pools, unique, &PoolConfig::name) != pools.end();
       ++number) {
    const std::string suffix = fmt::format("-{}", number);
    unique = name.substr(0, max_name_length - suffix.size()) + suffix;
  }
  return unique;
}

PoolConfig pool_of(const Models& models, const Servers& servers, const std::string& engine,
                   const std::string& picker) {
  PoolConfig pool{.engine = engine, .models = models, .picker = {{.name = picker}}};
  pool.name = pool_name(models, pool.engine);
  pool.keep_alive.idle = default_keep_alive_idle(pool.engine);
  pool.health.timeout = default_health_timeout(pool.engine);
  for (const DetectedServer* server : servers)
    pool.backends.push_back({.address = server->address});
  return pool;
}

/// What clients may call the models of a group.
Models requested_names(const ModelGroup& group) {
  const bool has_tags = std::ranges::any_of(group.servers, [](const DetectedServer* server) {
    return !engine_named(identity_of(*server).engine).health.implied_model_tag.empty();
  });
  Models names;
  for (const std::string& model : group.models) {
    names.push_back(glob_of(model));
    const std::string_view short_name = without_implied_tag(model);
    if (has_tags && short_name.size() < model.size() && !short_name.empty())
      names.push_back(glob_of(short_name));
  }
  return names;
}

void note_mixed_engines(const PoolConfig& pool, std::vector<std::string>& notes) {
  if (pool.engine != undetected_engine) return;
  notes.push_back(fmt::format(
      "pool {} has `engine: auto`, because its servers run, or may run, different engines",
      pool.name));
}

/// Drafts one pool of all servers, which gets every request.
void draft_one_pool(Draft& draft, const Models& models, const Servers& all,
                    const std::string& picker) {
  PoolConfig pool = pool_of(models, all, engine_of(all, all), picker);
  note_mixed_engines(pool, draft.notes);
  draft.config.routes.push_back({.name = "default", .targets = {{.pool = pool.name}}});
  draft.config.pools.push_back(std::move(pool));
}

/// `unlisted`: servers that may have the models of any group. Health checks find out.
void draft_pool_of(Draft& draft, const ModelGroup& group, const Servers& unlisted,
                   const Servers& all, const std::string& picker) {
  Servers servers = group.servers;
  servers.insert(servers.end(), unlisted.begin(), unlisted.end());
  PoolConfig pool = pool_of(group.models, servers, engine_of(servers, all), picker);
  pool.name = unique_name(pool.name, draft.config.pools);
  if (!unlisted.empty()) pool.health.model = ModelCheck::required;

  draft.notes.push_back(
      fmt::format("pool {}: {} on {}", pool.name, joined(group.models), urls_of(servers)));
  note_mixed_engines(pool, draft.notes);
  draft.config.routes.push_back({.name = pool.name,
                                 .match = {.model = requested_names(group)},
                                 .targets = {{.pool = pool.name}}});
  draft.config.pools.push_back(std::move(pool));
}

void note_servers_in_several_pools(const std::vector<ModelGroup>& groups, const Servers& unlisted,
                                   std::vector<std::string>& notes) {
  for (const DetectedServer* server : unlisted) {
    notes.push_back(fmt::format(
        "warning: the models of {} are unknown; it is in every pool, and `health: {{model: "
        "required}}` takes it out of rotation where it does not list the models{}",
        server->url,
        identity_of(*server).requires_api_key
            ? "; name its key in the file (`api_key_file`), or it stays out of rotation"
            : ""));
  }
  std::map<const DetectedServer*, int> pools;
  for (const ModelGroup& group : groups) {
    for (const DetectedServer* server : group.servers) ++pools[server];
  }
  for (const auto& [server, count] : pools) {
    if (count < 2) continue;
    notes.push_back(fmt::format("{} is in {} pools, each of which counts its own requests only",
                                server->url, count));
  }
}

void draft_pools_by_model(Draft& draft, const std::vector<ModelGroup>& groups,
                          const Servers& unlisted, const Servers& all, const std::string& picker) {
  draft.notes.emplace_back("not every server has every model, so requests are routed by model");
  for (const ModelGroup& group : groups) draft_pool_of(draft, group, unlisted, all, picker);
  note_servers_in_several_pools(groups, unlisted, draft.notes);
}

/// True if the file can name the model: requests name no longer ones, and the file is text.
bool can_be_named(const std::string& model) {
  constexpr std::size_t max_size = 256;
  return !model.empty() && glob_of(model).size() <= max_size && printable_utf8(model) == model;
}

/// The servers without the models that the file cannot name.
std::vector<DetectedServer> with_named_models(std::vector<DetectedServer> servers,
                                              std::vector<std::string>& notes) {
  for (DetectedServer& server : servers) {
    const std::size_t left_out =
        std::erase_if(server.result.identity.models,
                      [](const std::string& model) { return !can_be_named(model); });
    if (left_out == 0) continue;
    notes.push_back(fmt::format(
        "warning: {} of the models of {} left out: their names are empty, longer than 256 bytes or "
        "not printable",
        left_out, server.url));
  }
  return servers;
}

}  // namespace

Draft draft_config(const DraftOptions& options, const std::vector<DetectedServer>& detected) {
  Draft draft;
  const std::vector<DetectedServer> servers = with_named_models(detected, draft.notes);
  Servers all;
  Servers listing;
  Servers unlisted;
  for (const DetectedServer& server : servers) {
    draft.notes.push_back(describe(server));
    all.push_back(&server);
    (lists_models(server) ? listing : unlisted).push_back(&server);
  }
  const std::vector<ModelGroup> groups = group_by_servers(listing);
  if (groups.size() > 1) {
    draft_pools_by_model(draft, groups, unlisted, all, options.picker);
  } else {
    draft_one_pool(draft, groups.empty() ? Models{} : groups.front().models, all, options.picker);
  }
  draft.config.listeners.front().address = options.listen;
  draft.config.admin.address = options.admin;
  draft.config.access_log.path = "stderr";  // stdout is for the configuration alone
  return draft;
}

}  // namespace evenkeel
