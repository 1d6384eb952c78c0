#include "config/fields.h"

#include <string>
#include <utility>

namespace evenkeel::config_file {

// Requires `pool`, or a `split`; beside `pool`, a split names labels.
void extend_schema(Of<RouteConfig>, Tree& schema) {
  const auto has = [](const char* key) {
    return Tree::map({{"required", Tree::list_of_text({key})}});
  };
  Tree labels = Tree::map({{"propertyNames", Tree::map({{"pattern", Tree::text("=")}})}});
  Tree pool = has("pool");
  pool.put("properties", Tree::map({{"split", std::move(labels)}}));
  Tree split = has("split");
  split.put("not", has("pool"));
  schema.put("oneOf", Tree::list({std::move(pool), std::move(split)}));
}

std::string name_of(const RouteMatch& match) {
  if (match.path.empty() && !match.grpc.empty()) {
    std::string name = match.host;
    for (const std::string& call : match.grpc) {
      if (name.size() > match.host.size()) name += ',';
      name += '/' + call;
      if (call.find('/') == call.npos) name += "/*";
    }
    return name;
  }
  std::string name = match.host + (match.path.empty() ? "/**" : match.path);
  for (const std::string& model : match.model) name += ' ' + model;
  for (const std::string& task : match.task) name += ' ' + task;
  return name;
}

}  // namespace evenkeel::config_file
