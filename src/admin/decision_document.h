// Why requests were placed where they were, as JSON documents of the admin API.
#pragma once

#include <boost/json/array.hpp>
#include <string_view>

#include "evenkeel/base/clock.h"
#include "evenkeel/proxy/plan.h"

namespace evenkeel {

/// What the pools' schedulers keep of the request with this ID: a document for each attempt, the
/// first one first. Thread: any.
boost::json::array decisions_of(const PoolSet& pool_set, std::string_view request_id, Instant now);

}  // namespace evenkeel
