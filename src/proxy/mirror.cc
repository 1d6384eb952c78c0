#include "proxy/mirror.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "evenkeel/base/hash.h"
#include "evenkeel/filter/held_bodies.h"
#include "proxy/answer_key.h"
#include "proxy/kept_plans.h"
#include "proxy/request_copy.h"
#include "proxy/split.h"

namespace evenkeel {
namespace {

/// The scale of shares: a request is copied if it falls below the route's part of it.
constexpr std::uint32_t scale = 1'000'000;

/// True if all of the body has come, and is held.
bool is_held(const Request& request) {
  const InferenceInfo* const info = request.info.inference.get();
  return info != nullptr && info->request.complete && request.body->rewindable();
}

}  // namespace

/// The body of a copy. It counts among those that the worker holds, but leaves most of their room
/// to clients: a mirror may hang.
class MirrorFilter::CopiedBody final : public Body, private HeldBody {
 public:
  CopiedBody(HeldBodies& held_bodies, const RequestIdentity& identity, std::uint64_t limit)
      : HeldBody(held_bodies, identity, limit) {}
  CopiedBody(const CopiedBody&) = delete;
  CopiedBody& operator=(const CopiedBody&) = delete;

  /// Adds bytes; false: there is no room for them.
  bool append(std::string_view bytes) {
    const std::uint64_t size = bytes_.size() + bytes.size();
    if (!take(bytes.size(), size <= max_small_body)) return false;
    bytes_ += bytes;
    return true;
  }
  void clear() {
    give(held());
    bytes_.clear();
  }
  std::uint64_t size() const { return bytes_.size(); }

  Task<Result<Chunk>> read() override {
    return Result<Chunk>(Chunk{.bytes = bytes_, .last = true});
  }
  std::optional<std::uint64_t> length() const override { return bytes_.size(); }
  bool rewind() override { return true; }
  bool rewindable() const override { return true; }

 private:
  void drop_copy() override {}  // an attempt may be reading it
  void end_arrival() override {}

  std::string bytes_;
};

/// A copy, until its answer has ended.
struct MirrorFilter::Copy {
  std::shared_ptr<const void> plan;  // dropped last
  Loop& loop;
  Handler& handler;
  MirrorMetrics& metrics;
  Counter* result;  // what becomes of it, unless it goes on
  Request request;
  CopiedBody* body = nullptr;  // of the request; null: none

  Copy(const MirrorFilter& filter, const PlanPool& pool, MirrorMetrics& of_pool)
      : plan(filter.plan_()),
        loop(filter.loop_),
        handler(*pool.mirrored),
        metrics(of_pool),
        result(&of_pool.unread) {
    metrics.in_flight.add();
  }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;
  ~Copy() {
    metrics.in_flight.remove();
    result->add();
  }

  /// Adds bytes of the body; false: the copy is not to be sent.
  bool append(std::string_view bytes) {
    if (body->size() + bytes.size() > max_body) return false;
    if (body->append(bytes)) return true;
    result = &metrics.no_memory;
    return false;
  }
};

/// The body of a request on its way to its own pool: what passes is copied, and the copy is sent
/// when it has ended.
class MirrorFilter::PassingBody final : public Body {
 public:
  PassingBody(BodyPtr body, std::unique_ptr<Copy> copy)
      : body_(std::move(body)), copy_(std::move(copy)) {}

  Task<Result<Chunk>> read() override {
    auto next = body_->read();
    if (copy_ == nullptr) return next;
    if (next.ready()) return copy(next.take());
    return wait(std::move(next));
  }
  std::optional<std::uint64_t> length() const override { return body_->length(); }
  bool rewind() override {
    if (!body_->rewind()) return false;
    if (copy_ != nullptr) copy_->body->clear();
    return true;
  }
  bool rewindable() const override { return body_->rewindable(); }
  void commit(bool sent) override { body_->commit(sent); }
  Block take_block() override { return body_->take_block(); }

 private:
  Task<Result<Chunk>> wait(Task<Result<Chunk>> next) {
    auto chunk = co_await next;
    co_return copy(std::move(chunk));
  }
  Result<Chunk> copy(Result<Chunk> chunk) {
    if (copy_ == nullptr) return chunk;
    const bool is_copied = chunk && chunk->trailers == nullptr && copy_->append(chunk->bytes);
    if (!is_copied) {
      copy_.reset();
    } else if (chunk->last) {
      Loop& loop = copy_->loop;
      loop.spawn(send(std::move(copy_)));
    }
    return chunk;
  }

  BodyPtr body_;
  std::unique_ptr<Copy> copy_;  // null: it is sent, or is not to be
};

MirrorFilter::MirrorFilter(const Config& config, const PlanPools& pools,
                           const WorkerContext& worker, std::uint64_t seed, PlanSource plan)
    : loop_(worker.loop),
      worker_metrics_(worker.metrics()),
      held_bodies_(worker.held_bodies),
      max_held_bytes_(config.limits.held_bodies_bytes),
      mirrors_(config.routes,
               [&](const RouteConfig& route) -> std::optional<Mirror> {
                 const PlanPool* const pool = pools.find(route.mirror.pool);
                 if (pool == nullptr) return std::nullopt;
                 const double threshold = std::round(route.mirror.share * scale);
                 return Mirror{.pool = pool,
                               .threshold = static_cast<std::uint32_t>(threshold),
                               .sticky_header = route.sticky.header,
                               // Another one than of its split: copies come from all its pools.
                               .salt = mix(hash_of(route.name))};
               }),
      rng_(seed),
      plan_(std::move(plan)) {}

Task<Result<Response>> MirrorFilter::handle(Request& request, Handler& next) {
  const Mirror* const mirror = mirrors_.find(request.info.identity);
  if (mirror == nullptr || !takes(*mirror, request)) return next.handle(request);
  auto copy = copy_of(request, *mirror);
  if (copy == nullptr) return next.handle(request);
  if (request.body != nullptr) {
    if (!is_held(request)) {
      request.body = std::make_unique<PassingBody>(std::move(request.body), std::move(copy));
      return next.handle(request);
    }
    const auto bytes = read_whole(*request.body);
    if (!bytes || !copy->append(*bytes)) return next.handle(request);
  }
  auto answering = next.handle(request);
  loop_.spawn(send(std::move(copy)));
  return answering;
}

bool MirrorFilter::takes(const Mirror& mirror, const Request& request) {
  const auto conversation = conversation_of(request, mirror.sticky_header);
  const std::uint32_t drawn =
      conversation ? split_point(*conversation, mirror.salt, scale) : rng_.below(scale);
  return drawn < mirror.threshold;
}

/// A copy that lacks the bytes of its body. Null: none is made, which is counted.
std::unique_ptr<MirrorFilter::Copy> MirrorFilter::copy_of(const Request& request,
                                                          const Mirror& mirror) const {
  const PlanPool& pool = *mirror.pool;
  MirrorMetrics& metrics = worker_metrics_.pool(pool.index).mirror;
  const auto drop = [](Counter& counter) {
    counter.add();
    return nullptr;
  };
  if (metrics.in_flight.value() >= max_in_flight) return drop(metrics.excess);
  if (held_bodies_.memory_is_scarce()) return drop(metrics.no_memory);
  const bool is_stream = !request.upgrade.empty() || request.info.identity.is_streaming;
  const bool is_long = request.body != nullptr && request.body->length().value_or(0) > max_body;
  if (is_stream || is_long) return drop(metrics.unread);
  auto copy = std::make_unique<Copy>(*this, pool, metrics);
  copy_request(request, copy->request);
  RequestInfo& info = copy->request.info;
  if (request.body != nullptr) {
    auto body = std::make_unique<CopiedBody>(held_bodies_, info.identity, max_held_bytes_ / 4);
    copy->body = body.get();
    copy->request.body = std::move(body);
  }
  RequestIdentity& identity = info.identity;
  const RequestTenant tenant = identity.tenant;
  identity.pool = pool.config.name;
  identity.pool_index = pool.index;
  identity.subset = identity.session_subset = 0;
  identity.routing.reads_body = pool.reads_bodies;
  identity.asker = Asker::none;
  identity.priority = Priority::batch;
  identity.tenant = {};  // counts nothing: what remains of it are rules for bodies
  identity.tenant.max_tokens = tenant.max_tokens;
  identity.tenant.cache_salt = tenant.cache_salt;
  info.timings.deadline = request.info.timings.deadline;
  info.timings.max_call = request.info.timings.max_call;
  Fields& fields = copy->request.fields;
  fields.remove(mark);
  fields.add(mark, "true");
  return copy;
}

/// Begins in the loop's next step. Reads the answer to its end: what the copy costs its pool is
/// what a client's request would.
Task<void> MirrorFilter::send(std::unique_ptr<Copy> copy) {
  copy->result = &copy->metrics.failed;
  co_await copy->loop.yield();
  RequestInfo& info = copy->request.info;
  info.timings.started = info.timings.head_received = copy->loop.now();
  auto answering = copy->handler.handle(copy->request);
  auto response = co_await answering;
  if (!response) {
    if (response.error().fault == Fault::over_budget) copy->result = &copy->metrics.excess;
    co_return;
  }
  info.outcome.status = response->status;
  const BodyPtr body = std::move(response->body);
  bool is_whole = body == nullptr;
  while (!is_whole) {
    auto next = body->read();
    auto chunk = co_await next;
    if (!chunk) {
      info.outcome.fault = chunk.error().fault;
      co_return;
    }
    is_whole = chunk->last;
  }
  if (response->status < 500) copy->result = &copy->metrics.answered;
}

}  // namespace evenkeel
