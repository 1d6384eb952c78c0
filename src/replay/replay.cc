#include "evenkeel/replay/replay.h"

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <utility>

#include "evenkeel/base/hash.h"
#include "evenkeel/base/rng.h"
#include "evenkeel/picker/picker.h"
#include "evenkeel/replay/replay.h"
#include "replay/picker_dispatcher.h"
#include "replay/report.h"
#include "replay/scheduler_dispatcher.h"
#include "replay/virtual_fleet.h"

namespace evenkeel {
namespace {

constexpr std::string_view scheduler_name = "expected-time";
// Virtual time does not begin at 0, which means "not yet" in a backend's counters.
constexpr Instant start{std::chrono::hours(1)};

using Requests = std::vector<std::unique_ptr<ReplayedRequest>>;

/// Spreads rows with equal time stamps over the time to the next one, at random: recorders that
/// write every few seconds hide when requests came.
void spread(std::vector<TraceRow>& rows, Rng& rng) {
  Duration gap = std::chrono::seconds(3);
  for (std::size_t begin = 0; begin < rows.size();) {
    std::size_t end = begin;
    while (end < rows.size() && rows[end].due == rows[begin].due) ++end;
    if (end < rows.size()) gap = rows[end].due - rows[begin].due;
    const bool shared = end - begin > 1;
    for (std::size_t i = begin; shared && i < end; ++i) {
      rows[i].due +=
          Duration(static_cast<Duration::rep>(rng.unit() * static_cast<double>(gap.count())));
    }
    begin = end;
  }
  std::sort(rows.begin(), rows.end(),
            [](const TraceRow& a, const TraceRow& b) { return a.due < b.due; });
}

/// The engine's blocks are smaller than the trace's.
std::vector<std::uint64_t> engine_blocks(const TraceRow& row, const EngineSpec& engine) {
  std::vector<std::uint64_t> hashes;
  const std::uint32_t full = row.prompt_tokens / engine.block_tokens;
  hashes.reserve(full);
  for (std::uint32_t i = 0; i < full; ++i) {
    const std::size_t block = std::size_t{i} * engine.block_tokens / trace_block_tokens;
    if (block >= row.block_ids.size()) break;
    const std::uint32_t within = i % std::max(trace_block_tokens / engine.block_tokens, 1u);
    hashes.push_back(hash_of(row.block_ids[block], within));
  }
  return hashes;
}

/// A request whose prompt goes on from all whole blocks of an earlier one's is of its session. The
/// first block alone, which may be that of all, begins none.
void name_sessions(Requests& requests) {
  std::unordered_map<std::uint64_t, std::uint64_t> sessions;  // by the last whole block
  std::uint64_t count = 0;
  for (const auto& request : requests) {
    const std::size_t whole =
        std::min<std::size_t>(request->prompt_tokens / trace_block_tokens, request->blocks.size());
    for (std::size_t i = whole; i > 1 && request->session == 0; --i) {
      const auto found = sessions.find(request->blocks[i - 1]);
      if (found != sessions.end()) request->session = found->second;
    }
    if (request->session == 0) request->session = ++count;
    if (whole > 1) sessions[request->blocks[whole - 1]] = request->session;
  }
}

Requests requests_of(const Trace& trace, const ReplayOptions& options) {
  Rng rng(options.seed);
  std::vector<TraceRow> rows = trace.rows;
  if (trace.quantised && !options.bursts) spread(rows, rng);
  Requests requests;
  const Duration first = rows.front().due;
  for (TraceRow& row : rows) {
    const Duration due = std::chrono::duration_cast<Duration>((row.due - first) / options.speed);
    if (options.max_time && due >= *options.max_time) break;
    auto request = std::make_unique<ReplayedRequest>();
    request->due = start + due;
    request->prompt_tokens = std::max(row.prompt_tokens, 1u);
    request->output_tokens = std::max(row.output_tokens, 1u);
    request->block_hashes = engine_blocks(row, options.engine);
    request->blocks = std::move(row.block_ids);
    request->tenant = hash_of(row.tenant);
    request->streams = rng.unit() >= options.unstreamed_ratio;
    requests.push_back(std::move(request));
  }
  if (options.sessions) name_sessions(requests);
  return requests;
}

/// Removes requests that the engine would refuse, because they cannot fit. Returns how many.
std::size_t drop_too_large(Requests& requests, const EngineSpec& engine) {
  const std::uint32_t max_tokens = StepEngine(engine).max_tokens();
  return std::erase_if(requests, [max_tokens](const std::unique_ptr<ReplayedRequest>& request) {
    return request->prompt_tokens >= max_tokens;
  });
}

}  // namespace

ReplayRow replay(const Trace& trace, const ReplayOptions& options, std::string_view picker) {
  return replay(
      trace, options, picker,
      [picker](const ReplayOptions& of_replay, RequestSink& sink) -> std::unique_ptr<Dispatcher> {
        if (picker == scheduler_name) {
          return std::make_unique<SchedulerDispatcher>(of_replay, sink);
        }
        return std::make_unique<PickerDispatcher>(picker, of_replay, sink);
      });
}

ReplayRow replay(const Trace& trace, const ReplayOptions& options, std::string_view name,
                 const DispatcherMaker& make_dispatcher) {
  Requests requests = requests_of(trace, options);
  const std::size_t left_out = drop_too_large(requests, options.engine);
  if (requests.empty()) {
    return {.picker = std::string(name), .backends = options.backends, .left_out = left_out};
  }
  VirtualFleet fleet(options, requests, make_dispatcher);
  const Instant end = fleet.run();
  ReplayRow row = report(options, name, requests, fleet.engines(), end - requests.front()->due);
  row.left_out = left_out;
  return row;
}

std::optional<ReplayRow> replay_with_fewest_backends(const Trace& trace, ReplayOptions options,
                                                     std::string_view picker, double goodput_ratio,
                                                     std::uint32_t max_backends) {
  const auto with = [&](std::uint32_t backends) {
    options.backends = backends;
    return replay(trace, options, picker);
  };
  std::uint32_t too_few = 0;
  std::uint32_t tried = 1;
  std::optional<ReplayRow> enough;
  while (!enough) {
    ReplayRow row = with(tried);
    if (row.goodput_ratio >= goodput_ratio) {
      enough = std::move(row);
    } else if (tried == max_backends) {
      return std::nullopt;
    } else {
      too_few = tried;
      tried = std::min(2 * tried, max_backends);
    }
  }
  while (enough->backends - too_few > 1) {
    const std::uint32_t middle = (too_few + enough->backends) / 2;
    ReplayRow row = with(middle);
    if (row.goodput_ratio >= goodput_ratio) {
      enough = std::move(row);
    } else {
      too_few = middle;
    }
  }
  return enough;
}

}  // namespace evenkeel
