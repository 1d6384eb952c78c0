#include "config/fields.h"

#include <string>
#include <utility>

namespace evenkeel::config_file {

void Fields<RouteConfig>::extend_schema(Tree& schema) {
  Tree pool = Tree::map();
  pool.put("required", Tree::list_of_text({"pool"}));
  Tree split = Tree::map();
  split.put("required", Tree::list_of_text({"split"}));
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
