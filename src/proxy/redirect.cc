#include "proxy/redirect.h"

#include <algorithm>
#include <string_view>

#include "evenkeel/base/ascii.h"
#include "evenkeel/base/path.h"
#include "evenkeel/base/query.h"
#include "evenkeel/http/cors.h"

namespace evenkeel {
namespace {

constexpr std::string_view open_end = "/**";
constexpr std::string_view clients_host = "$host";

/// Keeps what has a meaning in URLs, and what is encoded already.
std::string encoded(std::string_view text) { return percent_encoded(text, "%!$&'()*+,;=:@/?[]"); }

/// The host of an authority with its brackets; empty if it is none.
std::string_view bare_host(std::string_view authority) {
  const std::size_t bracket = authority.starts_with('[') ? authority.find(']') : 0;
  if (bracket == std::string_view::npos) return {};
  const std::string_view host = authority.substr(0, authority.find(':', bracket));
  const bool is_host = std::ranges::all_of(host, [](char c) {
    return is_letter_or_digit(c) || c == '.' || c == '-' || c == '_' || c == ':' || c == '[' ||
           c == ']';
  });
  return is_host ? host : std::string_view();
}

}  // namespace

Redirect::Redirect(const RouteConfig& route)
    : base_(route.redirect->to),
      status_(route.redirect->status),
      segments_(segments_before_rest(route.match.path)),
      keeps_rest_(base_.ends_with(open_end)),
      keeps_query_(base_.find('?') == std::string::npos) {
  if (keeps_rest_) base_.resize(base_.size() - open_end.size());
  if (base_.ends_with('?')) base_.pop_back();
  const std::size_t host = base_.find(clients_host);
  if (host == std::string::npos) return;
  before_host_ = base_.substr(0, host);
  base_.erase(0, host + clients_host.size());
}

Result<Response> Redirect::answer(const Request& request) const {
  std::string location = before_host_;
  if (!before_host_.empty()) {
    const std::string_view host = bare_host(request.authority);
    if (host.empty()) {
      return Error{.fault = Fault::bad_request,
                   .side = Side::client,
                   .detail = "the request names no host to be redirected on"};
    }
    location += host;
  }
  location += base_;
  if (keeps_rest_) {
    std::string storage;
    const auto path = normalised_path(request.path, storage);
    if (!path) return path.error();
    const std::string rest = encoded(after_segments(*path, segments_));
    const std::size_t scheme_end = base_.find("://");
    const bool has_path =
        base_.find('/', scheme_end == std::string::npos ? 0 : scheme_end + 3) != std::string::npos;
    location += rest.empty() && !has_path ? "/" : rest;
  }
  if (keeps_query_) location += encoded(query_of(request.path));
  Response response{.status = status_};
  response.fields.add("location", response.fields.keep(location));
  allow_origin(request, response);
  return response;
}

}  // namespace evenkeel
