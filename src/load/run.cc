#include "evenkeel/load/run.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "evenkeel/base/descriptor_limit.h"

namespace evenkeel {
namespace {

constexpr unsigned max_threads = 256;

Error invalid(std::string why) {
  return Error{.fault = Fault::bad_request, .side = Side::proxy, .detail = std::move(why)};
}

/// The requests of the trace that the options keep.
Result<Trace> load_trace(const LoadOptions& options) {
  auto trace = read_trace(options.trace);
  if (!trace) return trace;
  if (trace->quantised && !options.trace_bursts) spread_bursts(trace->rows);
  if (options.trace_cut > Duration::zero()) {
    std::erase_if(trace->rows, [&](const TraceRow& row) { return row.due >= options.trace_cut; });
    if (trace->rows.empty()) {
      return invalid(options.trace + ": no requests in the part that --trace-cut keeps");
    }
  }
  return trace;
}

}  // namespace

Result<LoadOptions> resolve_options(LoadOptions options) {
  const bool by_rate = options.rate != 0;
  const bool by_trace = !options.trace.empty();
  if (by_rate + by_trace + (options.concurrency != 0) > 1) {
    return invalid("expected one of --rate, --concurrency and --trace");
  }
  if (by_rate && !(options.rate > 0 && options.rate <= 1e6)) {
    return invalid("--rate: expected up to 1000000 requests per second");
  }
  if (options.poisson && !by_rate) return invalid("--poisson: expected with --rate");
  if (!(options.trace_speed > 0)) return invalid("--trace-speed: expected more than 0");
  if (options.has_targets() && !options.stream) {
    return invalid("--ttft-slo, --tpot-slo: expected with --stream");
  }
  if (options.threads < 1 || options.threads > max_threads) {
    return invalid("--threads: expected 1 to " + std::to_string(max_threads));
  }
  if (!by_rate && !by_trace && options.concurrency == 0) options.concurrency = 8;
  if (!by_trace && options.duration == Duration::zero() && options.requests == 0) {
    options.duration = std::chrono::seconds(10);
  }
  return options;
}

Result<std::unique_ptr<LoadRun>> LoadRun::start(const LoadOptions& options) {
  raise_descriptor_limit();  // an open loop opens a connection whenever none is idle
  const int done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (done_fd < 0) return invalid(std::string("eventfd: ") + std::strerror(errno));
  std::unique_ptr<LoadRun> run(new LoadRun(done_fd));
  LoadPlan& plan = run->plan_;
  plan.options = options;

  auto target = resolve_target(options.url);
  if (!target) return std::move(target.error());
  plan.target = std::move(*target);

  if (!options.trace.empty()) {
    auto trace = load_trace(options);
    if (!trace) return std::move(trace.error());
    plan.trace = std::move(*trace);
  }

  std::string model = options.model;
  if (model.empty()) model = discover_model(plan.target, options.headers);
  if (model.empty()) model = "default";
  plan.generator = std::make_unique<RequestGenerator>(
      plan.options, model, plan.trace.rows.empty() ? nullptr : &plan.trace);

  run->start_workers();
  return run;
}

void LoadRun::start_workers() {
  const unsigned threads = plan_.options.threads;
  for (unsigned i = 0; i < threads; ++i) {
    workers_.push_back(std::make_unique<LoadWorker>(plan_, i));
  }
  running_.store(threads, std::memory_order_relaxed);
  plan_.start = Clock::now();
  for (auto& worker : workers_) {
    threads_.emplace_back([this, mine = worker.get()] {
      mine->run();
      if (running_.fetch_sub(1, std::memory_order_relaxed) == 1) eventfd_write(done_fd_, 1);
    });
  }
}

LoadRun::LoadRun(int done_fd) : done_fd_(done_fd) {}

LoadRun::~LoadRun() {
  stop();
  workers_.clear();
  close(done_fd_);
}

unsigned LoadRun::in_flight() const {
  unsigned sum = 0;
  for (const auto& worker : workers_) sum += worker->in_flight();
  return sum;
}

LoadReport LoadRun::take_window() {
  LoadReport window;
  for (auto& worker : workers_) window.merge(worker->take_window());
  total_.merge(window);
  return window;
}

void LoadRun::stop() {
  for (auto& worker : workers_) worker->stop();
  for (auto& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace evenkeel
