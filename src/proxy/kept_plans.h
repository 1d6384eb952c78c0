// What a request keeps while it is on its way.
#pragma once

#include <array>
#include <memory>
#include <utility>

namespace evenkeel {

/// The request keeps this too: it points into it, or is on its way through its filters.
inline void keep_too(std::shared_ptr<const void>& kept, std::shared_ptr<const void> more) {
  if (kept == nullptr) {
    kept = std::move(more);
  } else {
    using Both = std::array<std::shared_ptr<const void>, 2>;
    kept = std::make_shared<Both>(Both{std::move(kept), std::move(more)});
  }
}

}  // namespace evenkeel
