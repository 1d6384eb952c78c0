#include "proxy/answer_reuse.h"

#include <string>
#include <utility>

#include "proxy/kept_body.h"

namespace evenkeel {
namespace {

void name_source(Response& response, AnswerSource source) {
  response.fields.add("x-evenkeel-cache", to_string(source));
}

/// True if no backend has answered the request, or with nothing but its own failure.
bool has_failed(const Result<Response>& response) {
  if (!response) return response.error().side != Side::client;
  const int status = response->status;
  return status == 500 || (status >= 502 && status <= 504);
}

/// The seeds of keys: replicas that share answers have the same.
AnswerCache::Seeds seeds_of(const AnswerCache* cache, const RedisAnswers* shared) {
  if (shared != nullptr) return shared->seeds();
  return cache != nullptr ? cache->seeds() : AnswerCache::new_seeds();
}

}  // namespace

AnswerReuse::AnswerReuse(Loop& loop, Handler& next, const PoolConfig& pool, const PoolState& state,
                         const RouteBodyRules& routes, PoolMetrics& metrics,
                         std::shared_ptr<RedisAnswers> shared, const MemoryPressureLevel* pressure)
    : loop_(loop),
      next_(next),
      pool_(pool),
      routes_(routes),
      rules_(pool),
      cache_(state.answers()),
      shared_(pool.cache && pool.cache->shared ? std::move(shared) : nullptr),
      keys_(pool, subset_names(state), seeds_of(cache_.get(), shared_.get())),
      metrics_(metrics),
      pressure_(pressure) {}

Task<Result<Response>> AnswerReuse::handle(Request& request) {
  if (!is_repeatable(request)) return next_.handle(request);
  const InferenceInfo& info = *request.info.inference;
  const BodyConfig& of_route = routes_.config_of(request.info.identity);
  Use use{.keeps = cache_ != nullptr && rules_.may_keep(info, of_route),
          .coalesces = request.carrier == nullptr && rules_.may_coalesce(info, of_route)};
  if (!use.keeps && !use.coalesces) return next_.handle(request);
  if (has_cache_directive(request.fields, "no-store")) return next_.handle(request);
  const auto key = keys_.key_of(request, of_route);
  if (!key) return next_.handle(request);
  use.key = *key;
  const bool wants_new = has_cache_directive(request.fields, "no-cache");
  if (use.keeps) {
    const Instant now = loop_.now();
    KeptAnswerPtr kept = cache_->find(use.key, now);
    if (kept != nullptr && !wants_new && now < kept->fresh_until) {
      metrics_.cache_hits.add();
      return Result<Response>(serve_kept(request, std::move(kept), AnswerSource::hit));
    }
    use.stale = std::move(kept);
  }
  use.coalesces = use.coalesces && !wants_new;
  const bool asks = use.keeps && shared_ != nullptr && !wants_new && !memory_is_scarce() &&
                    !(use.coalesces && is_in_flight(request, use));
  if (asks) return ask_replicas(request, std::move(use));
  return miss(request, std::move(use));
}

bool AnswerReuse::is_in_flight(const Request& request, const Use& use) const {
  return in_flight_.contains({.key = use.key, .priority = request.info.identity.priority});
}

/// Looks for an answer that another replica has kept.
Task<Result<Response>> AnswerReuse::ask_replicas(Request& request, Use use) {
  const std::uint64_t age = cache_->age();  // an answer from before a purge is not kept
  auto there = co_await shared_->find(pool_.name, use.key);
  use.generation = std::move(there.generation);
  KeptAnswerPtr found = std::move(there.answer);
  if (found != nullptr) {
    cache_->keep(use.key, found, age);
    if (loop_.now() < found->fresh_until) {
      metrics_.cache_hits.add();
      Result<Response> kept(serve_kept(request, std::move(found), AnswerSource::hit));
      co_return kept;
    }
    use.stale = std::move(found);
  }
  auto response = co_await miss(request, std::move(use));
  co_return response;
}

/// Has the backend answer.
Task<Result<Response>> AnswerReuse::miss(Request& request, Use use) {
  if (use.keeps) metrics_.cache_misses.add();
  return use.coalesces ? share(request, std::move(use)) : fetch(request, std::move(use));
}

bool AnswerReuse::memory_is_scarce() const {
  return pressure_ != nullptr && pressure_->get() != MemoryPressure::none;
}

Response AnswerReuse::serve_kept(Request& request, KeptAnswerPtr answer,
                                 AnswerSource source) const {
  RequestInfo& info = request.info;
  info.outcome.source = source;
  info.timings.first_byte = loop_.now();
  info.inference->is_observed = true;
  info.inference->served_model = pool_.model;
  Response response = response_of(std::move(answer), loop_.now());
  name_source(response, source);
  return response;
}

/// Has the backend answer, for this request alone.
Task<Result<Response>> AnswerReuse::fetch(Request& request, Use use) {
  request.info.outcome.source = AnswerSource::miss;
  KeptAnswerPtr stale = std::move(use.stale);
  auto response = co_await generate(request, std::move(use));
  if (stale != nullptr && has_failed(response)) {
    metrics_.cache_stale.add();
    response = serve_kept(request, std::move(stale), AnswerSource::stale);
    co_return response;
  }
  if (response) name_source(*response, AnswerSource::miss);
  co_return response;
}

/// Has the backend answer, and keeps what it says.
Task<Result<Response>> AnswerReuse::generate(Request& request, Use use) {
  const std::uint64_t age = use.keeps ? cache_->age() : 0;
  auto response = co_await next_.handle(request);
  const bool is_seen = response && response->body != nullptr;  // not if a data plane keeps it
  if (!is_seen || !use.keeps) co_return response;
  if (memory_is_scarce()) {
    cache_->clear();  // requests need the memory more
    co_return response;
  }
  const auto lifetime = lifetime_of(*response, *pool_.cache);
  if (!lifetime) co_return response;
  const KeepingBody::Options options{.key = use.key,
                                     .pool = pool_.name,
                                     .lifetime = *lifetime,
                                     .cache_age = age,
                                     .generation = std::move(use.generation)};
  auto body =
      std::make_unique<KeepingBody>(loop_, cache_, shared_, options, request.info, *response);
  response->body = std::move(body);
  co_return response;
}

Task<Result<Response>> AnswerReuse::share(Request& request, Use use) {
  auto reader = join(request, use);
  if (reader == nullptr) return fetch(request, std::move(use));
  return read(request, std::move(reader), std::move(use.stale));
}

/// Joins an identical request in flight, or begins an answer that others may join. Null: this one
/// goes alone.
std::unique_ptr<SharedAnswer::Reader> AnswerReuse::join(Request& request, const Use& use) {
  const InFlight wanted{.key = use.key, .priority = request.info.identity.priority};
  if (const auto found = in_flight_.find(wanted); found != in_flight_.end()) {
    metrics_.coalesced.add();
    return std::make_unique<SharedAnswer::Reader>(found->second->shared_from_this(), request.info,
                                                  true);
  }
  if (memory_is_scarce()) return nullptr;
  auto body = read_whole(*request.body);
  if (!body) return nullptr;
  SharedAnswer::Owner& owner = *this;
  const auto answer =
      std::make_shared<SharedAnswer>(loop_, owner, use.key, request, std::move(*body));
  auto reader = std::make_unique<SharedAnswer::Reader>(answer, request.info, false);
  in_flight_.emplace(wanted, answer.get());
  answer->start(generate(answer->request(),
                         {.key = use.key, .keeps = use.keeps, .generation = use.generation}));
  return reader;
}

Task<Result<Response>> AnswerReuse::read(Request& request,
                                         std::unique_ptr<SharedAnswer::Reader> reader,
                                         KeptAnswerPtr stale) {
  const AnswerSource source = request.info.outcome.source;
  auto response = co_await reader->head();
  if (stale != nullptr && has_failed(response)) {
    metrics_.cache_stale.add();
    reader.reset();
    response = serve_kept(request, std::move(stale), AnswerSource::stale);
    co_return response;
  }
  if (!response) co_return response;
  name_source(*response, source);
  response->body = std::move(reader);
  co_return response;
}

void AnswerReuse::on_closed(SharedAnswer& answer) {
  in_flight_.erase({.key = answer.key(), .priority = answer.priority()});
}

}  // namespace evenkeel
