// KServe's v2 inference protocol over HTTP, as Triton serves it, with its generate extension.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "evenkeel/http/message.h"
#include "sim/simulated_model.h"

namespace evenkeel {

/// "/v2/models/NAME[/versions/V]/VERB". A name may hold slashes.
struct KservePath {
  std::string_view model;
  std::string_view verb;
};
std::optional<KservePath> parse_kserve_path(std::string_view path);

/// POST `/v2/models/NAME/{infer,generate,generate_stream}`; `infer` runs an identity
/// model.
class KserveHttp {
 public:
  explicit KserveHttp(SimulatedModel& model) : model_(model) {}

  /// True if `handle` answers the request.
  static bool handles(const Request& request);
  Task<Result<Response>> handle(Request& request, int client_fd);
  /// {"error": "..."}.
  static Response error(int status, std::string_view message);

 private:
  Task<Result<Response>> infer(std::string body, int client_fd);
  Task<Result<Response>> generate(std::string body, bool streams, int client_fd);

  SimulatedModel& model_;
};

}  // namespace evenkeel
