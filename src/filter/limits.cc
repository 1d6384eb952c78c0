#include "evenkeel/filter/limits.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>
#include <utility>

#include "evenkeel/base/decimal.h"
#include "evenkeel/base/rfc3339.h"
#include "evenkeel/filter/usage.h"
#include "evenkeel/http/cors.h"
#include "evenkeel/http/status.h"

namespace evenkeel {
namespace {

using std::chrono::milliseconds;

/// The size of a token, for text whose tokens nothing else tells.
constexpr std::uint64_t bytes_per_token = 4;

void set_cost(TokenUse& use, const BilledTokens& tokens, const Price& price) {
  use.cost = cost_of(tokens, price).millionths();
  use.input_cost = cost_of({.input = tokens.input, .cached = tokens.cached}, price).millionths();
}

/// True if no model is asked for anything, as for a list of models.
bool uses_no_model(const Request& request) {
  return request.info.inference == nullptr && is_safe_method(request.method) &&
         request.upgrade.empty();
}

/// Settles what a request has used when it is destroyed, however the request ends.
class Meter {
 public:
  /// `prices`: null: no limit is one of cost.
  Meter(const RequestInfo& info, OutputEstimates& outputs, const PriceList* prices,
        std::unique_ptr<Reservation> reservation)
      : info_(&info), outputs_(&outputs), prices_(prices), reservation_(std::move(reservation)) {}
  Meter(Meter&&) noexcept = default;
  Meter& operator=(Meter&&) = delete;
  ~Meter() {
    const bool reached_backend = info_->timings.head_sent != Instant{};
    if (reservation_ == nullptr || !reached_backend || is_reused(info_->outcome.source)) return;
    reservation_->set_used(used());
    if (info_->inference == nullptr) return;
    const InferenceResponse& response = info_->inference->response;
    const bool was_cut_off = response.finish_reason == "length";
    if (const auto& counted = response.completion_tokens; counted && !was_cut_off)
      outputs_->learn(info_->inference->request, *counted);
  }

  /// The request has used no tokens.
  void discard() { reservation_.reset(); }

 private:
  TokenUse used() const {
    if (info_->inference == nullptr) {
      TokenUse use{.input = info_->outcome.bytes_in / bytes_per_token,
                   .output = info_->outcome.answer_bytes() / bytes_per_token};
      if (prices_ != nullptr)
        set_cost(use, {.input = use.input, .output = use.output}, prices_->highest({}));
      return use;
    }
    const bool aborted = info_->inference->response.finish_reason.empty();
    const BilledTokens billed = billed_tokens(*info_, aborted);
    TokenUse use{.input = billed.input, .output = billed.output};
    const Price* const price = prices_ == nullptr ? nullptr : prices_->find(*info_->inference);
    if (price != nullptr) set_cost(use, billed, *price);
    return use;
  }

  const RequestInfo* info_;
  OutputEstimates* outputs_;
  const PriceList* prices_;
  std::unique_ptr<Reservation> reservation_;
};

/// The body of an answer that may have tokens.
class MeteredBody final : public Body {
 public:
  MeteredBody(BodyPtr body, Meter meter) : meter_(std::move(meter)), body_(std::move(body)) {}

  Task<Result<Chunk>> read() override { return body_->read(); }
  std::optional<std::uint64_t> length() const override { return body_->length(); }
  Block take_block() override { return body_->take_block(); }

 private:
  Meter meter_;  // dropped after the body, which may still count
  BodyPtr body_;
};

std::uint32_t milliseconds_of(Duration time) {
  constexpr auto most = milliseconds(std::numeric_limits<std::uint32_t>::max() - 1);
  if (time >= most) return static_cast<std::uint32_t>(most.count());
  return static_cast<std::uint32_t>(std::chrono::ceil<milliseconds>(time).count());
}

/// Writes a time as OpenAI does: "6m0s", "1.5s", "20ms".
std::string reset_text(Duration time) {
  const auto whole = std::chrono::ceil<milliseconds>(time);
  if (whole < std::chrono::seconds(1)) return std::to_string(whole.count()) + "ms";
  const auto minutes = std::chrono::floor<std::chrono::minutes>(whole);
  std::string text;
  if (minutes.count() >= 60) text += std::to_string(minutes.count() / 60) + "h";
  if (minutes.count() > 0) text += std::to_string(minutes.count() % 60) + "m";
  const auto rest = whole - minutes;
  text += std::to_string(rest.count() / 1000);
  if (rest.count() % 1000 != 0) {
    const std::string part = std::to_string(1000 + rest.count() % 1000);
    text.append(".").append(part, 1, part.find_last_not_of('0'));
  }
  return text += "s";
}

std::string reset_time(Duration time) {
  return rfc3339(std::chrono::round<std::chrono::seconds>(
      std::chrono::system_clock::now() +
      std::chrono::duration_cast<std::chrono::system_clock::duration>(time)));
}

/// The names of the fields that tell where a client stands with its limits of a kind.
struct StandingFields {
  std::string_view limit;
  std::string_view remaining;
  std::string_view reset;
};

struct FieldsOfApi {
  StandingFields requests;
  StandingFields tokens;
  StandingFields cost;
};

constexpr FieldsOfApi openai_fields{
    .requests = {"x-ratelimit-limit-requests", "x-ratelimit-remaining-requests",
                 "x-ratelimit-reset-requests"},
    .tokens = {"x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens",
               "x-ratelimit-reset-tokens"},
    .cost = {"x-ratelimit-limit-cost", "x-ratelimit-remaining-cost", "x-ratelimit-reset-cost"}};
constexpr FieldsOfApi anthropic_fields{
    .requests = {"anthropic-ratelimit-requests-limit", "anthropic-ratelimit-requests-remaining",
                 "anthropic-ratelimit-requests-reset"},
    .tokens = {"anthropic-ratelimit-tokens-limit", "anthropic-ratelimit-tokens-remaining",
               "anthropic-ratelimit-tokens-reset"},
    .cost = {"anthropic-ratelimit-cost-limit", "anthropic-ratelimit-cost-remaining",
             "anthropic-ratelimit-cost-reset"}};

/// Removes what a gateway behind this one has said.
void remove_standing(Fields& fields, const StandingFields& names) {
  fields.remove_if([&](const Field& field) {
    const auto is = [&](std::string_view name) {
      return field.name_size == name.size() && equals_ignore_case(field.name(), name);
    };
    return field.id == FieldId::other &&
           (is(names.limit) || is(names.remaining) || is(names.reset));
  });
}

/// True if a filter behind this one has said that less is left.
bool has_less(const Fields& fields, const StandingFields& names, LimitUnit unit,
              const LimitStanding& standing) {
  const auto text = fields.value(names.remaining);
  if (!text) return false;
  if (unit == LimitUnit::cost) {
    const auto amount = Amount::parse(*text);
    return amount && amount->millionths() <= standing.remaining;
  }
  const auto number = parse_number<std::uint64_t>(*text);
  return number && *number <= standing.remaining;
}

void add_standing(Response& response, const StandingFields& names, LimitUnit unit,
                  const LimitStanding& standing, const Request& request, bool is_anthropic) {
  if (standing.limit == 0) return;
  Fields& fields = response.fields;
  if (request.info.outcome.tells_limits && has_less(fields, names, unit, standing)) return;
  remove_standing(fields, names);
  const auto add = [&](std::string_view name, std::string_view value) {
    fields.add(name, fields.keep(value), FieldId::other);
  };
  add(names.limit, amount_text(unit, standing.limit));
  add(names.remaining, amount_text(unit, standing.remaining));
  add(names.reset, is_anthropic ? reset_time(standing.reset) : reset_text(standing.reset));
}

/// Says where the client stands, of the limit of each kind of which least is left.
void add_standings(Request& request, Response& response, const Reservation& reservation) {
  const ErrorFormat format = error_format_of(request);
  if (format == ErrorFormat::grpc) return;
  const bool is_anthropic = format == ErrorFormat::anthropic;
  const FieldsOfApi& names = is_anthropic ? anthropic_fields : openai_fields;
  const auto add = [&](const StandingFields& of_kind, LimitUnit unit,
                       const LimitStanding& standing) {
    add_standing(response, of_kind, unit, standing, request, is_anthropic);
  };
  add(names.requests, LimitUnit::requests, reservation.requests());
  add(names.tokens, LimitUnit::tokens, reservation.tokens());
  add(names.cost, LimitUnit::cost, reservation.cost());
  request.info.outcome.tells_limits = true;
}

/// True if the limit starts anew with the calendar.
bool is_of_calendar(const Limit& limit) { return limit.quota.rate.period >= LimitPeriod::day; }

Error error_of(const LimitRefusal& refusal) {
  if (refusal.limit == nullptr) {
    return {.fault = Fault::overloaded,
            .retry_after_ms = milliseconds_of(refusal.state.retry_after),
            .detail = "the limits cannot be checked: the shared state does not answer"};
  }
  const Limit& limit = *refusal.limit;
  const bool is_final = refusal.state.retry_after == QuotaState::never_granted;
  const std::string_view verb = limit.unit == LimitUnit::cost ? "cost" : "use";
  const std::string amount = amount_text(limit.unit, refusal.amount);
  std::string detail = "the limit of " + text_of(limit);
  if (is_final) {
    detail.append(" does not grant at once what this request may ").append(verb).append(": ");
    detail += amount + "; send a shorter prompt or a smaller max_tokens";
  } else if (is_settled(limit.unit)) {
    detail.append(" is reached: this request may ").append(verb).append(" ").append(amount);
    detail += ", " + amount_text(limit.unit, refusal.state.remaining) + " are left; try again in " +
              reset_text(refusal.state.retry_after);
  } else {
    detail += " is reached; try again in " + reset_text(refusal.state.retry_after);
  }
  return {.fault = is_of_calendar(limit) ? Fault::quota_exceeded : Fault::rate_limited,
          .side = Side::client,
          .retry_after_ms = is_final ? Error::never : milliseconds_of(refusal.state.retry_after),
          .counts_tokens = is_settled(limit.unit),
          .detail = std::move(detail)};
}

/// A client is not told how much its operator spends.
Error budget_error(const LimitRefusal& refusal, std::string_view pool) {
  // Libraries wait no longer for an answer.
  constexpr Duration max_wait = std::chrono::minutes(1);
  const Duration wait = refusal.state.retry_after;
  const bool is_final = wait == QuotaState::never_granted;
  std::string detail(pool);
  if (refusal.limit == nullptr) {
    detail += ": its budget cannot be checked: the shared state does not answer";
  } else if (is_final) {
    detail +=
        ": its budget does not grant what this request may use; send a shorter prompt or a smaller "
        "max_tokens";
  } else {
    detail += ": its budget is used up";
  }
  return {.fault = Fault::over_budget,
          .retry_after_ms = wait > max_wait ? Error::never : milliseconds_of(wait),
          .detail = std::move(detail)};
}

}  // namespace

Task<Result<Response>> LimitsFilter::handle(Request& request, Handler& next) {
  if (is_budget() && uses_no_model(request)) return next.handle(request);
  auto reservation = std::make_unique<Reservation>(use_, table_, request);
  if (reservation->is_empty()) return next.handle(request);
  const TokenUse estimate = estimate_of(request);
  if (store_ != nullptr) return ask_store(request, std::move(reservation), estimate, next);
  const auto refusal = reservation->take(estimate, QuotaTime::current());
  return decide(request, refusal, std::move(reservation), next);
}

/// Prices the model of a pool by the name that its backends get, and of a request without a pool by
/// the highest price.
TokenUse LimitsFilter::estimate_of(const Request& request) const {
  const InferenceInfo* const inference = request.info.inference.get();
  if (inference == nullptr) {
    const std::uint64_t bytes = request.body == nullptr ? 0 : request.body->length().value_or(0);
    TokenUse use{.input = bytes / bytes_per_token};
    if (prices_ != nullptr && !uses_no_model(request))
      set_cost(use, {.input = use.input, .output = 0}, prices_->highest({}));
    return use;
  }
  TokenUse use{.input = inference->request.estimated_prompt_tokens,
               .output = use_.outputs.tokens_of(inference->request),
               .guesses_output = !inference->request.max_tokens};
  if (prices_ == nullptr) return use;
  Price price;
  if (!is_budget()) {
    price = prices_->highest(inference->request.model);
  } else if (const Price* const found = prices_->find(*inference)) {
    price = *found;
  }
  set_cost(use, {.input = use.input, .output = use.output}, price);
  return use;
}

Task<Result<Response>> LimitsFilter::ask_store(Request& request,
                                               std::unique_ptr<Reservation> reservation,
                                               TokenUse estimate, Handler& next) {
  const auto refusal =
      co_await reservation->take_shared(*store_, on_failure_, estimate, QuotaTime::current());
  auto response = co_await decide(request, refusal, std::move(reservation), next);
  co_return response;
}

Task<Result<Response>> LimitsFilter::decide(Request& request,
                                            const std::optional<LimitRefusal>& refusal,
                                            std::unique_ptr<Reservation> reservation,
                                            Handler& next) {
  if (refusal) return refuse(request, *refusal, *reservation);
  if (reservation->is_over()) {
    // Also where the route, which may lower it, is known by the body only.
    request.info.identity.priority = Priority::batch;
    request.info.identity.tenant.max_priority = Priority::batch;
  }
  return serve(request, std::move(reservation), next);
}

Result<Response> LimitsFilter::refuse(Request& request, const LimitRefusal& refusal,
                                      const Reservation& reservation) const {
  if (is_budget()) return budget_error(refusal, pool_);
  const Error error = error_of(refusal);
  const ErrorFormat format = error_format_of(request);
  request.info.outcome.fault = error.fault;
  request.info.outcome.detail = request.fields.keep(error.detail);
  Response response = error_response(error, format);
  add_standings(request, response, reservation);
  allow_origin(request, response);
  return response;
}

Task<Result<Response>> LimitsFilter::serve(Request& request,
                                           std::unique_ptr<Reservation> reservation,
                                           Handler& next) {
  const Reservation& taken = *reservation;
  const PriceList* const prices = uses_no_model(request) ? nullptr : prices_;
  Meter meter(request.info, use_.outputs, prices, std::move(reservation));
  auto response = co_await next.handle(request);
  if (!response) {
    meter.discard();
    co_return response;
  }
  if (!is_budget()) add_standings(request, *response, taken);
  if (response->status >= 300 || response->body == nullptr) {
    meter.discard();
    co_return response;
  }
  response->body = std::make_unique<MeteredBody>(std::move(response->body), std::move(meter));
  co_return response;
}

}  // namespace evenkeel
