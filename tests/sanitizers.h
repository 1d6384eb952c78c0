// Whether this build has an allocator of a sanitizer, which needs descriptors and recycles no
// memory at once: EVENKEEL_SANITIZED.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define EVENKEEL_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define EVENKEEL_SANITIZED
#endif
#endif
