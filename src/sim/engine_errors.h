// The shapes of OpenAI-style errors that several engines share.
#pragma once

#include <string>

#include "sim/engine_api.h"

namespace evenkeel {

/// vLLM's error types: "BadRequestError", ... by status.
std::string_view vllm_error_type(int status);
/// {"error": {"message", "type", "param", "code"}}, as OpenAI and vLLM have it.
std::string openai_error_body(const ApiError& error);
/// The parameter that is wrong, as JSON.
std::string error_param(const ApiError& error);

}  // namespace evenkeel
