// Requests sent at once to the backend that a picker chooses.
#pragma once

#include <memory>
#include <string_view>

#include "evenkeel/picker/picker.h"
#include "evenkeel/replay/dispatcher.h"
#include "evenkeel/replay/replay.h"

namespace evenkeel {

class PickerDispatcher final : public ImmediateDispatcher {
 public:
  PickerDispatcher(std::string_view picker, const ReplayOptions& options, RequestSink& sink);

  void arrived(ReplayedRequest& request, Instant now) override;
  void first_token(ReplayedRequest& request, Instant now) override;
  void finished(ReplayedRequest& request, Instant now) override;
  void polled(std::uint32_t backend, const LoadSample& report, Instant now) override;

 private:
  const Backend& backend_of(const ReplayedRequest& request) const {
    return *(*backends_)[request.backend];
  }

  std::shared_ptr<Backends> backends_;
  std::unique_ptr<Picker> picker_;
  bool keyed_by_client_;  // by a header field
  RequestSink& sink_;
};

}  // namespace evenkeel
