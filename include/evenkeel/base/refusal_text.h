// What to say where the kernel refuses a system call.
#pragma once

#include <string>
#include <string_view>

namespace evenkeel {

/// "epoll_ctl: No space left on device; raise the sysctl fs.epoll.max_user_watches": with the cure
/// where a limit is the cause. `what` may be empty.
std::string refusal_text(std::string_view what, int error);

}  // namespace evenkeel
