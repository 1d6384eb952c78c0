#include "proxy/request_session.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "evenkeel/base/hash.h"
#include "proxy/response_listeners.h"

namespace evenkeel {
namespace {

/// True if the backend has done what was asked: 101 for a tunnel.
bool is_success(int status) { return status == 101 || (status >= 200 && status < 300); }

}  // namespace

/// An id that a server has handed out counts before all else. A browser, which names no session,
/// gets a cookie that names one.
void RequestSession::find_in_sources(Request& request, Rng& rng, Instant now) {
  if (sources_->by_response_id()) response_id_ = find_response_id(request);
  if (response_id_ && pool_.state().affinity()->knows(*response_id_, now)) {
    hint_.session = SessionHint{.key = *response_id_};
  } else {
    hint_.session = sources_->find(request);
  }
  // An answer that is compressed could not be read.
  if (sources_->reads_answer(request)) request.fields.remove("accept-encoding");
  if (!hint_.session && sources_->sets_cookie()) {
    new_name_ = fmt::format("{:016x}{:016x}", rng(), rng());
    hint_.session = {.key = hash_of(new_name_), .is_unconfirmed = true};
  }
  // Replicas then place the first request of a session alike.
  if (hint_.session && !hint_.key) hint_.key = hint_.session->key;
}

void RequestSession::on_moved(Lease& lease) {
  if (!hint_.session || !hint_.session->is_unconfirmed) return;
  lease = pool_.followed(std::move(lease), *hint_.session);
  lease.set_begins_session();
}

void RequestSession::pin(const Request& request, Response& response, const Backend& backend,
                         Instant now) {
  if (confirms_ && is_success(response.status)) pool_.confirm_session(*hint_.session, backend);
  if (sources_->learns() && response.status < 400) learn(request, response, backend, now);
  if (new_name_.empty()) return;
  const bool secure = request.fields.value(FieldId::x_forwarded_proto) == "https";
  response.fields.add("set-cookie", response.fields.keep(session_cookie(new_name_, secure)));
}

/// Pins what the answer names to its backend, and the id that the request has, if the backend knew
/// it.
void RequestSession::learn(const Request& request, const Response& response, const Backend& backend,
                           Instant now) const {
  const AnswerPins pins = pool_.state().affinity()->answer_pins(backend);
  sources_->learn(request, response, pins, now);
  if (response_id_) pins.pin(*response_id_, true, now);
  if (!sources_->reads_answer(request)) return;
  InferenceInfo& inference = *request.info.inference;
  inference.wants_id = true;
  inference.listener = std::make_unique<IdListener>(pins, std::move(inference.listener));
}

}  // namespace evenkeel
