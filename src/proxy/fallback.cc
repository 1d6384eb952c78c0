#include "proxy/fallback.h"

#include "proxy/pool_assignment.h"

namespace evenkeel {
namespace {

/// The pool could not take the request, and no backend has seen any of it.
bool may_fall_back(const Error& error) {
  switch (error.fault) {
    case Fault::no_backend:
    case Fault::queue_full:
    case Fault::queue_timeout: return true;
    case Fault::connect_failed:
    case Fault::connect_timeout:
    case Fault::tls_failed: return error.side == Side::backend && error.not_processed;
    default: return false;
  }
}

/// Its body can be read from its start.
bool is_whole(Request& request) {
  return request.body == nullptr || request.info.outcome.bytes_in == 0 || request.body->rewind();
}

}  // namespace

Task<Result<Response>> Fallback::handle(Request& request) {
  auto result = co_await own_.handle(request);
  if (result || !may_fall_back(result.error()) || !is_whole(request)) co_return result;
  move(request.info);
  auto answer = co_await target_.handler.handle(request);
  // Otherwise the other pool has fallen back, and has named its own fallback.
  const bool from_target = request.info.identity.pool_index == target_.pool_index;
  // The other pool has not made the copy of the body that the first one has kept for retries.
  if (request.body != nullptr) {
    request.body->commit(request.info.timings.uploaded != Instant{});
  }
  if (answer && from_target) answer->fields.add("x-evenkeel-fallback", target_.pool);
  co_return answer;
}

/// Makes it a request of the other pool.
void Fallback::move(RequestInfo& info) const {
  RequestIdentity& identity = info.identity;
  worker_metrics_.pool(identity.pool_index).fallbacks.add();
  assign_pool(identity, target_.pool, target_.pool_index, worker_metrics_);
  info.outcome.attempts = AttemptList();  // it has room for those at one pool
  if (info.inference != nullptr) info.inference->refusal = {};
}

}  // namespace evenkeel
