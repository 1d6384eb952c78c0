// Keeps the objects of a list of Kubernetes current.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "discovery/found_list.h"
#include "discovery/kubernetes_api.h"
#include "evenkeel/base/loop.h"
#include "evenkeel/base/rng.h"
#include "evenkeel/base/task.h"
#include "evenkeel/json/value.h"

namespace evenkeel {

/// The objects of one kind that are wanted.
struct ObjectQuery {
  std::string path;    ///< "/api/v1/namespaces/default/pods"
  std::string filter;  ///< of the query: "labelSelector=app%3Dllama"
};

/// What becomes of the objects.
class ObjectListener {
 public:
  virtual ~ObjectListener() = default;
  /// Takes all objects. False if they are to be listed again soon, before anything else counts.
  virtual bool listed(const JsonValue::List& objects) = 0;
  /// Takes an object that is new, has changed or, with `deleted`, is gone. Returns why it could not
  /// be understood; nothing: it was.
  virtual std::optional<std::string> changed(const JsonValue& object, bool deleted) = 0;
};

/// Lists objects, then watches them from the version of the list on, as client-go's reflectors do.
/// Lists again when the version has expired, and whenever the watch fails, with growing delays.
///
/// Thread: the loop's.
class Reflector {
 public:
  /// Everything outlives it. `is_main`: what it hears says that the list of backends is current.
  Reflector(Loop& loop, KubernetesApi& api, ObjectQuery query, ObjectListener& listener,
            FoundList& found, bool is_main, std::uint64_t seed);
  Reflector(const Reflector&) = delete;
  Reflector& operator=(const Reflector&) = delete;

 private:
  Task<void> run();
  Task<bool> list();
  Task<WatchEnd> watch();
  std::optional<WatchEnd> take(const JsonValue& event);
  void note_good();
  Duration drawn(Duration about);

  Loop& loop_;
  KubernetesApi& api_;
  ObjectQuery query_;
  ObjectListener& listener_;
  FoundList& found_;
  bool is_main_;
  Rng rng_;
  std::string version_;     // of the last list, event or bookmark
  bool has_event_ = false;  // of this watch
  Task<void> running_;
};

}  // namespace evenkeel
