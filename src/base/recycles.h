// Whether freed blocks and objects are cached for their next use.
#pragma once

namespace evenkeel {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool recycles = false;  // the sanitizer must see every free
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr bool recycles = false;
#else
constexpr bool recycles = true;
#endif
#else
constexpr bool recycles = true;
#endif

}  // namespace evenkeel
