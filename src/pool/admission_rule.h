// Which of the requests that wait for a pool starts, and where.
#pragma once

#include "evenkeel/base/clock.h"
#include "evenkeel/picker/picker.h"

namespace evenkeel {

struct AdmissionTicket;

/// Starts waiting requests (Admission::start): SlotsRule those that need a slot only, PoolScheduler
/// those whose costs are predicted.
///
/// Thread: any, under the lock of the Admission.
class AdmissionRule {
 public:
  virtual ~AdmissionRule() = default;
  /// The request has come to its queue, and is counted there. Starts or refuses it if that can be
  /// said now. `picker`: of its worker; null: it comes from another version of the pool.
  virtual void arrive(AdmissionTicket& ticket, Picker* picker, Instant now) = 0;
  /// The request leaves its queue without having started. `moves`: to another version of the pool.
  virtual void leave(AdmissionTicket& ticket, bool moves, Instant now) = 0;
  /// Looks for what the request can start on by now although no event has told so, as when a
  /// back-off ends.
  virtual void recheck(AdmissionTicket& ticket, Instant now) = 0;
};

}  // namespace evenkeel
