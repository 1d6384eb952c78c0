#include "config/fields.h"

#include <string>
#include <utility>

namespace evenkeel::config_file {

namespace {

Tree requires_key(const char* key) {
  Tree schema = Tree::map();
  schema.put("required", Tree::list_of_text({key}));
  return schema;
}

Tree map_of(const char* key, Tree value) {
  Tree map = Tree::map();
  map.put(key, std::move(value));
  return map;
}

}  // namespace

// Requires `pool`, or a `split`; beside `pool`, a split names labels.
void extend_schema(Of<RouteConfig>, Tree& schema) {
  Tree pool = requires_key("pool");
  pool.put("properties",
           map_of("split", map_of("propertyNames", map_of("pattern", Tree::text("=")))));
  Tree split = requires_key("split");
  split.put("not", requires_key("pool"));
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
