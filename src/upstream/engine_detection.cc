#include "upstream/engine_detection.h"

#include <algorithm>
#include <utility>

#include "evenkeel/base/log.h"

namespace evenkeel {
namespace {

/// Longest delay between two rounds for a server that shows no sign of any engine.
constexpr Duration max_interval = std::chrono::minutes(1);

/// A server that leaves some requests of a round unanswered counts as generic after this many
/// rounds in a row.
constexpr unsigned max_inconclusive_rounds = 3;

bool responded(const DetectionResult& result) {
  return result.outcome == DetectionResult::Outcome::answered ||
         result.outcome == DetectionResult::Outcome::not_http;
}

}  // namespace

EngineDetection::EngineDetection(Loop& loop, std::uint64_t seed, std::string name,
                                 DetectionSpec spec, ServerAccess access, Observer& observer)
    : loop_(loop),
      rng_(seed),
      name_(std::move(name)),
      spec_(spec),
      access_(std::move(access)),
      observer_(observer),
      wake_now_(loop) {}

void EngineDetection::update(DetectionSpec spec, ServerAccess access) {
  const bool was_running = running();
  if (access != access_) task_.drop();
  spec_ = spec;
  access_ = std::move(access);
  if (was_running || !known()) start();
}

void EngineDetection::start() {
  delay_ = Duration::zero();
  if (running()) {
    wake_now_.raise();
  } else {
    task_ = run();
  }
}

Task<void> EngineDetection::run() {
  BackendClient client(loop_, access_);
  inconclusive_rounds_ = 0;
  if (!access_.keeps_links) {  // descriptors are scarce: not all backends at the same time
    const double share = rng_.unit();
    co_await loop_.sleep_for(std::chrono::duration_cast<Duration>(spec_.interval * share));
  }
  while (true) {
    const bool was_serving = observer_.is_serving();
    auto result = co_await run_round(client);
    const bool has_answer = responded(result);
    if (accept_result(std::move(result), was_serving)) co_return;
    co_await wake_now_.wait(loop_.now() + next_delay(has_answer));
  }
}

/// Sends one round of requests.
Task<DetectionResult> EngineDetection::run_round(BackendClient& client) {
  const Instant deadline = loop_.now() + spec_.timeout;
  auto result = co_await detect(client, deadline);
  if (result.outcome == DetectionResult::Outcome::silent && spec_.may_be_grpc) {
    GrpcCall call{.path = "/grpc.health.v1.Health/Check"};  // every gRPC server answers this
    auto reply = co_await client.call(std::move(call), deadline);
    if (reply && reply->grpc) result.outcome = DetectionResult::Outcome::not_http;
  }
  if (result.outcome == DetectionResult::Outcome::not_http) result.conclusive = true;
  co_return result;
}

/// True if detection is done. `was_serving`: before the round.
bool EngineDetection::accept_result(DetectionResult result, bool was_serving) {
  if (result.blocked_locally) ++blocked_locally_;
  const bool loading = responded(result) && result.identity.loading;
  const bool usable = responded(result) && !loading;
  const bool clear = result.identity.known() || result.conclusive;
  inconclusive_rounds_ = usable && !clear ? inconclusive_rounds_ + 1 : 0;
  if (usable && (clear || inconclusive_rounds_ >= max_inconclusive_rounds)) {
    const bool identified = result.identity.known();
    accept_identity(std::move(result.identity));
    return identified || (known() && was_serving);
  }
  observer_.on_engine_unknown(loading             ? "the server says that it is loading"
                              : responded(result) ? "the server does not say which engine it runs"
                                                  : std::move(result.reason));
  return false;
}

/// Keeps a known identity over a result that shows nothing: another server may have answered, and
/// the health checks notice when the right one is back.
void EngineDetection::accept_identity(EngineIdentity identity) {
  if (known() && !identity.known()) return;
  const bool engine_changed = !identity_ || identity_->engine != identity.engine;
  const bool identity_changed = engine_changed || identity_->kserve != identity.kserve;
  models_ = identity.models.empty()
                ? nullptr
                : std::make_shared<const std::vector<std::string>>(identity.models);
  identity_ = std::move(identity);
  ++revision_;
  if (engine_changed) log::polling.info(name_ + " runs " + std::string(identity_->engine));
  if (identity_changed) observer_.on_engine_identified();
}

/// Doubles the delay for a server that answers but shows nothing; jitter keeps backends apart.
Duration EngineDetection::next_delay(bool responded) {
  const Duration longest = std::max(spec_.interval, max_interval);
  delay_ =
      responded && identity_ ? std::clamp(2 * delay_, spec_.interval, longest) : spec_.interval;
  const double jitter = 0.9 + 0.2 * rng_.unit();
  return std::chrono::duration_cast<Duration>(delay_ * jitter);
}

}  // namespace evenkeel
