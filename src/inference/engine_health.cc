#include "evenkeel/inference/engine_health.h"

#include <algorithm>

#include "evenkeel/base/path.h"
#include "evenkeel/inference/model_cards.h"
#include "evenkeel/json/value.h"
#include "evenkeel/json/writer.h"

namespace evenkeel {
namespace {

bool is_json_object(const std::string& body) {
  const std::size_t at = body.find_first_not_of(" \t\r\n");
  return at != std::string::npos && body[at] == '{';
}

bool says_loading_model(int status, const std::string& body) {
  return status == 503 && body.find("Loading model") != std::string::npos;
}

/// {"model_version_status":[{"version":"1","state":"AVAILABLE","status":{...}}]}: one version that
/// is available is enough. The states are those of its GetModelStatus.
Readiness read_tfserving(const std::string& body) {
  const auto document = parse_json(body);
  if (!document || !document->is_object()) return Readiness::failing;
  bool coming = false;
  for (const JsonValue& version : (*document)["model_version_status"].items()) {
    const std::string& state = version["state"].text();
    if (state == "AVAILABLE") return Readiness::ready;
    coming |= state == "START" || state == "LOADING";
  }
  return coming ? Readiness::loading : Readiness::not_ready;
}

/// [{"modelName":"m", ..., "workers":[{"id":"9000","status":"READY"}]}]: one ready worker is
/// enough; /ping does not report that there is none.
Readiness read_torchserve(const std::string& body) {
  const auto document = parse_json(body);
  if (!document || !document->is_array()) return Readiness::failing;
  for (const JsonValue& model : document->items()) {
    for (const JsonValue& worker : model["workers"].items()) {
      if (worker["status"].text() == "READY") return Readiness::ready;
    }
  }
  return Readiness::loading;
}

/// True for a response such as {"choices":[{"text":"x","finish_reason":"length"}]}.
bool has_choice(const std::string& body) {
  const auto document = parse_json(body);
  return document && std::ranges::any_of((*document)["choices"].items(), [](const JsonValue& each) {
           return each.is_object() && each["finish_reason"].text() != "abort";
         });
}

/// True for {"model_name":"m","text_output":"x"} and the like, without an "error".
bool has_text_output(const std::string& body) {
  const auto document = parse_json(body);
  const auto has = [&](std::string_view key) {
    return std::ranges::find(document->members(), key, &JsonValue::Member::first) !=
           document->members().end();
  };
  return document && has("text_output") && !has("error");
}

/// Keeps the slash, which servers accept as it is in names such as meta-llama/Llama-3.
std::string escape_path(std::string_view name) { return percent_encoded(name, "/"); }

}  // namespace

Readiness read_health(const Engine& engine, int status, const std::string& body) {
  if (status == 200) return Readiness::ready;
  if (says_loading_model(status, body)) return Readiness::loading;
  if (status == 503 || status == engine.health.not_ready_status) return Readiness::not_ready;
  return Readiness::failing;
}

std::string model_path(ModelListing listing, std::string_view model) {
  switch (listing) {
    case ModelListing::openai: return "/v1/models";
    case ModelListing::kserve: return "/v2/models/" + escape_path(model) + "/ready";
    case ModelListing::tfserving: return "/v1/models/" + escape_path(model);
    case ModelListing::torchserve: return "/models/" + escape_path(model);
  }
  return {};
}

Readiness read_model(ModelListing listing, int status, const std::string& body) {
  if (status == 404) return Readiness::model_missing;
  if (status == 503) return Readiness::not_ready;
  switch (listing) {
    case ModelListing::openai: break;
    case ModelListing::kserve:
      // Triton answers with the status alone; the protocol has {"ready": bool} besides.
      if (status == 400) return Readiness::not_ready;
      if (status != 200) return Readiness::failing;
      if (is_json_object(body)) {
        const auto document = parse_json(body);
        if (!document) return Readiness::failing;
        const JsonValue& ready = (*document)["ready"];
        if (ready.is_boolean() && !ready.truth()) return Readiness::not_ready;
      }
      return Readiness::ready;
    case ModelListing::tfserving: return status == 200 ? read_tfserving(body) : Readiness::failing;
    case ModelListing::torchserve:
      return status == 200 ? read_torchserve(body) : Readiness::failing;
  }
  return Readiness::failing;
}

std::optional<std::vector<std::string>> read_models(const std::string& body) {
  const auto cards = read_model_cards(body);
  if (!cards) return std::nullopt;
  std::vector<std::string> models;
  for (const ModelCard& card : *cards) {
    if (!card.id.empty()) models.push_back(card.id);
  }
  return models;
}

bool lists_model(const Engine& engine, const std::vector<std::string>& listed,
                 std::string_view model) {
  const std::string_view tag = engine.health.implied_model_tag;
  return std::ranges::any_of(listed, [&](std::string_view name) {
    if (name == model) return true;
    return !tag.empty() && name.starts_with(model) && name.substr(model.size()) == tag;
  });
}

TokenProbeRequest token_probe_request(TokenProbe probe, std::string_view model) {
  if (probe == TokenProbe::kserve) {
    return {"/v2/models/" + escape_path(model) + "/generate",
            R"({"text_input":"1","max_tokens":1})"};
  }
  return {"/v1/completions",
          R"({"model":)" + json_string(model) + R"(,"prompt":"1","max_tokens":1})"};
}

bool contains_token(TokenProbe probe, int status, const std::string& body) {
  if (status != 200) return false;
  switch (probe) {
    case TokenProbe::none: return false;
    case TokenProbe::completion: return has_choice(body);
    case TokenProbe::kserve: return has_text_output(body);
  }
  return false;
}

bool reports_sleeping(int status, const std::string& body) {
  if (status != 200) return false;
  const auto document = parse_json(body);
  return document && (*document)["is_sleeping"].truth();
}

}  // namespace evenkeel
