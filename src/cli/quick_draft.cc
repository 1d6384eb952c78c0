#include "cli/quick_draft.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cli/text_table.h"

namespace evenkeel {
namespace {

constexpr std::size_t max_name_length = 64;
constexpr std::size_t max_models_listed = 8;

using Models = std::vector<std::string>;

bool answered(const ProbedServer& server) {
  return server.result.outcome == DetectionResult::Outcome::answered;
}

const EngineIdentity& identity_of(const ProbedServer& server) { return server.result.identity; }

/// Its engine will be detected when it answers.
bool engine_unknown(const ProbedServer& server) {
  return !answered(server) || (identity_of(server).loading && identity_of(server).evidence.empty());
}

bool lists_models(const ProbedServer& server) {
  return answered(server) && !identity_of(server).models.empty();
}

bool contains(const Models& models, const std::string& model) {
  return std::ranges::find(models, model) != models.end();
}

/// Control characters are replaced: models are named by servers.
std::string joined(const Models& models) {
  if (models.size() <= max_models_listed) {
    return printable(fmt::format("{}", fmt::join(models, ", ")));
  }
  const auto end = models.begin() + max_models_listed;
  return fmt::format("{} and {} more",
                     printable(fmt::format("{}", fmt::join(models.begin(), end, ", "))),
                     models.size() - max_models_listed);
}

std::string describe(const ProbedServer& server) {
  if (!answered(server)) {
    return fmt::format(
        "warning: {} does not answer ({}); it joins the pool, because a server that is loading its "
        "model does not answer either",
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

/// The engines that were detected, each once, in the order of the servers.
std::vector<std::string> engines_of(const std::vector<ProbedServer>& servers) {
  std::vector<std::string> engines;
  for (const ProbedServer& server : servers) {
    if (engine_unknown(server)) continue;
    const std::string engine(identity_of(server).engine);
    if (std::ranges::find(engines, engine) == engines.end()) engines.push_back(engine);
  }
  return engines;
}

/// The models that every server with a list of models has, in the order of the first server.
Models common_models(const std::vector<ProbedServer>& servers) {
  const auto first = std::ranges::find_if(servers, lists_models);
  if (first == servers.end()) return {};
  Models common = identity_of(*first).models;
  for (const ProbedServer& server : servers) {
    if (!lists_models(server)) continue;
    std::erase_if(common, [&](const std::string& model) {
      return !contains(identity_of(server).models, model);
    });
  }
  return common;
}

/// Adds a warning if some servers serve models that others do not.
void note_partial_models(const std::vector<ProbedServer>& servers, const Models& common,
                         std::vector<std::string>& notes) {
  Models partial;
  for (const ProbedServer& server : servers) {
    for (const std::string& model : identity_of(server).models) {
      if (!contains(common, model) && !contains(partial, model)) partial.push_back(model);
    }
  }
  if (partial.empty()) return;
  notes.push_back(
      fmt::format("warning: not every server has {}; requests are not routed by model, so requests "
                  "for it fail on the other servers",
                  joined(partial)));
}

Address next_port(Address address, std::size_t by) {
  constexpr std::size_t last = 65535;
  const bool is_any = address.port == 0 || address.port + by > last;
  address.port = is_any ? std::uint16_t{0} : static_cast<std::uint16_t>(address.port + by);
  return address;
}

/// Groups servers by their models, each with the command that serves this group.
std::string refusal_of(const DraftOptions& options, const std::vector<ProbedServer>& servers) {
  std::vector<std::pair<Models, std::vector<std::string>>> groups;
  for (const ProbedServer& server : servers) {
    if (!lists_models(server)) continue;
    Models models = identity_of(server).models;
    std::ranges::sort(models);
    auto group = std::ranges::find(groups, models, [](const auto& known) { return known.first; });
    if (group == groups.end()) group = groups.insert(groups.end(), {models, {}});
    group->second.push_back(server.url);
  }
  std::string text = "the servers have no model in common, and requests are not routed by model:\n";
  for (const auto& [models, urls] : groups) {
    text += fmt::format("  {}: {}\n", joined(models), fmt::join(urls, ", "));
  }
  text += "start one balancer for each model, with its own ports:\n";
  for (std::size_t i = 0; i < groups.size(); ++i) {
    text += fmt::format("  evenkeel quick {} --listen {} --admin {}",
                        fmt::join(groups[i].second, " "), to_string(next_port(options.listen, i)),
                        to_string(next_port(options.admin, i)));
    if (options.picker != PoolConfig{}.picker) text += " --picker " + options.picker;
    if (i + 1 < groups.size()) text += '\n';
  }
  return text;
}

/// "meta-llama/Llama-3-8B" gives "Llama-3-8B"; invalid characters become '-'.
std::string pool_name(const Models& common, const std::string& engine) {
  std::string name = common.size() == 1 ? common.front() : engine;
  while (name.ends_with('/')) name.pop_back();
  name.erase(0, name.find_last_of('/') + 1);
  const auto is_alphanumeric = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  for (char& c : name) {
    if (!is_alphanumeric(c) && c != '.' && c != '_') c = '-';
  }
  while (!name.empty() && !is_alphanumeric(name.front())) name.erase(0, 1);
  name.resize(std::min(name.size(), max_name_length));
  return name.empty() ? engine : name;
}

}  // namespace

Draft draft_config(const DraftOptions& options, const std::vector<ProbedServer>& servers) {
  Draft draft;
  for (const ProbedServer& server : servers) draft.notes.push_back(describe(server));

  const Models common = common_models(servers);
  if (common.empty() && std::ranges::any_of(servers, lists_models)) {
    draft.refusal = refusal_of(options, servers);
    return draft;
  }
  note_partial_models(servers, common, draft.notes);

  const std::vector<std::string> engines = engines_of(servers);
  PoolConfig pool{.models = common, .picker = options.picker};
  if (engines.size() == 1) pool.engine = engines.front();
  if (engines.size() > 1) {
    draft.notes.push_back(fmt::format("warning: {} in one pool, so the pool's engine is generic",
                                      fmt::join(engines, " and ")));
  }
  pool.name = pool_name(common, pool.engine);
  pool.keep_alive.idle = default_keep_alive_idle(pool.engine);
  for (const ProbedServer& server : servers) pool.backends.push_back({.address = server.address});

  draft.config.listeners.front().address = options.listen;
  draft.config.admin.address = options.admin;
  draft.config.routes.push_back({.name = "default", .targets = {{.pool = pool.name}}});
  draft.config.pools.push_back(std::move(pool));
  draft.config.access_log.path = "stderr";  // stdout is for the configuration alone
  return draft;
}

}  // namespace evenkeel
