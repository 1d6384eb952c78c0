// The pool that a backend section of HAProxy stands for.
#pragma once

#include <optional>
#include <string_view>

#include "import/draft.h"
#include "import/haproxy_syntax.h"

namespace evenkeel::import {

/// Adds the pool of a `backend` or `listen` section; `defaults` may be null. Lines that are read
/// count as used. False: it has no usable server, and there is no pool.
bool add_haproxy_pool(Draft& draft, HaproxySection& section, HaproxySection* defaults);

/// The time of a `timeout` line; the longest one, with a note, for 0, which means none.
std::optional<milliseconds> haproxy_timeout(Draft& draft, const HaproxyLine& line);

}  // namespace evenkeel::import
