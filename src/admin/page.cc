#include "admin/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "admin/gzip.h"
#include "evenkeel/base/ascii.h"
#include "evenkeel/base/text_table.h"
#include "evenkeel/http/preferences.h"

namespace evenkeel {
namespace {

constexpr std::string_view folder = "/ui/";
/// Everything comes from this listener, and no other page may show this one.
constexpr std::string_view content_security_policy =
    "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'";

std::string_view content_type_of(std::string_view name) {
  if (name.ends_with(".html")) return "text/html; charset=utf-8";
  if (name.ends_with(".js")) return "text/javascript; charset=utf-8";
  if (name.ends_with(".css")) return "text/css; charset=utf-8";
  if (name.ends_with(".svg")) return "image/svg+xml";
  return "text/plain; charset=utf-8";
}

AdminReply redirect_to_page() {
  AdminReply reply = text_reply(302, "the live page is at /ui/\n");
  reply.fields.emplace_back("location", folder);
  reply.fields.emplace_back("vary", "accept");
  return reply;
}

/// True if an If-None-Match field names the tag (RFC 9110, section 13.1.2).
bool matches(std::string_view if_none_match, std::string_view etag) {
  while (!if_none_match.empty()) {
    const std::string_view item = if_none_match.substr(0, if_none_match.find(','));
    if_none_match.remove_prefix(std::min(if_none_match.size(), item.size() + 1));
    const std::string_view tag = trimmed(item);
    if (tag == etag || tag == "*") return true;
  }
  return false;
}

void protect(AdminReply& reply) {
  reply.fields.emplace_back("content-security-policy", content_security_policy);
  reply.fields.emplace_back("x-frame-options", "DENY");
  reply.fields.emplace_back("referrer-policy", "same-origin");
  reply.fields.emplace_back("cross-origin-resource-policy", "same-origin");
}

AdminReply file_reply(const PageFile& file, const AdminRequest& request) {
  AdminReply reply{.content_type = content_type_of(file.name), .cache_control = "no-cache"};
  reply.fields.emplace_back("etag", file.etag);
  reply.fields.emplace_back("vary", "accept-encoding");
  protect(reply);
  std::string body;
  if (matches(request.field("if-none-match").value_or(""), file.etag)) {
    reply.status = 304;
  } else if (weight_of_coding(request.field("accept-encoding").value_or(""), "gzip") > 0) {
    reply.gzipped = true;
    body = file.gzipped;
  } else {
    body = gunzip(file.gzipped);
  }
  reply.body = std::make_shared<const std::string>(std::move(body));
  return reply;
}

std::string cell(const JsonValue& value) {
  if (value.is_null()) return "-";
  return value.is_number() ? value.number_text() : value.text();
}

}  // namespace

std::optional<AdminReply> page_reply(const AdminRequest& request) {
  const std::string_view path = request.path();
  const bool browser =
      request.field("accept").value_or("").find("text/html") != std::string_view::npos;
  if (path == "/ui" || (path == "/" && browser)) return redirect_to_page();
  if (!path.starts_with(folder)) return std::nullopt;
  const std::string_view name = path == folder ? "index.html" : path.substr(folder.size());
  const auto files = page_files();
  const auto file = std::ranges::find(files, name, &PageFile::name);
  if (file == files.end()) return std::nullopt;
  return file_reply(*file, request);
}

AdminReply plain_page_reply(const JsonValue& status, const JsonValue::List& backends) {
  constexpr auto right = TableColumn::Align::right;
  TextTable table({{"POOL"},
                   {"BACKEND"},
                   {"STATE"},
                   {"SINCE"},
                   {"IN FLIGHT", right},
                   {"WAITING", right},
                   {"PICKS", right},
                   {"ERRORS", right},
                   {"WHY"}});
  for (const JsonValue& backend : backends) {
    std::vector<std::string> row;
    for (const char* const name : {"pool", "id", "state", "since", "in_flight", "waiting",
                                   "picks_total", "errors_total", "reason"}) {
      row.push_back(cell(backend[name]));
    }
    table.add(std::move(row));
  }
  std::string text =
      fmt::format("evenkeel {}, up for {:.0f} s\n\n{}\n", cell(status["version"]),
                  status["uptime_seconds"].number().value_or(0), fmt::join(table.lines(), "\n"));
  AdminReply reply = text_reply(200, std::move(text));
  reply.fields.emplace_back("refresh", "5");
  protect(reply);
  return reply;
}

}  // namespace evenkeel
