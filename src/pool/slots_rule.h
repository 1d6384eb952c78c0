// The rule by which requests wait for a free slot on any of their backends.
#pragma once

#include <cstddef>

#include "evenkeel/backend/shared_backend.h"
#include "pool/admission_rule.h"

namespace evenkeel {

class Admission;
struct SubsetQueue;

/// A slot that becomes free goes to the first request, over all workers and versions of the pool,
/// that may use it.
class SlotsRule final : public AdmissionRule {
 public:
  explicit SlotsRule(Admission& admission) : admission_(admission) {}

  void arrive(AdmissionTicket& ticket, Picker* picker, Instant now) override;
  void leave(AdmissionTicket&, bool, Instant) override {}
  void recheck(AdmissionTicket& ticket, Instant now) override;
  /// Grants the free slots of a backend in order.
  void offer(const SharedBackend& shared, Instant now);

 private:
  class Order;

  void look_everywhere(AdmissionTicket& ticket, Instant now);

  Admission& admission_;
};

}  // namespace evenkeel
