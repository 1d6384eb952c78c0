// A backend's error answer that is kept while another backend is tried.
#pragma once

#include "evenkeel/base/loop.h"
#include "evenkeel/http/message.h"

namespace evenkeel {

/// Reads an answer's body to its end and makes the answer independent of its link, which may then
/// serve other requests. False: the body is longer or slower than that of an error; `response` then
/// still yields all of it. REQUIRES: `response` outlives the task.
Task<bool> detach_answer(Loop& loop, Response& response);

}  // namespace evenkeel
