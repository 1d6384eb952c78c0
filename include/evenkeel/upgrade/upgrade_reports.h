// What a process that an upgrade has replaced and the one that has taken over report to each other
// until the first has ended.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "evenkeel/admin/runtime_status.h"
#include "evenkeel/base/loop.h"
#include "evenkeel/base/result.h"
#include "evenkeel/base/task.h"
#include "evenkeel/upstream/pool_set.h"

namespace evenkeel {

/// The backends that are drained here; the process before must not use them either. Those of
/// `before`, the last result, that the configuration no longer has remain.
ReplacedProcess::Backends drained_backends(const PoolSet& pool_set,
                                           const ReplacedProcess::Backends& before);

/// Drains these backends, and undrains those of `before`, the last report, that are no longer among
/// them. What no report has named stays as it is: the other process may not have it.
void apply_drains(const ReplacedProcess::Backends& drained, const ReplacedProcess::Backends& before,
                  const PoolSet& pool_set);

/// What is in flight here and in the process that this one has replaced in turn (`before`; null:
/// none). `drained`: here; the report names those that are drained there too.
ReplacedProcess report_in_flight(const PoolSet& pool_set, const ReplacedProcess* before,
                                 const ReplacedProcess::Backends& drained);

/// Writes a report as text, for the channel.
std::string to_text(const ReplacedProcess& report);
/// Errors: the other process is of a version with another format.
Result<ReplacedProcess> parse_report(std::string_view text);

/// Publishes what the process that this one has replaced reports, and reports to it what is
/// drained, until it ends. `runs`: it has not ended; one of a version without reports closes the
/// channel earlier. REQUIRES: `status` has a `replaced`. Thread: the loop's.
Task<void> follow_replaced_process(Loop& loop, int channel, std::function<bool()> runs,
                                   RuntimeStatusPublisher& status);

/// The other end of that, in the process that was replaced. Ends with the process that has taken
/// over. Thread: the loop's.
Task<void> report_to_successor(Loop& loop, int channel, RuntimeStatusPublisher& status);

}  // namespace evenkeel
