// Answers GET /v1/models and /v1/models/ID for several pools at once.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/config/config.h"
#include "evenkeel/http/message.h"
#include "evenkeel/upstream/model_catalog.h"
#include "proxy/model_reach.h"

namespace evenkeel {

/// The path at which the API of a request lists models.
std::string_view list_of_models(const Request& request);

/// Knows the models that a client can request and may use (docs/routing.md), and lists them in the
/// shape of OpenAI's API, or of Anthropic's for clients with `anthropic-version`.
///
/// Thread: one worker's.
class ModelDirectory final : public Handler {
 public:
  /// `catalog`: where the worker keeps the present one; null inside: there is none yet.
  ModelDirectory(const Config& config, const std::shared_ptr<const ModelCatalog>& catalog);

  /// True if the file has a host for which models may be listed or named. Otherwise nothing else
  /// may be called.
  bool is_needed() const { return !reach_.pools_to_list().empty(); }

  /// True for a GET or HEAD of /v1/models or below. Cheap for all other requests.
  static bool is_for(const Request& request);
  /// True if the answer to such a request is this directory's, rather than a backend's. `route`:
  /// which matches it.
  bool answers(const Request& request, std::optional<std::size_t> route) const;

  /// The list or one model of it. Errors: model_not_found. REQUIRES: answers(request, ...).
  Task<Result<Response>> handle(Request& request) override;

  /// The error for a request of this client to a model that no route takes.
  Error not_found(const Request& request, std::string_view model) const;

 private:
  /// A pool that the client can reach, with what it, or its fallback, serves now.
  struct Served {
    ModelReach::Pool pool;
    const PoolModels* models;
  };
  struct Listed {
    std::string_view id;
    const ModelCard* card;     // null: no backend has said anything
    const PoolModels* source;  // null: several pools
  };

  std::vector<Served> served_to(const Request& request, ModelReach::Api api) const;
  std::vector<Listed> list(const std::vector<Served>& pools, const RequestTenant& tenant) const;
  static const Listed* find(const std::vector<Served>& pools, const std::vector<Listed>& models,
                            std::string_view id);

  const Config& config_;
  const ModelReach reach_;
  const std::shared_ptr<const ModelCatalog>& catalog_;
};

}  // namespace evenkeel
