// Parameters of tests that run once for every picker.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/picker/picker.h"

namespace evenkeel::testing {

inline auto every_picker() {
  return ::testing::ValuesIn(
      std::vector<std::string_view>(picker_names().begin(), picker_names().end()));
}

/// The picker's name as a part of the test's name.
inline std::string picker_test_name(const ::testing::TestParamInfo<std::string_view>& instance) {
  std::string name(instance.param);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

}  // namespace evenkeel::testing
