#include <algorithm>

#include "evenkeel/base/glob.h"
#include "evenkeel/http/message.h"

namespace evenkeel {
namespace {

bool takes(const std::vector<std::string>& globs, std::string_view model) {
  return globs.empty() || std::ranges::any_of(globs, [model](const std::string& glob) {
           return matches_glob(glob, model);
         });
}

}  // namespace

bool may_use(const RequestTenant& tenant, std::string_view model) {
  return (tenant.models == nullptr || takes(*tenant.models, model)) &&
         (tenant.key == nullptr || takes(tenant.key->models, model));
}

}  // namespace evenkeel
