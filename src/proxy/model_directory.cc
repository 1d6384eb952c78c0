#include "proxy/model_directory.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <unordered_map>
#include <utility>

#include "evenkeel/base/glob.h"
#include "evenkeel/base/path.h"
#include "evenkeel/base/rfc3339.h"
#include "evenkeel/http/cors.h"
#include "evenkeel/http/grpc.h"
#include "evenkeel/http/status.h"
#include "evenkeel/json/writer.h"

namespace evenkeel {
namespace {

constexpr std::string_view models_path = "/v1/models";

/// The owner of a model of which no server has said anything.
constexpr std::string_view unknown_owner = "evenkeel";

/// The id in the path of a request; empty: all models are asked for. Slashes in it may be encoded.
std::string requested_id(const Request& request) {
  std::string storage;
  const auto path = normalised_path(request.path, storage);
  if (!path || path->size() <= models_path.size() + 1) return {};
  return percent_decoded(path->substr(models_path.size() + 1));
}

/// True if the client wants Anthropic's list of models, which has the same path.
bool wants_anthropic(const Request& request) {
  return request.fields.value("anthropic-version").has_value();
}

/// `card`: null where nothing is known. `details`: its further fields are true for the client.
void append_openai(std::string& out, std::string_view id, const ModelCard* card, bool details) {
  const bool has_owner = card != nullptr && !card->owner.empty();
  out += R"({"id":)";
  append_json_string(out, id);
  out += R"(,"object":"model","created":)";
  out += std::to_string(card == nullptr ? 0 : card->created);
  out += R"(,"owned_by":)";
  append_json_string(out, has_owner ? std::string_view(card->owner) : unknown_owner);
  if (details && card != nullptr && !card->details.empty()) out.append(",").append(card->details);
  out += '}';
}

/// Anthropic's API gives the epoch where the date of a model is not known.
void append_anthropic(std::string& out, std::string_view id, const ModelCard* card) {
  const std::chrono::seconds created(card == nullptr ? 0 : card->created);
  out += R"({"type":"model","id":)";
  append_json_string(out, id);
  out += R"(,"display_name":)";
  append_json_string(out, id);
  out += R"(,"created_at":")";
  out += rfc3339(std::chrono::sys_seconds(created));
  out += "\"}";
}

/// The end of Anthropic's list: everything is on the first page.
void append_page(std::string& out, std::string_view first, std::string_view last) {
  const auto append_id = [&out](std::string_view id) {
    if (id.empty()) {
      out += "null";
    } else {
      append_json_string(out, id);
    }
  };
  out += R"(,"has_more":false,"first_id":)";
  append_id(first);
  out += R"(,"last_id":)";
  append_id(last);
}

Result<Response> json_response(const Request& request, std::string text) {
  Response response;
  allow_origin(request, response);
  response.fields.add("content-type", "application/json");
  response.body = make_body(std::move(text));
  return response;
}

/// True unless the pattern is a glob.
bool is_name(std::string_view pattern) { return !is_glob(pattern); }

}  // namespace

std::string_view list_of_models(const Request& request) {
  return error_format_of(request) == ErrorFormat::ollama ? "/api/tags" : models_path;
}

ModelDirectory::ModelDirectory(const Config& config,
                               const std::shared_ptr<const ModelCatalog>& catalog)
    : config_(config), reach_(config), catalog_(catalog) {}

bool ModelDirectory::is_for(const Request& request) {
  if (request.method != "GET" && request.method != "HEAD") return false;
  std::string storage;
  const auto path = normalised_path(request.path, storage);
  if (!path || !path->starts_with(models_path)) return false;
  return path->size() == models_path.size() || (*path)[models_path.size()] == '/';
}

bool ModelDirectory::answers(const Request& request, std::optional<std::size_t> route) const {
  const ModelListRule rule = route ? config_.routes[*route].model_list : ModelListRule::automatic;
  const RequestTenant& tenant = request.info.identity.tenant;
  // A backend would list what the client may not use.
  const bool is_limited = tenant.has_model_limit();
  const bool automatic = rule == ModelListRule::automatic && !is_limited;
  if (rule == ModelListRule::forward && !is_limited) return false;
  if (automatic && route && !reach_.takes_requests(*route)) return false;
  const ModelReach::Pools reached =
      reach_.pools_for(ModelReach::Api::openai, request.authority, &request.fields);
  if (automatic && !reach_.merges(reached)) return false;
  if (!route) return !reached.list.empty();  // there is no other answer
  const std::vector<Served> pools = served_to(request, ModelReach::Api::openai);
  const std::vector<Listed> models = list(pools, tenant);
  if (const std::string id = requested_id(request); !id.empty()) {
    // A pool whose models are not known may have it.
    const bool all_known = !pools.empty() && std::ranges::all_of(pools, [](const Served& each) {
      return each.models->known;
    });
    if (!all_known && find(pools, models, id) == nullptr) return false;
  }
  if (!automatic) return true;
  return !models.empty() &&
         std::ranges::none_of(pools, [](const Served& each) { return each.models->own_api; });
}

Task<Result<Response>> ModelDirectory::handle(Request& request) {
  const std::vector<Served> pools = served_to(request, ModelReach::Api::openai);
  const std::vector<Listed> models = list(pools, request.info.identity.tenant);
  const bool anthropic = wants_anthropic(request);
  std::string text;
  const auto append = [&](const Listed& model) {
    if (anthropic) return append_anthropic(text, model.id, model.card);
    append_openai(text, model.id, model.card, model.source != nullptr);
  };

  if (const std::string id = requested_id(request); !id.empty()) {
    const Listed* const model = find(pools, models, id);
    if (model == nullptr) return Result<Response>(not_found(request, id));
    append(*model);
    return json_response(request, std::move(text));
  }
  text = anthropic ? R"({"data":[)" : R"({"object":"list","data":[)";
  for (const Listed& model : models) {
    if (&model != &models.front()) text += ',';
    append(model);
  }
  text += ']';
  if (anthropic) {
    append_page(text, models.empty() ? "" : models.front().id,
                models.empty() ? "" : models.back().id);
  }
  text += '}';
  return json_response(request, std::move(text));
}

Error ModelDirectory::not_found(const Request& request, std::string_view model) const {
  const bool kserve = is_grpc(request) || request.path.find("/v2/models/") != request.path.npos;
  const std::vector<Served> pools =
      served_to(request, kserve ? ModelReach::Api::kserve : ModelReach::Api::openai);
  std::vector<std::string_view> names;
  const RequestTenant& tenant = request.info.identity.tenant;
  for (const Listed& each : list(pools, tenant)) names.push_back(each.id);
  for (const Served& each : pools) {
    std::ranges::copy_if(each.pool.models, std::back_inserter(names), [&](std::string_view name) {
      return is_name(name) && may_use(tenant, name);
    });
  }
  return model_not_found(model, names, list_of_models(request));
}

/// A pool without a backend is served by its fallback.
std::vector<ModelDirectory::Served> ModelDirectory::served_to(const Request& request,
                                                              ModelReach::Api api) const {
  std::vector<Served> pools;
  if (catalog_ == nullptr) return pools;
  for (ModelReach::Pool& each : reach_.pools_for(api, request.authority, &request.fields).list) {
    const PoolConfig* pool = &config_.pools[each.number];
    const PoolModels* models = catalog_->find(pool->name);
    while (models != nullptr && !models->available && !pool->fallback.pool.empty()) {
      pool = &reach_.pool(pool->fallback.pool);
      models = catalog_->find(pool->name);
    }
    if (models == nullptr) continue;
    each.number = static_cast<std::size_t>(pool - config_.pools.data());
    pools.push_back({.pool = std::move(each), .models = models});
  }
  return pools;
}

/// The models in the order of the pools, each once; none that no route takes to its pool, or that
/// the tenant may not use.
std::vector<ModelDirectory::Listed> ModelDirectory::list(const std::vector<Served>& pools,
                                                         const RequestTenant& tenant) const {
  std::vector<Listed> models;
  std::unordered_map<std::string_view, std::size_t> places;
  const auto add = [&](const Listed& model) {
    if (!may_use(tenant, model.id)) return;
    const auto [place, added] = places.emplace(model.id, models.size());
    if (added) {
      models.push_back(model);
    } else if (models[place->second].source != model.source) {
      models[place->second].source = nullptr;
    }
  };
  for (const auto& [pool, served] : pools) {
    const PoolConfig& config = config_.pools[pool.number];
    // What the routes name stands in for a list that is not known.
    const bool renames = !config.model.empty();
    const bool by_routes = config.models.empty() && (renames || !served->listed);
    for (const std::string_view name : pool.models) {
      if (!by_routes || !is_name(name) || !served->available) continue;
      const ModelCard* const card = served->find(renames ? config.model : name);
      if (renames || card == nullptr) add({.id = name, .card = card, .source = served});
    }
    for (const ModelCard& card : served->models) {
      if (pool.takes(card.id)) add({.id = card.id, .card = &card, .source = served});
    }
  }
  return models;
}

/// Finds a model by its id, or without the tag that an engine implies.
const ModelDirectory::Listed* ModelDirectory::find(const std::vector<Served>& pools,
                                                   const std::vector<Listed>& models,
                                                   std::string_view id) {
  const auto listed = [&](std::string_view name) {
    const auto found = std::ranges::find(models, name, &Listed::id);
    return found == models.end() ? nullptr : &*found;
  };
  if (const Listed* const found = listed(id)) return found;
  for (const Served& each : pools) {
    const ModelCard* const card = each.models->find(id);
    if (card == nullptr) continue;
    if (const Listed* const found = listed(card->id)) return found;
  }
  return nullptr;
}

}  // namespace evenkeel
