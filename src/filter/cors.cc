#include "evenkeel/filter/cors.h"

#include <algorithm>

#include "evenkeel/base/ascii.h"
#include "evenkeel/base/glob.h"
#include "evenkeel/http/cors.h"

namespace evenkeel {
namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += ", ";
    text += word;
  }
  return text;
}

/// True for scheme://host[:port], as browsers write origins; not for "null".
bool is_origin(std::string_view text) {
  const std::size_t scheme_end = text.find("://");
  if (scheme_end == std::string_view::npos) return false;
  return std::ranges::all_of(text.substr(scheme_end + 3), [](char c) {
    return is_letter_or_digit(c) || c == '.' || c == '-' || c == '_' || c == ':' || c == '[' ||
           c == ']';
  });
}

Task<Result<Response>> handle_page(const ByRoute<CorsRules>& all_rules, Request& request,
                                   CorsRequest asked, Handler& next) {
  auto response = co_await next.handle(request);
  if (!response) co_return response;
  const CorsRules* const rules = all_rules.find(request.info.identity);
  if (rules != nullptr) rules->apply(asked, *response);
  co_return response;
}

}  // namespace

CorsRules::CorsRules(const CorsConfig& config)
    : origins_(config.origins),
      any_origin_(std::ranges::find(origins_, "*") != origins_.end()),
      credentials_(config.credentials),
      methods_(joined(config.methods)),
      headers_(joined(config.headers)) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(config.max_age).count();
  if (seconds > 0) max_age_ = std::to_string(seconds);
}

void CorsRules::apply(const CorsRequest& asked, Response& response) const {
  Fields& fields = response.fields;
  remove_cors_fields(fields);
  if (!any_origin_) fields.add("vary", "origin");
  if (asked.origin.empty() || !allows(asked.origin)) return;
  fields.add("access-control-allow-origin",
             any_origin_ ? std::string_view("*") : fields.keep(asked.origin));
  if (credentials_) fields.add("access-control-allow-credentials", "true");
  if (!asked.method.empty()) return answer_preflight(asked, fields);
  // With credentials, a star is the name of a field.
  fields.add("access-control-expose-headers",
             credentials_ ? "x-request-id, x-evenkeel-reason, retry-after, retry-after-ms" : "*");
}

void CorsRules::answer_preflight(const CorsRequest& asked, Fields& fields) const {
  fields.add("access-control-allow-methods",
             methods_.empty() ? fields.keep(asked.method) : std::string_view(methods_));
  if (!headers_.empty()) {
    fields.add("access-control-allow-headers", headers_);
  } else if (!asked.headers.empty()) {
    fields.add("access-control-allow-headers", fields.keep(asked.headers));
  }
  if (!max_age_.empty()) fields.add("access-control-max-age", max_age_);
}

bool CorsRules::allows(std::string_view origin) const {
  if (any_origin_) return true;
  return is_origin(origin) && std::ranges::any_of(origins_, [origin](const std::string& glob) {
           return matches_glob(glob, origin, LetterCase::ignored);
         });
}

CorsFilter::CorsFilter(const std::vector<RouteConfig>& routes)
    : rules_(routes, [](const RouteConfig& route) {
        return route.cors ? std::optional<CorsRules>(*route.cors) : std::nullopt;
      }) {}

/// What the page asks for is read here: a route may remove it from what its backends get.
Task<Result<Response>> CorsFilter::handle(Request& request, Handler& next) {
  const Fields& fields = request.fields;
  const CorsRequest asked{.origin = fields.value("origin").value_or(""),
                          .method = preflighted_method(request),
                          .headers = fields.value("access-control-request-headers").value_or("")};
  return handle_page(rules_, request, asked, next);
}

}  // namespace evenkeel
