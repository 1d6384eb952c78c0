// A KServe v2 (Open Inference Protocol) request in JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "evenkeel/base/result.h"

namespace evenkeel {

/// An input tensor; shape and data stay JSON.
struct KserveTensor {
  std::string name;
  std::string datatype;
  std::string shape;           ///< "[1, 16]"
  std::string data;            ///< "[0.1, ...]", as written
  std::uint64_t elements = 0;  ///< of `data`, nested arrays included
};

struct KserveInferRequest {
  std::string id;
  std::vector<KserveTensor> inputs;
};

/// Triton's generate extension.
struct KserveGenerateRequest {
  std::string text_input;
  std::optional<std::uint32_t> max_tokens;
  bool stream = false;
};

/// Errors: bad_request, with what is wrong. `body` grows by the padding that the parser reads into.
Result<KserveInferRequest> parse_kserve_infer(std::string& body);
Result<KserveGenerateRequest> parse_kserve_generate(std::string& body);

}  // namespace evenkeel
