#include "evenkeel/filter/compression.h"

#include <algorithm>
#include <array>
#include <utility>

#include "evenkeel/base/ascii.h"
#include "evenkeel/http/grpc.h"
#include "evenkeel/http/media_type.h"
#include "evenkeel/http/preferences.h"

namespace evenkeel {
namespace {

constexpr std::array<std::string_view, 2> coding_names = {"zstd", "gzip"};

std::string_view name_of(ContentCoding coding) {
  return coding_names[static_cast<std::size_t>(coding)];
}

/// True if a field that is a list has this word. There may be several fields of that name.
bool lists_word(const Fields& fields, std::string_view name, std::string_view word) {
  return std::ranges::any_of(fields, [&](const Field& field) {
    if (!equals_ignore_case(field.name(), name)) return false;
    std::string_view rest = field.value();
    while (const auto each = next_preference(rest)) {
      if (equals_ignore_case(each->value, word)) return true;
    }
    return false;
  });
}

/// True if the status is that of a whole document.
bool has_whole_content(int status) {
  return status >= 200 && status != 204 && status != 205 && status != 206 && status != 304;
}

/// The value of all `accept-encoding` fields.
std::string_view accepted_codings(Request& request) {
  static constexpr std::string_view name = "accept-encoding";
  const auto is_one = [](const Field& field) { return equals_ignore_case(field.name(), name); };
  if (std::ranges::count_if(request.fields, is_one) < 2)
    return request.fields.value(name).value_or("");
  std::string all;
  for (const Field& field : request.fields) {
    if (is_one(field)) all.append(field.value()).append(",");
  }
  return request.fields.keep(all);
}

}  // namespace

CompressionRules::CompressionRules(const CompressionConfig& config)
    : codings_(config.codings), types_(config.types), min_bytes_(config.min_bytes) {}

bool CompressionRules::has_type(std::string_view content_type) const {
  if (is_media_type(content_type, "text/event-stream") ||
      is_media_type(content_type, "application/x-ndjson") || is_grpc_content(content_type)) {
    return false;
  }
  const std::string_view type = media_type_of(content_type);
  return std::ranges::any_of(types_, [type](std::string_view each) {
    if (!each.ends_with("/*")) return equals_ignore_case(type, each);
    each.remove_suffix(1);
    return starts_with_ignore_case(type, each);
  });
}

bool CompressionRules::cover(const Response& response) const {
  const Fields& fields = response.fields;
  if (response.body == nullptr || !has_whole_content(response.status)) return false;
  if (fields.has(FieldId::content_encoding) || fields.value("content-range")) return false;
  const auto type = fields.value(FieldId::content_type);
  if (!type || !has_type(*type)) return false;
  const auto length = response.declared_length ? response.declared_length : response.body->length();
  return (!length || *length >= min_bytes_) && !lists_word(fields, "cache-control", "no-transform");
}

std::optional<ContentCoding> CompressionRules::coding_for(std::string_view accept_encoding) const {
  if (accept_encoding.empty()) return std::nullopt;
  std::optional<ContentCoding> best;
  double most = 0;
  for (const ContentCoding coding : codings_) {
    const double weight = weight_of_coding(accept_encoding, name_of(coding));
    if (weight <= most) continue;
    best = coding;
    most = weight;
  }
  return weight_of_coding(accept_encoding, "identity") > most ? std::nullopt : best;
}

void mark_compressed(Fields& fields, ContentCoding coding) {
  constexpr std::array<std::string_view, 5> of_bytes = {"accept-ranges", "content-md5", "digest",
                                                        "content-digest", "repr-digest"};
  fields.remove_if([&](const Field& field) {
    return std::ranges::any_of(
        of_bytes, [&](std::string_view name) { return equals_ignore_case(field.name(), name); });
  });
  fields.add("content-encoding", name_of(coding), FieldId::content_encoding);
  // The bytes are not those that the tag is for, but they mean the same.
  for (Field& field : fields) {
    if (!equals_ignore_case(field.name(), "etag") || field.value().starts_with("W/")) continue;
    const std::string_view weak = fields.keep("W/" + std::string(field.value()));
    field.value_begin = weak.data();
    field.value_size = static_cast<std::uint32_t>(weak.size());
  }
}

CompressionFilter::CompressionFilter(Loop& loop, const std::vector<RouteConfig>& routes)
    : loop_(loop), rules_(routes, [](const RouteConfig& route) {
        return route.compression ? std::optional<CompressionRules>(*route.compression)
                                 : std::nullopt;
      }) {}

/// What the client accepts is read here: backends may be asked for bytes as they are.
Task<Result<Response>> CompressionFilter::handle(Request& request, Handler& next) {
  return compress(request, accepted_codings(request), next);
}

Task<Result<Response>> CompressionFilter::compress(Request& request,
                                                   std::string_view accept_encoding,
                                                   Handler& next) {
  auto response = co_await next.handle(request);
  if (!response) co_return response;
  const CompressionRules* const rules = rules_.find(request.info.identity);
  if (rules == nullptr || !rules->cover(*response)) co_return response;
  Fields& fields = response->fields;
  if (!lists_word(fields, "vary", "accept-encoding") && !lists_word(fields, "vary", "*"))
    fields.add("vary", "accept-encoding");
  const auto coding = rules->coding_for(accept_encoding);
  if (!coding || request.method == "HEAD") co_return response;
  auto compressor = compressors_.lend(*coding);
  if (compressor == nullptr) co_return response;
  mark_compressed(fields, *coding);
  response->declared_length.reset();
  response->body = std::make_unique<CompressedBody>(loop_, std::move(response->body),
                                                    std::move(compressor), request.info.outcome);
  co_return response;
}

}  // namespace evenkeel
