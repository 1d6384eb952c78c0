#include "inference/kserve_grpc_request.h"

#include <algorithm>

#include "evenkeel/inference/grpc_message.h"
#include "evenkeel/inference/kserve_grpc.h"
#include "evenkeel/json/text.h"

namespace evenkeel {
namespace {

// Protocol buffers, encoding: the lower three bits of a tag.
enum WireType : std::uint8_t { varint = 0, fixed_64 = 1, delimited = 2, fixed_32 = 5 };
constexpr int wire_type_bits = 3;

// Fields of ModelInferRequest and of its InferInputTensor (src/inference/proto/kserve.proto).
constexpr std::uint64_t model_name = 1, parameters = 4, inputs = 5, raw_input_contents = 7;
constexpr std::uint64_t tensor_datatype = 2, tensor_shape = 3, tensor_contents = 5;

// Names and parameters that are longer do not matter, nor do shapes of very many tensors.
constexpr std::uint64_t max_kept_field = 1024;
constexpr std::size_t max_kept = 16 * 1024;

void append_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

void append_delimited(std::string& out, std::uint64_t tag, std::string_view payload) {
  append_varint(out, tag);
  append_varint(out, payload.size());
  out += payload;
}

std::string session_of(const InferParameters& given) {
  const auto found = given.find("sequence_id");
  if (found == given.end()) return {};
  if (const auto* text = std::get_if<std::string>(&found->second)) {
    return std::string(json::utf8_prefix(*text, InferenceRequest::max_name));
  }
  if (const auto* number = std::get_if<std::int64_t>(&found->second)) {
    return *number > 0 ? std::to_string(*number) : std::string();
  }
  if (const auto* number = std::get_if<std::uint64_t>(&found->second)) {
    return *number > 0 ? std::to_string(*number) : std::string();
  }
  return {};
}

}  // namespace

bool KserveGrpcRequest::read(std::string_view bytes) {
  while (!bytes.empty() && phase_ != Phase::ended) {
    if (phase_ == Phase::payload) {
      read_payload(bytes);
      continue;
    }
    const char c = bytes.front();
    bytes.remove_prefix(1);
    if (phase_ == Phase::prefix) {
      read_prefix(c);
    } else {
      read_varint(c);
    }
  }
  return true;
}

bool KserveGrpcRequest::finish() {
  stop();
  return true;
}

void KserveGrpcRequest::stop() {
  if (settled_) return;
  settled_ = true;
  lost_ = lost_ || (phase_ == Phase::ended && !complete_);
  phase_ = Phase::ended;
  into_.complete = complete_;
  into_.tensor_bytes = raw_bytes_ > 0 ? raw_bytes_ : typed_bytes_;
  if (lost_) return;
  const auto request = decode_model_infer_request(request_.kept);
  if (!request) return;
  into_.model = json::utf8_prefix(request->model_name, InferenceRequest::max_name);
  into_.session = session_of(request->parameters);
  const auto start = request->parameters.find("sequence_start");
  const bool* const starts =
      start == request->parameters.end() ? nullptr : std::get_if<bool>(&start->second);
  into_.starts_sequence = starts != nullptr && *starts;
}

// A flag, which says whether the message is compressed, and its size in four bytes.
void KserveGrpcRequest::read_prefix(char c) {
  if (prefix_bytes_ == 0 && c != 0) {
    phase_ = Phase::ended;
    return;
  }
  request_.bytes_left = request_.bytes_left << 8 | static_cast<unsigned char>(c);
  if (++prefix_bytes_ < grpc_prefix_bytes) return;
  phase_ = Phase::tag;
  end_field();
}

void KserveGrpcRequest::consume(std::uint64_t count) {
  request_.bytes_left -= count;
  if (in_tensor_) tensor_.bytes_left -= count;
}

void KserveGrpcRequest::read_varint(char c) {
  constexpr int max_bits = 63;
  consume(1);
  varint_ |= static_cast<std::uint64_t>(c & 0x7f) << varint_bits_;
  varint_bits_ += 7;
  if ((c & 0x80) != 0) {
    if (varint_bits_ > max_bits || message().bytes_left == 0) phase_ = Phase::ended;
    return;
  }
  switch (phase_) {
    case Phase::tag: on_tag(); break;
    case Phase::length: on_length(); break;
    default: keep_field(); break;  // an integer
  }
  varint_ = 0;
  varint_bits_ = 0;
}

void KserveGrpcRequest::on_tag() {
  tag_ = varint_;
  use_ = Use::skip;
  switch (tag_ & ((1 << wire_type_bits) - 1)) {
    case varint: phase_ = Phase::integer; break;
    case delimited: phase_ = Phase::length; break;
    case fixed_64:
    case fixed_32:
      payload_left_ = (tag_ & 4) != 0 ? 4 : 8;
      phase_ = payload_left_ <= message().bytes_left ? Phase::payload : Phase::ended;
      return;
    default: phase_ = Phase::ended; return;
  }
  if (message().bytes_left == 0) phase_ = Phase::ended;
}

void KserveGrpcRequest::on_length() {
  if (varint_ > message().bytes_left) {
    phase_ = Phase::ended;
    return;
  }
  payload_left_ = varint_;
  const std::uint64_t field = tag_ >> wire_type_bits;
  if (!in_tensor_ && field == inputs) return begin_tensor();
  if (!in_tensor_ && field == raw_input_contents) raw_bytes_ += payload_left_;
  if (in_tensor_ && field == tensor_contents) contents_bytes_ += payload_left_;
  use_ = use_of(field);
  field_.clear();
  phase_ = Phase::payload;
  if (payload_left_ == 0) end_field();
}

KserveGrpcRequest::Use KserveGrpcRequest::use_of(std::uint64_t field) {
  const bool wanted = in_tensor_ ? field == tensor_datatype || field == tensor_shape
                                 : field == model_name || field == parameters;
  const bool fits = payload_left_ <= max_kept_field && message().kept.size() < max_kept;
  // A name that is not kept may replace the one that was.
  if (!in_tensor_ && field == model_name && !fits) lost_ = true;
  return wanted && fits ? Use::keep : Use::skip;
}

void KserveGrpcRequest::read_payload(std::string_view& bytes) {
  const std::size_t count = std::min<std::uint64_t>(payload_left_, bytes.size());
  if (use_ == Use::keep) field_ += bytes.substr(0, count);
  bytes.remove_prefix(count);
  payload_left_ -= count;
  consume(count);
  if (payload_left_ == 0) end_field();
}

// An integer ends: a dimension, unless the shape is packed.
void KserveGrpcRequest::keep_field() {
  const bool dimension = in_tensor_ && tag_ >> wire_type_bits == tensor_shape;
  if (dimension && tensor_.kept.size() < max_kept) {
    append_varint(tensor_.kept, tag_);
    append_varint(tensor_.kept, varint_);
  }
  use_ = Use::skip;
  end_field();
}

void KserveGrpcRequest::end_field() {
  if (use_ == Use::keep) append_delimited(message().kept, tag_, field_);
  use_ = Use::skip;
  phase_ = Phase::tag;
  if (in_tensor_ && tensor_.bytes_left == 0) end_tensor();
  if (request_.bytes_left > 0) return;
  complete_ = !in_tensor_;
  phase_ = Phase::ended;
}

void KserveGrpcRequest::begin_tensor() {
  in_tensor_ = true;
  tensor_.bytes_left = payload_left_;
  tensor_.kept.clear();
  contents_bytes_ = 0;
  end_field();
}

void KserveGrpcRequest::end_tensor() {
  in_tensor_ = false;
  std::string request;
  append_delimited(request, inputs << wire_type_bits | delimited, tensor_.kept);
  const auto decoded = decode_model_infer_request(request);
  if (!decoded || decoded->inputs.empty()) return;
  const InferTensor& tensor = decoded->inputs.front();
  const std::uint64_t element = element_bytes(tensor.datatype).value_or(0);
  const std::uint64_t elements = elements_of(tensor.shape).value_or(0);
  std::uint64_t bytes = 0;
  const bool fixed = element > 0 && !__builtin_mul_overflow(element, elements, &bytes);
  typed_bytes_ += fixed ? bytes : contents_bytes_;
}

}  // namespace evenkeel
