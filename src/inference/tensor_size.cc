#include "inference/tensor_size.h"

#include "evenkeel/inference/kserve_grpc.h"

namespace evenkeel {

void TensorSize::clear(Slot slot) {
  switch (slot) {
    case Slot::tensor: *this = {}; break;
    case Slot::datatype: element_bytes_ = 0; break;
    case Slot::shape:
      elements_ = 1;
      has_shape_ = false;
      shape_is_valid_ = true;
      break;
    case Slot::data: text_bytes_ = 0; break;
    case Slot::tensor_parameters:
    case Slot::binary_data_size: binary_bytes_.reset(); break;
    default: break;
  }
}

void TensorSize::set_datatype(std::string_view name) {
  element_bytes_ = element_bytes(name).value_or(0);
}

void TensorSize::set(Slot slot, const json::Number& number) {
  const bool count = number.integer && !number.negative;
  if (slot == Slot::binary_data_size && count) binary_bytes_ = number.magnitude;
  if (slot != Slot::shape) return;
  has_shape_ = true;
  if (!count || __builtin_mul_overflow(elements_, number.magnitude, &elements_)) {
    shape_is_valid_ = false;
  }
}

std::uint64_t TensorSize::bytes() const {
  if (binary_bytes_) return *binary_bytes_;
  std::uint64_t bytes = 0;
  const bool fixed = element_bytes_ > 0 && has_shape_ && shape_is_valid_ &&
                     !__builtin_mul_overflow(elements_, element_bytes_, &bytes);
  return fixed ? bytes : text_bytes_;
}

}  // namespace evenkeel
