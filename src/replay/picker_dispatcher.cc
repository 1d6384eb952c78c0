#include "replay/picker_dispatcher.h"

#include <algorithm>
#include <cassert>
#include <string>

namespace evenkeel {

PickerDispatcher::PickerDispatcher(std::string_view picker, const ReplayOptions& options,
                                   RequestSink& sink)
    : backends_(std::make_shared<Backends>()),
      keyed_by_client_(picker == "consistent-hash"),
      sink_(sink) {
  for (std::uint32_t i = 0; i < options.backends; ++i) {
    const std::string id = "backend-" + std::to_string(i);
    backends_->push_back(std::make_shared<Backend>(BackendSpec{.id = id, .address = id}));
  }
  picker_ =
      make_picker({.backends = backends_, .choice = {.name = std::string(picker)}}, options.seed);
}

void PickerDispatcher::arrived(ReplayedRequest& request, Instant now) {
  Hint hint{.now = now};
  const auto& blocks = request.blocks;
  if (!keyed_by_client_) {
    hint.key = picker_->key_of({.blocks = blocks});
  } else if (!blocks.empty()) {
    // As a hash of the system prompt and what follows it: the first block is often the same for
    // all.
    hint.key = blocks[std::min<std::size_t>(1, blocks.size() - 1)];
  }
  const BackendPtr* const picked = picker_->pick(hint);
  assert(picked != nullptr);  // no backend has a limit or fails
  (*picked)->try_acquire(now);
  sink_.send(request, static_cast<std::uint32_t>(picked - backends_->data()));
}

void PickerDispatcher::first_token(ReplayedRequest& request, Instant now) {
  if (request.streams) {
    backend_of(request).stats().record_first_byte(now - request.sent_at, now);
  }
}

void PickerDispatcher::finished(ReplayedRequest& request, Instant now) {
  const Backend& backend = backend_of(request);
  if (!request.streams) backend.stats().record_first_byte(now - request.sent_at, now);
  backend.stats().record_served(now - request.sent_at, now);
  backend.record_outcome({.status = 200, .sent = request.sent_at}, now);
  backend.release();
}

void PickerDispatcher::polled(std::uint32_t backend, const LoadSample& report, Instant now) {
  SharedBackend& shared = (*backends_)[backend]->shared();
  shared.signals.publish(report, now, shared.slots.in_flight());
}

}  // namespace evenkeel
