#include "proxy/batching.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "evenkeel/base/path.h"
#include "proxy/batch_choice.h"
#include "proxy/request_batch.h"

namespace evenkeel {
namespace {

/// Why a batch is sent.
enum class SendReason : std::uint8_t {
  idle,  // the backends have nothing of its kind to do
  size,  // it is full, or more waits than goes at once
  wait,  // its first request has waited long enough
};

Counter& counter_of(BatchingMetrics& metrics, SendReason reason) {
  switch (reason) {
    case SendReason::idle: return metrics.idle;
    case SendReason::size: return metrics.full;
    case SendReason::wait: break;
  }
  return metrics.waited;
}

/// True for OpenAI's path, also behind a prefix. Other servers' paths for embeddings have other
/// answers.
bool is_embeddings_path(const Request& request) {
  std::string storage;
  const auto path = normalised_path(request.path, storage);
  return path && (path->ends_with("/v1/embeddings") || path->ends_with("/v3/embeddings"));
}

}  // namespace

/// The requests of one kind: those that wait, and how many a backend has. Lives as long as there is
/// one.
class Batching::Kind : public std::enable_shared_from_this<Kind> {
 public:
  Kind(Batching& owner, BatchApi api, const AnswerKey& key) : owner_(owner), api_(api), key_(key) {}
  Kind(const Kind&) = delete;
  Kind& operator=(const Kind&) = delete;
  ~Kind() { owner_.kinds_.erase(key_); }

  /// True if a request that comes now need not wait, and goes before no other.
  bool is_idle() const { return has_room() && waiting_.empty(); }
  FlightPtr begin(SendReason reason, std::uint64_t requests, std::uint64_t rows);
  void add(Waiting& request);
  void remove(Waiting& request);
  void send_first(SendReason reason);

 private:
  friend class Flight;

  std::vector<Waiting*> batch_of(std::size_t first) const;
  void send(const std::vector<Waiting*>& chosen, SendReason reason);
  bool has_room() const { return in_flight_ < owner_.max_in_flight_; }
  void end();
  void use_room();

  Batching& owner_;
  const BatchApi api_;
  const AnswerKey key_;
  std::size_t in_flight_ = 0;
  std::vector<Waiting*> waiting_;
  MethodWaiter<&Kind::use_room> room_{*this};
};

/// Counts a request to a backend as in flight.
class Batching::Flight {
 public:
  explicit Flight(std::shared_ptr<Kind> kind) : kind_(std::move(kind)) { ++kind_->in_flight_; }
  Flight(const Flight&) = delete;
  Flight& operator=(const Flight&) = delete;
  ~Flight() { kind_->end(); }

 private:
  std::shared_ptr<Kind> kind_;
};

/// The answer to a request that was sent by itself: in flight until its last byte.
class Batching::FlightBody final : public Body {
 public:
  FlightBody(BodyPtr body, FlightPtr flight) : flight_(std::move(flight)), body_(std::move(body)) {}

  Task<Result<Chunk>> read() override {
    auto next = body_->read();
    if (!next.ready()) return wait(std::move(next));
    return look(next.take());
  }
  std::optional<std::uint64_t> length() const override { return body_->length(); }
  Block take_block() override { return body_->take_block(); }

 private:
  Task<Result<Chunk>> wait(Task<Result<Chunk>> next) {
    auto chunk = co_await next;
    co_return look(std::move(chunk));
  }
  Result<Chunk> look(Result<Chunk> chunk) {
    if (!chunk || chunk->last) flight_.reset();
    return chunk;
  }

  FlightPtr flight_;
  BodyPtr body_;
};

/// A request that waits for others, and then for its part of their answer.
class Batching::Waiting {
 public:
  Waiting(Batching& owner, Request& from, std::shared_ptr<Kind> of, BatchBody read)
      : request(from),
        body(std::move(read)),
        kind(std::move(of)),
        joined(owner.loop_.now()),
        settled(owner.loop_) {
    const double bytes_per_token =
        owner.estimates_.bytes_per_token(from.info.inference->request.model);
    size = {.rows = body.rows(), .max_input_tokens = body.max_input_tokens(bytes_per_token)};
    weight = {.tokens = body.tokens(bytes_per_token), .is_exact = body.has_token_ids()};
    kind->add(*this);
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  /// Leaves the request's inputs out of what is sent later.
  ~Waiting() {
    if (is_waiting) kind->remove(*this);
    if (batch != nullptr) batch->leave(member);
  }

  Request& request;
  BatchBody body;
  std::shared_ptr<Kind> kind;
  Instant joined;
  Signal settled;  // it may go alone, or has its answer
  bool is_waiting = true;
  BatchSize size;
  TokenWeight weight;
  FlightPtr flight;                     // of one that goes alone
  std::shared_ptr<RequestBatch> batch;  // that it is in; null: none yet
  std::size_t member = 0;               // of the batch
  std::list<Waiting*>::iterator arrival;
};

Batching::FlightPtr Batching::Kind::begin(SendReason reason, std::uint64_t requests,
                                          std::uint64_t rows) {
  BatchingMetrics& metrics = owner_.metrics_;
  counter_of(metrics, reason).add();
  metrics.requests.add(requests);
  metrics.inputs.add(rows);
  return std::make_shared<Flight>(shared_from_this());
}

/// Has those that wait go in the loop's next step: what has ended may still hold its slot.
void Batching::Kind::end() {
  --in_flight_;
  if (!waiting_.empty()) owner_.loop_.wake_soon(room_);
}

void Batching::Kind::use_room() {
  while (!waiting_.empty() && has_room()) send_first(SendReason::idle);
}

void Batching::Kind::add(Waiting& request) {
  waiting_.push_back(&request);
  owner_.await(request);
  std::vector<Waiting*> batch = batch_of(waiting_.size() - 1);
  BatchSize size;
  for (const Waiting* each : batch) size = size + each->size;
  if (size.is_full(owner_.config_)) return send(batch, SendReason::size);
  // More waits than goes at once.
  if (batch.size() < waiting_.size()) send_first(SendReason::size);
}

void Batching::Kind::remove(Waiting& request) {
  request.is_waiting = false;
  std::erase(waiting_, &request);
  owner_.forget(request);
}

/// A request that waits, with the others that go with it.
std::vector<Batching::Waiting*> Batching::Kind::batch_of(std::size_t first) const {
  std::vector<BatchSize> sizes;
  for (const Waiting* each : waiting_) sizes.push_back(each->size);
  std::vector<Waiting*> batch;
  for (const std::size_t each : choose_batch(sizes, first, owner_.config_))
    batch.push_back(waiting_[each]);
  return batch;
}

/// Sends the one that has waited longest, with the others that go with it.
void Batching::Kind::send_first(SendReason reason) { send(batch_of(0), reason); }

void Batching::Kind::send(const std::vector<Waiting*>& chosen, SendReason reason) {
  std::uint64_t rows = 0;
  for (Waiting* each : chosen) {
    rows += each->size.rows;
    remove(*each);
  }
  auto flight = begin(reason, chosen.size(), rows);
  if (chosen.size() == 1) {
    chosen.front()->flight = std::move(flight);
    chosen.front()->settled.raise();
    return;
  }
  std::vector<RequestBatch::Member> members;
  for (Waiting* each : chosen) {
    members.push_back({.request = &each->request,
                       .body = &each->body,
                       .weight = each->weight,
                       .joined = each->joined,
                       .settled = &each->settled});
  }
  const auto batch =
      std::make_shared<RequestBatch>(owner_.loop_, api_, std::move(members), std::move(flight));
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    chosen[i]->batch = batch;
    chosen[i]->member = i;
  }
  batch->start(owner_.next_.handle(batch->request()));
}

Batching::Batching(Handler& next, const PoolConfig& pool, const PoolState& state,
                   const RouteBodyRules& routes, const TokenEstimates& estimates,
                   const WorkerContext& worker, BatchingMetrics& metrics)
    : loop_(worker.loop),
      next_(next),
      config_(*pool.batching),
      routes_(routes),
      estimates_(estimates),
      keys_(pool, subset_names(state), AnswerCache::new_seeds()),
      metrics_(metrics),
      pressure_(worker.memory_pressure),
      max_in_flight_(
          std::max<std::size_t>(1, state.backends().size() / worker.metrics_registry.size())),
      timer_(*this, worker.loop) {}

Task<Result<Response>> Batching::handle(Request& request) {
  const auto api = api_of(request);
  const bool memory_is_scarce = pressure_ != nullptr && pressure_->get() != MemoryPressure::none;
  if (!api || memory_is_scarce || request.carrier != nullptr) return next_.handle(request);
  auto bytes = read_whole(*request.body);
  if (!bytes || bytes->size() > max_body_bytes) return next_.handle(request);
  auto body = BatchBody::read(*api, std::move(*bytes));
  if (!body) return next_.handle(request);
  auto kind = kind_of(*api, keys_.key_of(request, routes_.config_of(request.info.identity), *body));
  const double bytes_per_token = estimates_.bytes_per_token(request.info.inference->request.model);
  const BatchSize size{.rows = body->rows(),
                       .max_input_tokens = body->max_input_tokens(bytes_per_token)};
  if (size.is_full(config_))
    return send_alone(request, kind->begin(SendReason::size, 1, size.rows));
  if (kind->is_idle()) return send_alone(request, kind->begin(SendReason::idle, 1, size.rows));
  return wait(request, std::move(kind), std::move(*body));
}

/// Returns nothing if the request passes as it is.
std::optional<BatchApi> Batching::api_of(const Request& request) const {
  if (!is_repeatable(request)) return std::nullopt;
  const InferenceInfo& info = *request.info.inference;
  if (!info.places.is_json || info.request.stream) return std::nullopt;
  if (request.body->length().value_or(0) > max_body_bytes) return std::nullopt;
  // A server may take it for what the whole batch is.
  if (request.fields.find("idempotency-key") != nullptr) return std::nullopt;
  if (info.request.task == InferenceTask::embedding && is_embeddings_path(request))
    return BatchApi::embeddings;
  const bool has_binary_data = request.fields.find("inference-header-content-length") != nullptr;
  if (info.request.task == InferenceTask::infer && !has_binary_data) return BatchApi::kserve;
  return std::nullopt;
}

std::shared_ptr<Batching::Kind> Batching::kind_of(BatchApi api, const AnswerKey& key) {
  if (const auto found = kinds_.find(key); found != kinds_.end())
    return found->second->shared_from_this();
  auto kind = std::make_shared<Kind>(*this, api, key);
  kinds_.emplace(key, kind.get());
  return kind;
}

Task<Result<Response>> Batching::send_alone(Request& request, FlightPtr flight) {
  auto response = co_await next_.handle(request);
  if (response && response->body != nullptr)
    response->body = std::make_unique<FlightBody>(std::move(response->body), std::move(flight));
  co_return response;
}

Task<Result<Response>> Batching::wait(Request& request, std::shared_ptr<Kind> kind,
                                      BatchBody body) {
  FlightPtr flight;
  {
    Waiting waiting(*this, request, kind, std::move(body));
    co_await waiting.settled.wait();
    if (waiting.batch != nullptr && !waiting.batch->must_split()) {
      auto response = waiting.batch->answer_of(waiting.member);
      co_return response;
    }
    if (waiting.batch == nullptr) {
      flight = std::move(waiting.flight);
      request.info.timings.waited += loop_.now() - waiting.joined;
    }
  }
  if (flight == nullptr) {
    metrics_.split.add();
    flight = std::make_shared<Flight>(std::move(kind));
  }
  auto response = co_await send_alone(request, std::move(flight));
  co_return response;
}

void Batching::await(Waiting& request) {
  request.arrival = arrivals_.insert(arrivals_.end(), &request);
  if (std::exchange(is_armed_, true)) return;
  timer_.arm(request.joined + config_.max_wait);
}

void Batching::forget(Waiting& request) { arrivals_.erase(request.arrival); }

void Batching::send_due() {
  is_armed_ = false;
  const Instant now = loop_.read_clock();
  while (!arrivals_.empty() && arrivals_.front()->joined + config_.max_wait <= now)
    arrivals_.front()->kind->send_first(SendReason::wait);
  if (arrivals_.empty()) return;
  is_armed_ = true;
  timer_.arm(arrivals_.front()->joined + config_.max_wait);
}

}  // namespace evenkeel
