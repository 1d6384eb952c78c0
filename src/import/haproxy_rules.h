// What sections of HAProxy do with requests: which they refuse, and where they lead the others.
#pragma once

#include <string>
#include <vector>

#include "import/draft.h"
#include "import/haproxy_conditions.h"
#include "import/haproxy_syntax.h"

namespace evenkeel::import {

/// Requests and where they go.
struct HaproxyUse {
  RouteMatch match;
  std::string section;  ///< that they go to; of an `answer`: went to
  int line = 0;
  std::optional<RespondConfig> answer;          ///< evenkeel's own, in place of a section
  bool closes = false;                          ///< stands for what routes cannot say
  std::optional<RedirectConfig> redirect = {};  ///< in place of `answer`
};

struct HaproxyRules {
  HaproxyConditions conditions;
  std::vector<HaproxyUse> answers;  ///< come before all uses
  std::vector<HaproxyUse> uses;
  bool needs_tls = false;  ///< requests without TLS are not passed on
};

/// Adds what the lines of a section say. Lines that are read count as used.
void read_haproxy_rules(Draft& draft, HaproxySection& section, HaproxyRules& rules);

}  // namespace evenkeel::import
