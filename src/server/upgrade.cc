#include "server/upgrade.h"

#include <fmt/core.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <utility>

#include "evenkeel/base/log.h"
#include "evenkeel/state/saved_schedulers.h"

namespace evenkeel {
namespace {

/// How long the process that replaces this one may take to become ready.
constexpr Duration max_upgrade_time = std::chrono::seconds(60);

}  // namespace

std::string takeover_obstacle(const Program& program) {
  if (program.path.empty()) return "it needs a daemon that was started by `run -c FILE`";
  if (getpid() == 1)
    return "this is process 1 of a container, which would end with it: start another one";
  return "";
}

Task<Result<Done>> Upgrade::start_successor(Binary binary, int admin_fd) {
  const std::string obstacle = takeover_obstacle(program_);
  if (!obstacle.empty())
    co_return Error{.fault = Fault::internal, .side = Side::proxy, .detail = obstacle};
  Program program = program_;
  if (binary == Binary::running) program.path = "/proc/self/exe";
  std::string state = co_await collect_state();
  if (cancelled_) {
    co_return Error{
        .fault = Fault::internal, .side = Side::proxy, .detail = "the daemon is shutting down"};
  }
  successor_.emplace(loop_);
  const Handover given = handover(admin_fd, std::move(state));
  auto started = co_await successor_->start(program, given, loop_.now() + max_upgrade_time);
  co_return started;
}

void Upgrade::cancel() {
  cancelled_ = true;
  if (successor_) successor_->cancel();
}

void Upgrade::pass_on_reload() const {
  const pid_t pid = successor_->pid();
  if (successor_->send(SIGHUP)) {
    log::reload.info(fmt::format("reload passed on to process {}, which has taken over", pid));
  } else {
    log::reload.warning(
        fmt::format("not reloaded: process {}, which had taken over, has ended", pid));
  }
}

/// Prefix indexes are large: what has to be copied and written is done beside the control loop.
Task<std::string> Upgrade::collect_state() {
  const auto state = std::make_shared<SavedState>(reloader_.saved_state());
  auto copy = [state, pool_set = reloader_.pool_set(), now = Clock::now()] {
    add_schedulers(*state, *pool_set, max_saved_prefixes, now);
  };
  co_await reloader_.run_with_locks(std::move(copy));
  auto write = [state] { return to_bytes(*state); };
  std::string bytes = co_await reloader_.run_blocking(std::move(write));
  co_return bytes;
}

Handover Upgrade::handover(int admin_fd, std::string state) const {
  Handover handover{.listeners = {}, .state = std::move(state)};
  for (const OpenListener& each : reloader_.listener_set().open())
    handover.listeners.push_back({.name = each.name, .address = each.address, .fds = each.fds});
  handover.listeners.push_back(
      {.name = "admin", .address = reloader_.config().admin.address, .fds = {admin_fd}});
  return handover;
}

}  // namespace evenkeel
