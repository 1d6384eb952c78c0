#include "sim/engine_errors.h"

#include <fmt/format.h>

#include "evenkeel/http/status.h"
#include "evenkeel/json/writer.h"

namespace evenkeel {

std::string_view vllm_error_type(int status) {
  switch (status) {
    case 400: return "BadRequestError";
    case 404: return "NotFoundError";
    case 422: return "UnprocessableEntityError";
    case 501: return "NotImplementedError";
    default: return status >= 500 ? "InternalServerError" : phrase_of(status);
  }
}

std::string error_param(const ApiError& error) {
  return error.param.empty() ? "null" : json_string(error.param);
}

std::string openai_error_body(const ApiError& error) {
  return fmt::format(R"({{"error":{{"message":{},"type":"{}","param":{},"code":{}}}}})",
                     json_string(error.message), vllm_error_type(error.status), error_param(error),
                     error.status);
}

}  // namespace evenkeel
