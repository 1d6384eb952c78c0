#include "evenkeel/upstream/poll_record.h"

namespace evenkeel {

std::string_view to_string(PollRecord::State state) {
  switch (state) {
    case PollRecord::State::waiting: return "waiting";
    case PollRecord::State::fresh: return "fresh";
    case PollRecord::State::failing: return "failing";
    case PollRecord::State::resting: return "resting";
    case PollRecord::State::silent: return "silent";
  }
  return "silent";
}

}  // namespace evenkeel
