// Requests to the API server of Kubernetes: lists and watches.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "discovery/source_server.h"
#include "evenkeel/base/loop.h"
#include "evenkeel/base/result.h"
#include "evenkeel/base/task.h"
#include "evenkeel/config/config.h"
#include "evenkeel/discovery/discovery.h"
#include "evenkeel/json/value.h"

namespace evenkeel {

/// Why a watch has ended.
struct WatchEnd {
  enum class Kind {
    closed,   ///< by the server, in order: it goes on from the last version
    expired,  ///< the version is too old: the list is needed again
    failed,
  };
  Kind kind = Kind::closed;
  std::string problem = {};  ///< of one that has failed
};

/// What has come in of a watch's lines. Cuts them, wherever their bytes are cut.
class WatchLines {
 public:
  static constexpr std::size_t max_line = std::size_t{8} << 20;

  /// False if a line is too long.
  bool add(std::string_view bytes);
  /// The next whole line, without its end; nothing: there is none. Valid until the next `add`.
  std::optional<std::string_view> next();

 private:
  std::string text_;
  std::size_t begin_ = 0;     // of the next line
  std::size_t searched_ = 0;  // up to where there is no line end
};

/// The API server that a file names, or that of the pod's cluster. Reads its token and its
/// authorities again for each request: they are replaced while the process runs.
///
/// Thread: the loop's. Outlives its tasks.
class KubernetesApi {
 public:
  KubernetesApi(Loop& loop, const DiscoveryEnvironment& environment,
                const KubernetesConfig& config);

  /// The document at a path. Errors say what the server has answered, and what may help.
  Task<Result<JsonValue>> get(std::string path);
  /// Calls `on_event` with each event of a watch at a path, until it returns an end, or the watch
  /// ends.
  using OnEvent = std::function<std::optional<WatchEnd>(const JsonValue& event)>;
  Task<WatchEnd> watch(std::string path, OnEvent on_event);

 private:
  Result<FieldList> credentials() const;
  Task<WatchEnd> read_events(Body& body, const OnEvent& on_event);

  Loop& loop_;
  std::string token_file_;                // empty: none
  std::unique_ptr<SourceServer> server_;  // null: no server is known
};

}  // namespace evenkeel
