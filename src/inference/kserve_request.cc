#include "evenkeel/inference/kserve_request.h"

#include "inference/json_reader.h"

namespace evenkeel {
namespace {

using simdjson::ondemand::json_type;
using simdjson::ondemand::value;

std::uint64_t count_elements(value data) {
  if (data.type() != json_type::array) {
    json::skip_value(data);
    return 1;
  }
  std::uint64_t count = 0;
  for (auto element : data.get_array()) count += count_elements(element.value());
  return count;
}

/// The text of an array; checks it and counts its elements.
std::string array_text(value field, std::string_view key, std::uint64_t& elements) {
  if (field.type() != json_type::array) {
    throw json::InvalidValue{"'" + std::string(key) + "' should be an array"};
  }
  simdjson::ondemand::array array = field.get_array();
  std::string_view text = array.raw_json();
  while (!text.empty() && static_cast<unsigned char>(text.back()) <= ' ') text.remove_suffix(1);
  array.reset();
  elements = 0;
  for (auto element : array) elements += count_elements(element.value());
  return std::string(text);
}

KserveTensor read_tensor(value input) {
  if (input.type() != json_type::object) {
    throw json::InvalidValue{"'inputs': each should be an object"};
  }
  KserveTensor tensor;
  std::uint64_t dimensions = 0;
  for (auto field : input.get_object()) {
    const std::string_view key = field.unescaped_key();
    value item = field.value().value();
    if (key == "name") {
      tensor.name = json::string_of(item, key);
    } else if (key == "datatype") {
      tensor.datatype = json::string_of(item, key);
    } else if (key == "shape") {
      tensor.shape = array_text(item, key, dimensions);
    } else if (key == "data") {
      tensor.data = array_text(item, key, tensor.elements);
    } else {
      json::skip_value(item);
    }
  }
  if (tensor.name.empty()) throw json::InvalidValue{"'inputs': an input has no name"};
  if (tensor.data.empty()) {
    throw json::InvalidValue{"input '" + tensor.name +
                             "' has no data; binary data is not read here"};
  }
  return tensor;
}

}  // namespace

Result<KserveInferRequest> parse_kserve_infer(std::string& body) {
  KserveInferRequest request;
  auto read = json::read_object(body, [&](std::string_view key, value field) {
    if (key == "id") {
      request.id = json::string_of(field, key);
    } else if (key == "inputs") {
      if (field.type() != json_type::array) throw json::InvalidValue{"'inputs' should be an array"};
      for (auto input : field.get_array()) request.inputs.push_back(read_tensor(input.value()));
    } else {
      json::skip_value(field);
    }
  });
  if (!read) return std::move(read.error());
  if (request.inputs.empty()) return json::bad_json("the request has no inputs");
  return request;
}

Result<KserveGenerateRequest> parse_kserve_generate(std::string& body) {
  KserveGenerateRequest request;
  bool has_text = false;
  const auto read_field = [&](std::string_view key, value field) {
    if (key == "text_input") {
      request.text_input = json::string_of(field, key);
      has_text = true;
    } else if (key == "max_tokens") {
      request.max_tokens = json::count_of(field, key, 1);
    } else if (key == "stream") {
      request.stream = json::bool_of(field, key);
    } else {
      json::skip_value(field);
    }
  };
  auto read = json::read_object(body, [&](std::string_view key, value field) {
    if (key != "parameters" || field.type() != json_type::object) {
      read_field(key, field);
      return;
    }
    for (auto parameter : field.get_object()) {
      const std::string_view name = parameter.unescaped_key();
      read_field(name, parameter.value().value());
    }
  });
  if (!read) return std::move(read.error());
  if (!has_text) return json::bad_json("the request has no 'text_input'");
  return request;
}

}  // namespace evenkeel
