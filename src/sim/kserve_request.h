// A KServe v2 (Open Inference Protocol) request in JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/result.h"

namespace evenkeel {

/// An input tensor; shape and data stay JSON.
struct KserveTensor {
  std::string name;
  std::string datatype;
  std::string shape;           ///< "[1, 16]"
  std::string data;            ///< "[0.1, ...]", numbers as written
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

/// The output of the identity model for an input: INPUT0 becomes OUTPUT0; other names stay.
std::string output_name(std::string input);

/// Errors: bad_request, with what is wrong.
Result<KserveInferRequest> parse_kserve_infer(std::string_view body);
Result<KserveGenerateRequest> parse_kserve_generate(std::string_view body);

}  // namespace evenkeel
