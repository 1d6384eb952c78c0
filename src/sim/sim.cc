#include "evenkeel/sim/sim.h"

#include <cstdio>
#include <optional>
#include <vector>

#include "evenkeel/base/descriptor_limit.h"
#include "evenkeel/base/termination_signals.h"
#include "evenkeel/sim/simulators.h"

namespace evenkeel {
namespace {

int usage_error(const std::string& what) {
  std::fprintf(stderr, "error: %s\n", what.c_str());
  return 2;
}

std::optional<std::string> invalid_batching(const BatchingSpec& batching) {
  if (batching.instances == 0) return "--instances: expected at least 1";
  if (batching.max_queue_delay < Duration::zero()) return "--max-queue-delay: expected 0 or more";
  for (const std::uint32_t size : batching.preferred_sizes) {
    if (size == 0 || size > batching.max_batch_size) {
      return "--preferred-batch: " + std::to_string(size) + " is not between 1 and the " +
             std::to_string(batching.max_batch_size) + " of --max-batch";
    }
  }
  if (!(batching.batch_seconds >= 0 && batching.item_seconds >= 0)) {
    return "--compute: expected 0 or more";
  }
  return std::nullopt;
}

std::optional<std::string> invalid_adapters(const SimulatorOptions& options) {
  const AdaptersSpec& adapters = options.adapters;
  if (!adapters.names.empty() && options.engine != "vllm") return "--lora: only with vllm";
  if (adapters.slots == 0) return "--max-loras: expected at least 1";
  for (const std::string& name : adapters.names) {
    if (name.empty() || name.find(',') != std::string::npos) {
      return "--lora: expected a name without commas";
    }
  }
  return std::nullopt;
}

std::optional<std::string> invalid(const SimOptions& options, const Address& listen) {
  const SimulatorOptions& server = options.server;
  if (options.count == 0) return "--count: expected at least 1";
  if (!(server.speed > 0)) return "--speed: expected more than 0";
  if (auto wrong = invalid_batching(server.batching)) return wrong;
  if (auto wrong = invalid_adapters(server)) return wrong;
  if (listen.port != 0 && listen.port + options.count - 1 > 65'535) {
    return "--count: not enough ports above that of --listen";
  }
  return std::nullopt;
}

}  // namespace

int run_sim(const SimOptions& options) {
  std::string why;
  const auto listen = parse_address(options.listen, why);
  if (!listen) return usage_error("--listen: " + why);
  const auto control = parse_address(options.control, why);
  if (!control) return usage_error("--control: " + why);
  if (const auto wrong = invalid(options, *listen)) return usage_error(*wrong);

  std::vector<SimulatorOptions> servers(options.count, options.server);
  for (unsigned i = 0; i < options.count; ++i) {
    servers[i].name = "sim-" + std::to_string(i);
    servers[i].listen = *listen;
    if (listen->port != 0) servers[i].listen.port = static_cast<std::uint16_t>(listen->port + i);
  }

  raise_descriptor_limit();
  const TerminationSignals interrupts;  // before any thread starts: threads inherit its mask
  auto simulators = Simulators::start(servers, options.threads, control);
  if (!simulators) {
    std::fprintf(stderr, "error: %s\n", simulators.error().detail.c_str());
    return 1;
  }
  for (unsigned i = 0; i < options.count; ++i) {
    std::fprintf(stderr, "listening name=%s address=%s engine=%s preset=%s\n",
                 servers[i].name.c_str(), (*simulators)->endpoints()[i].text().c_str(),
                 options.server.engine.c_str(), options.server.preset.c_str());
  }
  std::fprintf(stderr, "listening name=sim-control address=%s\n",
               (*simulators)->control()->text().c_str());
  std::fprintf(stderr, "ready\n");
  std::fflush(stderr);

  const int fd = interrupts.fd();
  while (wait_any_readable({&fd, 1}, never) < 0) {
  }
  return 0;
}

}  // namespace evenkeel
