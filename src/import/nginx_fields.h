// What nginx's locations change in header fields, as routes say it.
#pragma once

#include "import/draft.h"
#include "import/nginx_pools.h"
#include "import/nginx_syntax.h"

namespace evenkeel::import {

/// True for `if ($request_method = OPTIONS)` that only answers: what `cors` of a route does.
bool answers_preflights(const NginxDirective& condition);

/// Takes `add_header` and `proxy_hide_header` of a location into what the route changes in answers,
/// and into its `cors`. What routes cannot say stays unused.
void read_answer_fields(const NginxScope& location, RouteConfig& route);

/// Takes fields that `proxy_set_header` removes into what the route changes in requests.
void read_request_fields(const NginxScope& location, RouteConfig& route);

}  // namespace evenkeel::import
