#include "evenkeel/filter/error_pages.h"

#include <algorithm>
#include <optional>

#include "evenkeel/http/grpc.h"
#include "evenkeel/http/media_type.h"
#include "evenkeel/http/preferences.h"

namespace evenkeel {
namespace {

/// True if evenkeel made the response. One of a backend may have the field too: that of another
/// evenkeel.
bool is_own_error(const RequestInfo& info, const Response& response) {
  return info.outcome.fault && response.fields.value("x-evenkeel-reason");
}

/// True if the client names the type of the page, and likes it better than that of the error.
bool prefers(std::string_view accept, std::string_view page_type, std::string_view error_type) {
  const std::string_view type = media_type_of(page_type);
  const double weight = weight_of_named_type(accept, type);
  const std::string_view other = media_type_of(error_type);
  if (equals_ignore_case(type, other)) return weight > 0;
  return weight > weight_of_named_type(accept, other);
}

}  // namespace

ErrorPages::ErrorPages(const std::vector<RouteConfig>& routes, const ErrorPageTexts& texts)
    : pages_(routes, [&](const RouteConfig& route) -> std::optional<std::vector<Page>> {
        if (route.error_pages.empty()) return std::nullopt;
        std::vector<Page> pages;
        for (const ErrorPageConfig& each : route.error_pages) {
          const auto text = texts.find(each.file);
          if (text != texts.end()) pages.push_back({each.status, each.content_type, text->second});
        }
        return pages;
      }) {}

void ErrorPages::apply(const Request& request, std::string_view accept, Response& response) const {
  if (!is_own_error(request.info, response) || is_grpc(request)) return;
  const std::vector<Page>* const pages = pages_.find(request.info.identity);
  if (pages == nullptr) return;
  const auto page = std::ranges::find_if(*pages, [&](const Page& each) {
    return std::ranges::find(each.status, response.status) != each.status.end();
  });
  if (page == pages->end()) return;
  Fields& fields = response.fields;
  fields.add("vary", "accept");
  const auto error_type = fields.value(FieldId::content_type).value_or("");
  if (!prefers(accept, page->content_type, error_type)) return;
  fields.remove(FieldId::content_type);
  fields.add("content-type", page->content_type, FieldId::content_type);
  response.body = make_body(page->text);
}

}  // namespace evenkeel
