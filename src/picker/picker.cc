#include "evenkeel/picker/picker.h"

#include <utility>

#include "picker/pickers.h"

namespace evenkeel {
namespace {

struct Registered {
  std::string_view name;
  PickerFactory (*factory)(PickerOptions options);
};

#define EVENKEEL_REGISTER(name, factory) Registered{name, &pickers::factory},
constexpr Registered registered[] = {EVENKEEL_PICKERS(EVENKEEL_REGISTER)};
#undef EVENKEEL_REGISTER

}  // namespace

PickerFactory picker_factory(PickerOptions options) {
  for (const auto& picker : registered) {
    if (picker.name == options.choice.name) return picker.factory(std::move(options));
  }
  return {};
}

std::unique_ptr<Picker> make_picker(PickerOptions options, std::uint64_t seed) {
  const PickerFactory make = picker_factory(std::move(options));
  return make ? make(seed) : nullptr;
}

}  // namespace evenkeel
