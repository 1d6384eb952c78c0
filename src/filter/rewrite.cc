#include "evenkeel/filter/rewrite.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "evenkeel/filter/inspect.h"
#include "evenkeel/json/writer.h"

namespace evenkeel {
namespace {

/// Why the name of the model cannot be replaced by `model` where it must be; nothing if it can,
/// need not be, or there is none.
std::optional<Error> obstacle_of(const InferenceInfo& info, std::string_view model) {
  if (!info.places.model_values.empty() || !info.places.names_model) return std::nullopt;
  if (!info.places.is_json && info.request.model == model) return std::nullopt;
  if (info.places.is_json && info.request.complete) return std::nullopt;
  if (info.cut_short) return no_room_for_bodies();
  if (info.places.is_json) {
    return Error{.fault = Fault::body_too_large,
                 .side = Side::client,
                 .detail =
                     "\"model\" is not in the part of the body that is inspected "
                     "(limits.inspected_body), and its name must be replaced"};
  }
  if (info.request.complete && info.request.model.empty()) return std::nullopt;
  return Error{
      .fault = Fault::bad_request,
      .side = Side::client,
      .detail = "the name of the model must be replaced, which needs a body of plain JSON"};
}

/// Why members of the body cannot be changed; nothing if they can.
std::optional<Error> obstacle_to_changes(const InferenceInfo& info) {
  if (info.places.is_json && info.request.complete) return std::nullopt;
  if (info.cut_short) return no_room_for_bodies();
  if (info.places.is_json) {
    return Error{.fault = Fault::body_too_large,
                 .side = Side::client,
                 .detail = "the body is too large to be changed (limits.inspected_body)"};
  }
  return Error{.fault = Fault::bad_request,
               .side = Side::client,
               .detail = "parameters of the body must be changed, which needs plain JSON"};
}

Error too_many_tokens(std::uint32_t asked, std::uint32_t most) {
  return {.fault = Fault::bad_request,
          .side = Side::client,
          .detail = "max_tokens is too large: " + std::to_string(asked) + ", and at most " +
                    std::to_string(most) + " are allowed"};
}

}  // namespace

RewriteFilter::RewriteFilter(const PoolConfig& pool, bool adds_usage, const RouteBodyRules& rules)
    : model_{pool.model, pool.model.empty() ? std::string() : json_string(pool.model)},
      names_([&pool] {
        std::map<std::string, ServedName, std::less<>> names;
        for (const auto& [client, served] : pool.model_names)
          names[client] = {served, json_string(served)};
        return names;
      }()),
      is_hosted_(pool.hosted),
      adds_usage_(adds_usage),
      rules_(rules) {
  if (!pool.body.empty()) body_.emplace(pool.body, rules.members());
}

Task<Result<Response>> RewriteFilter::handle(Request& request, Handler& next) {
  if (request.info.inference == nullptr || request.body == nullptr) return next.handle(request);
  InferenceInfo& info = *request.info.inference;
  const std::optional<std::uint32_t> max_tokens = info.request.max_tokens;
  std::vector<BodyEdit> edits;
  if (auto obstacle = rename(request, edits)) return Result<Response>(std::move(*obstacle));
  if (auto obstacle = change(request, edits)) return Result<Response>(std::move(*obstacle));
  add_usage(info, edits);
  if (edits.empty()) return next.handle(request);
  std::ranges::sort(edits, {}, [](const BodyEdit& edit) { return edit.replaced.begin; });
  return rewrite(request, std::move(edits), max_tokens, next);
}

const RewriteFilter::ServedName& RewriteFilter::served_name(std::string_view asked) const {
  const auto found = names_.empty() ? names_.end() : names_.find(asked);
  return found == names_.end() ? model_ : found->second;
}

std::optional<Error> RewriteFilter::rename(Request& request, std::vector<BodyEdit>& edits) const {
  if (model_.name.empty() && names_.empty()) return std::nullopt;
  InferenceInfo& info = *request.info.inference;
  const ServedName& served = served_name(info.request.model);
  info.served_model = served.name;
  // Only a name that is not known yet may be one that must be replaced.
  const bool stays = served.name.empty() && (!info.request.model.empty() || !info.places.is_json);
  if (stays) return std::nullopt;
  if (auto obstacle = obstacle_of(info, served.name)) return obstacle;
  for (const BodyRange& range : info.places.model_values)
    edits.push_back({.replaced = range, .by = served.quoted});
  // The name in a compressed response could not be replaced.
  if (served.name != info.request.model) request.fields.remove("accept-encoding");
  return std::nullopt;
}

/// Changes members of requests for text, in OpenAI's APIs and Anthropic's.
std::optional<Error> RewriteFilter::change(Request& request, std::vector<BodyEdit>& edits) const {
  InferenceInfo& info = *request.info.inference;
  const BodyRules* const of_route = rules_.find(request.info.identity);
  const RequestTenant& tenant = request.info.identity.tenant;
  const std::uint32_t most = tenant.max_tokens;
  const std::string salt =
      tenant.cache_salt.empty() || is_hosted_ ? std::string() : json_string(tenant.cache_salt);
  const bool has_rules = of_route != nullptr || body_ || most > 0 || !salt.empty();
  if (!has_rules || info.places.max_tokens_name.empty()) return std::nullopt;
  if (auto obstacle = obstacle_to_changes(info)) return obstacle;
  BodyChanges changes(info, rules_.members());
  if (most > 0 && changes.max_tokens() > most) return too_many_tokens(*changes.max_tokens(), most);
  if (of_route != nullptr) changes.apply(*of_route);
  if (body_) changes.apply(*body_);
  if (most > 0) changes.limit_tokens(most);
  if (!salt.empty()) changes.set_cache_salt(salt);
  if (changes.empty()) return std::nullopt;
  changes.add_to(edits);
  if (changes.max_tokens()) info.request.max_tokens = changes.max_tokens();
  return std::nullopt;
}

void RewriteFilter::add_usage(const InferenceInfo& info, std::vector<BodyEdit>& edits) const {
  const InferenceRequest& asked = info.request;
  const auto begin = info.places.object_begin;
  if (!adds_usage_ || !asked.complete || !asked.stream) return;
  if (!begin || !info.places.takes_stream_options) return;
  edits.push_back({.replaced = {*begin, *begin},
                   .by = R"("stream_options":{"include_usage":true},)",
                   .applies = &info.usage_added});
}

/// `max_tokens`: what the client asked for.
Task<Result<Response>> RewriteFilter::rewrite(Request& request, std::vector<BodyEdit> edits,
                                              std::optional<std::uint32_t> max_tokens,
                                              Handler& next) const {
  InferenceInfo& info = *request.info.inference;
  info.wants_usage =
      std::ranges::any_of(edits, [](const BodyEdit& edit) { return edit.applies != nullptr; });
  auto spliced = std::make_unique<SplicedBody>(std::move(request.body), std::move(edits));
  SplicedBody& body = *spliced;
  request.body = std::move(spliced);
  auto response = co_await next.handle(request);
  if (response) co_return response;
  info.wants_usage = info.usage_added = false;
  info.served_model = {};
  info.request.max_tokens = max_tokens;
  body.rewind();  // if it cannot be, no other pool gets it: see Fallback
  request.body = body.release();
  co_return response;
}

}  // namespace evenkeel
