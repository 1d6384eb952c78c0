// The rules of other routers that can be replayed, by name.
#pragma once

#include <string_view>
#include <vector>

#include "evenkeel/base/clock.h"
#include "evenkeel/replay/replay.h"

namespace evenkeel::bench {

struct Rival {
  std::string_view name;
  Duration poll_interval;  ///< of the reports of the engines, as far as it reads them
  DispatcherMaker make;
};

const std::vector<Rival>& rivals();

/// Null: there is none.
const Rival* find_rival(std::string_view name);

}  // namespace evenkeel::bench
