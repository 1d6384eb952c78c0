// The one table that turns a fault into a status, and an error into an answer that the client's
// library understands.
#pragma once

#include <string_view>

#include "evenkeel/base/result.h"
#include "evenkeel/http/message.h"

namespace evenkeel {

/// The status that a fault is answered with (facts: 502 invalid or reset, 503 no capacity,
/// 504 time-outs, 429 admission). 499 (client_gone) is logged, never sent.
int status_of(Fault fault);

/// The standard phrase of a status ("Not Found"), or "".
std::string_view phrase_of(int status);

/// The answer to a request that failed: OpenAI's error object on `/v1/...`, KServe's on `/v2/...`,
/// plain text otherwise; always with `x-evenkeel-reason`, and `retry-after`, `retry-after-ms` and
/// `x-should-retry` on 429 and 503.
Response error_response(const Error& error, std::string_view path);

}  // namespace evenkeel
