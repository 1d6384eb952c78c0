#include "evenkeel/sim/simulators.h"

#include <unistd.h>

#include <algorithm>
#include <thread>

#include "evenkeel/base/loop.h"
#include "evenkeel/config/spelling.h"
#include "evenkeel/net/listener.h"
#include "evenkeel/sim/presets.h"
#include "sim/control_server.h"
#include "sim/simulated_server.h"

namespace evenkeel {
namespace {

Error refused(std::string detail) {
  return {.fault = Fault::internal, .detail = std::move(detail)};
}

Result<int> listen_on(const Address& address) {
  auto endpoints = resolve(address.host, address.port);
  if (!endpoints) return std::move(endpoints.error());
  // Listeners use SO_REUSEPORT, with which a port in use by another process would be shared, not an
  // error; so this tries to bind without it.
  const Endpoint& endpoint = endpoints->front();
  const int tried = socket(endpoint.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(tried, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const bool taken = bind(tried, endpoint.address(), endpoint.size) != 0;
  close(tried);
  if (taken) return refused("cannot listen on " + endpoint.text() + ": it is in use");
  return Listener::bind(endpoint);
}

}  // namespace

struct Simulators::Parts {
  std::vector<std::unique_ptr<Loop>> loops;
  std::vector<std::unique_ptr<SimulatedServer>> servers;
  std::unique_ptr<ControlServer> control;
  std::vector<std::thread> threads;
  std::vector<Endpoint> endpoints;
  std::optional<Endpoint> control_endpoint;

  ~Parts() {
    for (const auto& loop : loops) loop->stop();
    for (std::thread& thread : threads) thread.join();
    servers.clear();
    if (control) control->close();
    loops.clear();
  }
};

Simulators::Simulators(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Simulators::~Simulators() = default;
const std::vector<Endpoint>& Simulators::endpoints() const { return parts_->endpoints; }
std::optional<Endpoint> Simulators::control() const { return parts_->control_endpoint; }

Result<std::unique_ptr<Simulators>> Simulators::start(const std::vector<SimulatorOptions>& servers,
                                                      unsigned threads,
                                                      std::optional<Address> control) {
  auto parts = std::make_unique<Parts>();
  const auto most = static_cast<unsigned>(std::max<std::size_t>(1, servers.size()));
  for (unsigned i = 0; i < std::clamp(threads, 1u, most); ++i) {
    parts->loops.push_back(std::make_unique<Loop>());
  }
  for (const SimulatorOptions& options : servers) {
    const SimulatedEngine* engine = find_simulated_engine(options.engine);
    if (engine == nullptr) {
      return refused(to_string(unknown_word("engine", options.engine, simulated_engine_names())));
    }
    const Preset* preset = find_preset(options.preset);
    if (preset == nullptr) {
      return refused(to_string(unknown_word("preset", options.preset, preset_names())));
    }
    if (!(options.speed > 0)) return refused("speed: expected more than 0");
    auto fd = listen_on(options.listen);
    if (!fd) return std::move(fd.error());
    parts->endpoints.push_back(Listener::local_endpoint(*fd));
    Loop& loop = *parts->loops[parts->servers.size() % parts->loops.size()];
    parts->servers.push_back(
        std::make_unique<SimulatedServer>(loop, options, *preset, *engine, *fd));
  }
  if (control) {
    auto fd = listen_on(*control);
    if (!fd) return std::move(fd.error());
    parts->control_endpoint = Listener::local_endpoint(*fd);
    std::vector<SimulatedServer*> all;
    for (const auto& server : parts->servers) all.push_back(server.get());
    parts->control = std::make_unique<ControlServer>(*parts->loops.front(), std::move(all), *fd);
  }
  for (const auto& loop : parts->loops) {
    parts->threads.emplace_back([running = loop.get()] { running->run(); });
  }
  return std::unique_ptr<Simulators>(new Simulators(std::move(parts)));
}

}  // namespace evenkeel
