#include "evenkeel/inference/engine_identity.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "inference/json_reader.h"
#include "inference/model_cards.h"

namespace evenkeel {
namespace {

constexpr std::string_view identifying_paths[] = {"/v1/models", "/-/routes", "/v2"};
constexpr std::string_view fallback_paths[] = {
    "/version", "/load", "/get_model_info", "/model_info", "/props", "/info", "/ping", "/"};
constexpr std::span<const std::string_view> rounds[] = {identifying_paths, fallback_paths};

/// The keys of an object, with the values that are texts; the other values are empty.
using Keys = std::map<std::string, std::string, std::less<>>;

/// Nothing when the text is no JSON object.
std::optional<Keys> keys_of(std::string text) {
  Keys keys;
  const auto read =
      json::read_object(text, [&](std::string_view name, simdjson::ondemand::value value) {
        std::string& place = keys[std::string(name)];
        if (value.type() == simdjson::ondemand::json_type::string) {
          place = json::string_of(value, name);
        } else {
          json::skip_value(value);
        }
      });
  if (!read) return std::nullopt;
  return keys;
}

/// What was heard, ready for questions.
class ParsedResponses {
 public:
  explicit ParsedResponses(const std::vector<ProbeResponse>& all) : all_(all) {
    for (const ProbeResponse& response : all) {
      keys_.push_back(keys_of(response.body));
      if (response.path != "/v1/models" || response.status != 200) continue;
      if (auto cards = read_model_cards(response.body)) cards_ = std::move(*cards);
    }
  }

  const std::vector<ModelCard>& cards() const { return cards_; }
  const ProbeResponse* at(std::string_view path) const {
    const auto found = std::ranges::find(all_, path, &ProbeResponse::path);
    return found == all_.end() ? nullptr : &*found;
  }
  /// The object that a path answered with success, or an empty one.
  const Keys& object_at(std::string_view path) const {
    static const Keys none;
    const ProbeResponse* response = at(path);
    if (response == nullptr || response->status != 200) return none;
    const auto& keys = keys_[static_cast<std::size_t>(response - all_.data())];
    return keys ? *keys : none;
  }
  bool is_owned_by(std::string_view owner) const {
    return std::ranges::find(cards_, owner, &ModelCard::owner) != cards_.end();
  }
  /// Whether any answer and the object in it, if there is one, are so.
  template <class Predicate>
  bool any(Predicate matches) const {
    static const Keys none;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (matches(all_[i], keys_[i] ? *keys_[i] : none)) return true;
    }
    return false;
  }

 private:
  const std::vector<ProbeResponse>& all_;
  std::vector<std::optional<Keys>> keys_;
  std::vector<ModelCard> cards_;
};

std::string_view text_at(const Keys& keys, std::string_view name) {
  const auto found = keys.find(name);
  return found == keys.end() ? std::string_view() : std::string_view(found->second);
}

bool has_ray_routes(const ParsedResponses& responses) {
  const Keys& routes = responses.object_at("/-/routes");
  return !routes.empty() && std::ranges::all_of(routes, [](const auto& route) {
    return route.first.starts_with('/') && !route.second.empty();
  });
}

bool has_ray_not_ready_text(const ParsedResponses& responses) {
  const ProbeResponse* response = responses.at("/-/routes");
  return response != nullptr && response->status == 503 &&
         (response->body.starts_with("This node is being drained") ||
          response->body.starts_with("Route table is not populated yet"));
}

/// What its proxy says where no application is, such as before the first.
bool has_ray_not_found_text(const ParsedResponses& responses) {
  return responses.any([](const ProbeResponse& response, const Keys&) {
    return response.status == 404 &&
           response.body.find("/-/routes for available") != std::string::npos;
  });
}

bool is_triton(const ParsedResponses& responses) {
  return text_at(responses.object_at("/v2"), "name") == "triton";
}

bool is_mlserver(const ParsedResponses& responses) {
  return text_at(responses.object_at("/v2"), "name") == "mlserver";
}

/// Triton, MLServer and others of the protocol: {"name": ..., "version": ..., "extensions": [...]}.
bool has_kserve_metadata(const ParsedResponses& responses) {
  const Keys& server = responses.object_at("/v2");
  return server.contains("name") && server.contains("version") && server.contains("extensions");
}

bool is_owned_by_sglang(const ParsedResponses& responses) {
  return responses.is_owned_by("sglang");
}

bool has_sglang_model_info(const ParsedResponses& responses) {
  return std::ranges::any_of(
      std::initializer_list<std::string_view>{"/model_info", "/get_model_info"},
      [&](std::string_view path) {
        const Keys& info = responses.object_at(path);
        return info.contains("model_path") && info.contains("is_generation");
      });
}

bool is_owned_by_trtllm(const ParsedResponses& responses) {
  return responses.is_owned_by("tensorrt_llm");
}

bool is_owned_by_llamacpp(const ParsedResponses& responses) {
  return responses.is_owned_by("llamacpp");
}

bool has_llamacpp_server_field(const ParsedResponses& responses) {
  return responses.any([](const ProbeResponse& response, const Keys&) {
    return response.server.starts_with("llama.cpp");
  });
}

/// Until its model is there, it has this answer to everything.
bool is_loading_llamacpp(const ParsedResponses& responses) {
  return responses.any([](const ProbeResponse& response, const Keys&) {
    return response.status == 503 && response.body.find("\"Loading model\"") != std::string::npos &&
           response.body.find("\"unavailable_error\"") != std::string::npos;
  });
}

bool has_llamacpp_props(const ParsedResponses& responses) {
  return responses.object_at("/props").contains("total_slots");
}

bool is_owned_by_vllm(const ParsedResponses& responses) { return responses.is_owned_by("vllm"); }

/// What stays open when a key guards the rest.
bool has_vllm_load(const ParsedResponses& responses) {
  return responses.object_at("/load").contains("server_load") &&
         responses.object_at("/version").contains("version");
}

/// TEI, which embeds texts, has an /info much like it, but no tokens in all.
bool has_tgi_info(const ParsedResponses& responses) {
  const Keys& info = responses.object_at("/info");
  return info.contains("model_id") &&
         (info.contains("max_total_tokens") || text_at(info, "router") == "text-generation-router");
}

bool has_ollama_banner(const ParsedResponses& responses) {
  const ProbeResponse* root = responses.at("/");
  return root != nullptr && root->status == 200 && root->body.starts_with("Ollama is running");
}

bool has_tfserving_error(const ParsedResponses& responses) {
  return responses.any([](const ProbeResponse&, const Keys& keys) {
    return text_at(keys, "error").starts_with("Malformed request: GET /");
  });
}

/// Many a server of our own making has a /ping that says Healthy; none has a Java exception beside.
bool has_torchserve_ping_and_errors(const ParsedResponses& responses) {
  const ProbeResponse* ping = responses.at("/ping");
  if (ping == nullptr) return false;
  return responses.any([&](const ProbeResponse& response, const Keys& keys) {
    const std::string_view status = text_at(keys, "status");
    return &response == ping &&
           (status == "Healthy" || status == "Partial Healthy" || status == "Unhealthy");
  }) && responses.any([](const ProbeResponse& response, const Keys& keys) {
    return response.status >= 400 && keys.contains("code") &&
           text_at(keys, "type").ends_with("Exception");
  });
}

struct Rule {
  std::string_view engine;
  std::string_view evidence;
  bool (*matches)(const ParsedResponses&);
};

/// The first that holds decides. Ray stands in front of other engines, so it comes before them;
/// SGLang speaks Ollama's API beside its own.
constexpr Rule rules[] = {
    {"ray", "/-/routes lists its applications", has_ray_routes},
    {"ray", "/-/routes says that it has none", has_ray_not_ready_text},
    {"ray", "it points to /-/routes", has_ray_not_found_text},
    {"triton", "/v2 has its name", is_triton},
    {"mlserver", "/v2 has its name", is_mlserver},
    {"sglang", "/v1/models says owned_by sglang", is_owned_by_sglang},
    {"sglang", "it has a /model_info", has_sglang_model_info},
    {"trtllm", "/v1/models says owned_by tensorrt_llm", is_owned_by_trtllm},
    {"llamacpp", "/v1/models says owned_by llamacpp", is_owned_by_llamacpp},
    {"llamacpp", "the field 'server' has its name", has_llamacpp_server_field},
    {"llamacpp", "it says that it is loading its model", is_loading_llamacpp},
    {"llamacpp", "/props has slots", has_llamacpp_props},
    {"vllm", "/v1/models says owned_by vllm", is_owned_by_vllm},
    {"vllm", "it has /version and /load", has_vllm_load},
    {"tgi", "/info describes its router", has_tgi_info},
    {"ollama", "/ says that it is running", has_ollama_banner},
    {"tfserving", "an error in its words", has_tfserving_error},
    {"torchserve", "/ping and errors in its words", has_torchserve_ping_and_errors},
};

std::vector<std::string> models_of(const ParsedResponses& responses) {
  std::vector<std::string> models;
  std::set<std::string_view> seen;
  for (const ModelCard& card : responses.cards()) {
    if (models.size() == max_models) break;
    if (!card.id.empty() && seen.insert(card.id).second) models.push_back(card.id);
  }
  return models;
}

/// Nothing but "not now", of itself or of whoever stands in front of it.
bool only_unavailable(const std::vector<ProbeResponse>& responses) {
  return !responses.empty() && std::ranges::all_of(responses, [](const ProbeResponse& response) {
    return response.status >= 502 && response.status <= 504;
  });
}

}  // namespace

std::span<const std::span<const std::string_view>> probe_rounds() { return rounds; }

bool is_conclusive(const ProbeResponse& response) {
  return response.status < 500 || response.status == 501;  // "not implemented"
}

EngineIdentity identify_engine(const std::vector<ProbeResponse>& responses) {
  const ParsedResponses parsed(responses);
  EngineIdentity identity;
  const auto rule =
      std::ranges::find_if(rules, [&](const Rule& candidate) { return candidate.matches(parsed); });
  if (rule != std::end(rules)) {
    identity.engine = rule->engine;
    identity.evidence = rule->evidence;
  }
  identity.kserve = has_kserve_metadata(parsed);
  identity.models = models_of(parsed);
  identity.loading = is_loading_llamacpp(parsed) || only_unavailable(responses);
  const ProbeResponse* list = parsed.at("/v1/models");
  identity.requires_api_key = list != nullptr && (list->status == 401 || list->status == 403);
  return identity;
}

}  // namespace evenkeel
