#include "upstream/model_lister.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "evenkeel/inference/engine_health.h"
#include "evenkeel/inference/engine_identity.h"
#include "evenkeel/upstream/redirect.h"

namespace evenkeel {
namespace {

constexpr Duration list_interval = std::chrono::seconds(30);
constexpr Duration list_timeout = std::chrono::seconds(5);
/// The delay after a failure, doubled with each in a row, up to `list_interval`.
constexpr Duration first_retry_delay = std::chrono::seconds(1);
/// The interval for a server that has no such list, or wants a key for it.
constexpr Duration refused_interval = std::chrono::minutes(5);

/// Longer names are no model's.
constexpr std::size_t max_id = 512;

/// Changes the access so that no second connection is kept for each backend.
ServerAccess without_kept_links(ServerAccess access) {
  access.keeps_links = false;
  return access;
}

bool is_refusal(int status) {
  return status >= 400 && status < 500 && status != 408 && status != 429;
}

bool has_no_such_list(int status) { return status == 404 || status == 405 || status == 501; }

struct ReadList {
  std::vector<ModelCard> cards;  // each once
  std::string problem;           // why these are not all; empty: they are
};

/// Nothing if the body is no list of models.
std::optional<ReadList> read_list(std::string body) {
  std::size_t odd = 0;
  const auto cards = read_model_cards(std::move(body), &odd);
  if (!cards) return std::nullopt;
  ReadList list;
  std::set<std::string_view> seen;
  for (const ModelCard& card : *cards) {
    if (card.id.size() > max_id) {
      ++odd;
    } else if (seen.insert(card.id).second) {
      if (list.cards.size() == max_models) {
        list.problem = fmt::format("only the first {} of its models are taken", max_models);
        return list;
      }
      list.cards.push_back(card);
    }
  }
  if (odd > 0) list.problem = fmt::format("{} of its entries name no model", odd);
  return list;
}

}  // namespace

ModelLister::ModelLister(Loop& loop, std::uint64_t seed, ServerAccess access,
                         std::function<void()> on_connect)
    : loop_(loop),
      rng_(seed),
      access_(std::move(access)),
      on_connect_(std::move(on_connect)),
      client_(loop, without_kept_links(access_)),
      wake_now_(loop) {
  run_ = run();
}

Task<void> ModelLister::run() {
  while (true) {
    const Duration delay = co_await list();
    const double jitter = 0.9 + 0.2 * rng_.unit();
    co_await wake_now_.wait(loop_.now() + std::chrono::duration_cast<Duration>(delay * jitter));
  }
}

/// Returns the delay before the next request.
Task<Duration> ModelLister::list() {
  BackendClientRequest request{.path = model_path(ModelListing::openai, {})};
  auto answer = co_await client_.fetch(std::move(request), loop_.now() + list_timeout);
  if (!answer) {
    const Fault fault = answer.error().fault;
    if (fault == Fault::connect_failed) forget();
    if (fault == Fault::backend_protocol) co_return refused_interval;  // it speaks gRPC only
    if (fault == Fault::first_byte_timeout) set_problem(answer.error().detail);
    co_return after_failure();
  }
  on_connect_();
  std::optional<ReadList> list;
  if (answer->status == 200 && answer->complete) list = read_list(std::move(answer->body));
  if (list) {
    retry_delay_ = Duration::zero();
    set_problem(std::move(list->problem));
    keep(std::move(list->cards));
    co_return list_interval;
  }
  set_problem(has_no_such_list(answer->status) ? ""
              : answer->status != 200          ? describe_status(answer->status, answer->location)
              : answer->complete               ? "not a list of models"
                                               : "longer than 1 MiB");
  if (answer->status != 200 && !is_refusal(answer->status)) co_return after_failure();
  forget();
  co_return refused_interval;
}

Duration ModelLister::after_failure() {
  retry_delay_ = std::clamp<Duration>(2 * retry_delay_, first_retry_delay, list_interval);
  return retry_delay_;
}

/// Keeps the present list if it is the same, since snapshots share it.
void ModelLister::keep(std::vector<ModelCard> cards) {
  const auto same = [](const ModelCard& a, const ModelCard& b) { return a.same_model(b); };
  if (cards_ != nullptr && std::ranges::equal(*cards_, cards, same)) return;
  std::vector<std::string> ids;
  for (const ModelCard& card : cards) ids.push_back(card.id);
  cards_ = std::make_shared<const std::vector<ModelCard>>(std::move(cards));
  models_ = std::make_shared<const std::vector<std::string>>(std::move(ids));
  ++revision_;
}

void ModelLister::set_problem(std::string problem) {
  if (problem == problem_) return;
  problem_ = std::move(problem);
  ++revision_;
}

void ModelLister::forget() {
  if (cards_ == nullptr) return;
  cards_ = nullptr;
  models_ = nullptr;
  ++revision_;
}

}  // namespace evenkeel
