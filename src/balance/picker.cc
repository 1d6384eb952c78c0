#include "evenkeel/balance/picker.h"

#include <utility>

#include "balance/pickers.h"

namespace evenkeel {
namespace {

struct Registered {
  std::string_view name;
  PickerMaker (*maker)(PickerSetup setup);
};

#define EVENKEEL_REGISTER(name, maker) Registered{name, &pickers::maker},
constexpr Registered registered[] = {EVENKEEL_PICKERS(EVENKEEL_REGISTER)};
#undef EVENKEEL_REGISTER

}  // namespace

PickerMaker picker_maker(std::string_view name, PickerSetup setup) {
  for (const auto& picker : registered) {
    if (picker.name == name) return picker.maker(std::move(setup));
  }
  return {};
}

std::unique_ptr<Picker> make_picker(std::string_view name, PickerSetup setup, std::uint64_t seed) {
  const PickerMaker make = picker_maker(name, std::move(setup));
  return make ? make(seed) : nullptr;
}

std::vector<std::string_view> known_pickers() {
  std::vector<std::string_view> names;
  for (const auto& picker : registered) names.push_back(picker.name);
  return names;
}

}  // namespace evenkeel
