#include "evenkeel/inference/detect.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "inference/json_reader.h"
#include "inference/model_cards.h"

namespace evenkeel {
namespace {

constexpr std::string_view engines_own_words[] = {"/v1/models", "/-/routes", "/v2"};
constexpr std::string_view what_else_tells[] = {
    "/version", "/load", "/get_model_info", "/model_info", "/props", "/info", "/ping", "/"};
constexpr std::span<const std::string_view> rounds[] = {engines_own_words, what_else_tells};

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
          json::pass_over(value);
        }
      });
  if (!read) return std::nullopt;
  return keys;
}

/// What was heard, ready for questions.
class Answers {
 public:
  explicit Answers(const std::vector<ProbeAnswer>& all) : all_(all) {
    for (const ProbeAnswer& answer : all) {
      keys_.push_back(keys_of(answer.body));
      if (answer.path != "/v1/models" || answer.status != 200) continue;
      if (auto cards = read_model_cards(answer.body)) cards_ = std::move(*cards);
    }
  }

  const std::vector<ModelCard>& cards() const { return cards_; }
  const ProbeAnswer* at(std::string_view path) const {
    const auto found = std::ranges::find(all_, path, &ProbeAnswer::path);
    return found == all_.end() ? nullptr : &*found;
  }
  /// The object that a path answered with success, or an empty one.
  const Keys& good(std::string_view path) const {
    static const Keys none;
    const ProbeAnswer* answer = at(path);
    if (answer == nullptr || answer->status != 200) return none;
    const auto& keys = keys_[static_cast<std::size_t>(answer - all_.data())];
    return keys ? *keys : none;
  }
  bool is_owned_by(std::string_view owner) const {
    return std::ranges::find(cards_, owner, &ModelCard::owner) != cards_.end();
  }
  /// Whether any answer and the object in it, if there is one, are so.
  template <class Holds>
  bool any(Holds holds) const {
    static const Keys none;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (holds(all_[i], keys_[i] ? *keys_[i] : none)) return true;
    }
    return false;
  }

 private:
  const std::vector<ProbeAnswer>& all_;
  std::vector<std::optional<Keys>> keys_;
  std::vector<ModelCard> cards_;
};

std::string_view text_at(const Keys& keys, std::string_view name) {
  const auto found = keys.find(name);
  return found == keys.end() ? std::string_view() : std::string_view(found->second);
}

bool has_ray_routes(const Answers& answers) {
  const Keys& routes = answers.good("/-/routes");
  return !routes.empty() && std::ranges::all_of(routes, [](const auto& route) {
    return route.first.starts_with('/') && !route.second.empty();
  });
}

bool is_ray_without_routes(const Answers& answers) {
  const ProbeAnswer* answer = answers.at("/-/routes");
  return answer != nullptr && answer->status == 503 &&
         (answer->body.starts_with("This node is being drained") ||
          answer->body.starts_with("Route table is not populated yet"));
}

/// What its proxy says where no application is, such as before the first.
bool points_to_ray_routes(const Answers& answers) {
  return answers.any([](const ProbeAnswer& answer, const Keys&) {
    return answer.status == 404 && answer.body.find("/-/routes for available") != std::string::npos;
  });
}

bool is_triton(const Answers& answers) { return text_at(answers.good("/v2"), "name") == "triton"; }

bool is_mlserver(const Answers& answers) {
  return text_at(answers.good("/v2"), "name") == "mlserver";
}

/// Triton, MLServer and others of the protocol: {"name": ..., "version": ..., "extensions": [...]}.
bool describes_itself_as_kserve(const Answers& answers) {
  const Keys& server = answers.good("/v2");
  return server.contains("name") && server.contains("version") && server.contains("extensions");
}

bool owns_as_sglang(const Answers& answers) { return answers.is_owned_by("sglang"); }

bool has_sglang_model_info(const Answers& answers) {
  return std::ranges::any_of(
      std::initializer_list<std::string_view>{"/model_info", "/get_model_info"},
      [&](std::string_view path) {
        const Keys& info = answers.good(path);
        return info.contains("model_path") && info.contains("is_generation");
      });
}

bool owns_as_trtllm(const Answers& answers) { return answers.is_owned_by("tensorrt_llm"); }

bool owns_as_llamacpp(const Answers& answers) { return answers.is_owned_by("llamacpp"); }

bool is_signed_llamacpp(const Answers& answers) {
  return answers.any([](const ProbeAnswer& answer, const Keys&) {
    return answer.server.starts_with("llama.cpp");
  });
}

/// Until its model is there, it has this answer to everything.
bool is_loading_llamacpp(const Answers& answers) {
  return answers.any([](const ProbeAnswer& answer, const Keys&) {
    return answer.status == 503 && answer.body.find("\"Loading model\"") != std::string::npos &&
           answer.body.find("\"unavailable_error\"") != std::string::npos;
  });
}

bool has_llamacpp_props(const Answers& answers) {
  return answers.good("/props").contains("total_slots");
}

bool owns_as_vllm(const Answers& answers) { return answers.is_owned_by("vllm"); }

/// What stays open when a key guards the rest.
bool counts_load_as_vllm(const Answers& answers) {
  return answers.good("/load").contains("server_load") &&
         answers.good("/version").contains("version");
}

/// TEI, which embeds texts, has an /info much like it, but no tokens in all.
bool has_tgi_info(const Answers& answers) {
  const Keys& info = answers.good("/info");
  return info.contains("model_id") &&
         (info.contains("max_total_tokens") || text_at(info, "router") == "text-generation-router");
}

bool says_ollama_is_running(const Answers& answers) {
  const ProbeAnswer* root = answers.at("/");
  return root != nullptr && root->status == 200 && root->body.starts_with("Ollama is running");
}

bool is_malformed_to_tfserving(const Answers& answers) {
  return answers.any([](const ProbeAnswer&, const Keys& keys) {
    return text_at(keys, "error").starts_with("Malformed request: GET /");
  });
}

/// Many a server of our own making has a /ping that says Healthy; none has a Java exception beside.
bool pings_and_fails_as_torchserve(const Answers& answers) {
  const ProbeAnswer* ping = answers.at("/ping");
  if (ping == nullptr) return false;
  return answers.any([&](const ProbeAnswer& answer, const Keys& keys) {
    const std::string_view status = text_at(keys, "status");
    return &answer == ping &&
           (status == "Healthy" || status == "Partial Healthy" || status == "Unhealthy");
  }) && answers.any([](const ProbeAnswer& answer, const Keys& keys) {
    return answer.status >= 400 && keys.contains("code") &&
           text_at(keys, "type").ends_with("Exception");
  });
}

struct Rule {
  std::string_view engine;
  std::string_view sign;
  bool (*holds)(const Answers&);
};

/// The first that holds decides. Ray stands in front of other engines, so it comes before them;
/// SGLang speaks Ollama's API beside its own.
constexpr Rule rules[] = {
    {"ray", "/-/routes lists its applications", has_ray_routes},
    {"ray", "/-/routes says that it has none", is_ray_without_routes},
    {"ray", "it points to /-/routes", points_to_ray_routes},
    {"triton", "/v2 has its name", is_triton},
    {"mlserver", "/v2 has its name", is_mlserver},
    {"sglang", "/v1/models says owned_by sglang", owns_as_sglang},
    {"sglang", "it has a /model_info", has_sglang_model_info},
    {"trtllm", "/v1/models says owned_by tensorrt_llm", owns_as_trtllm},
    {"llamacpp", "/v1/models says owned_by llamacpp", owns_as_llamacpp},
    {"llamacpp", "the field 'server' has its name", is_signed_llamacpp},
    {"llamacpp", "it says that it is loading its model", is_loading_llamacpp},
    {"llamacpp", "/props has slots", has_llamacpp_props},
    {"vllm", "/v1/models says owned_by vllm", owns_as_vllm},
    {"vllm", "it has /version and /load", counts_load_as_vllm},
    {"tgi", "/info describes its router", has_tgi_info},
    {"ollama", "/ says that it is running", says_ollama_is_running},
    {"tfserving", "an error in its words", is_malformed_to_tfserving},
    {"torchserve", "/ping and errors in its words", pings_and_fails_as_torchserve},
};

std::vector<std::string> models_of(const Answers& answers) {
  std::vector<std::string> models;
  std::set<std::string_view> seen;
  for (const ModelCard& card : answers.cards()) {
    if (models.size() == most_models) break;
    if (!card.id.empty() && seen.insert(card.id).second) models.push_back(card.id);
  }
  return models;
}

/// Nothing but "not now", of itself or of whoever stands in front of it.
bool says_later(const std::vector<ProbeAnswer>& answers) {
  return !answers.empty() && std::ranges::all_of(answers, [](const ProbeAnswer& answer) {
    return answer.status >= 502 && answer.status <= 504;
  });
}

}  // namespace

std::span<const std::span<const std::string_view>> probe_rounds() { return rounds; }

bool is_told(const ProbeAnswer& answer) {
  return answer.status < 500 || answer.status == 501;  // "not implemented"
}

Identity identify(const std::vector<ProbeAnswer>& answers) {
  const Answers heard(answers);
  Identity identity;
  const auto rule =
      std::ranges::find_if(rules, [&](const Rule& candidate) { return candidate.holds(heard); });
  if (rule != std::end(rules)) {
    identity.engine = rule->engine;
    identity.sign = rule->sign;
  }
  identity.kserve = describes_itself_as_kserve(heard);
  identity.models = models_of(heard);
  identity.loading = is_loading_llamacpp(heard) || says_later(answers);
  const ProbeAnswer* list = heard.at("/v1/models");
  identity.wants_key = list != nullptr && (list->status == 401 || list->status == 403);
  return identity;
}

}  // namespace evenkeel
