#include "sim/http_response.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "evenkeel/json/writer.h"

namespace evenkeel {

Response respond(int status, std::string_view content_type, std::string body) {
  Response response;
  response.status = status;
  if (!body.empty()) response.fields.add("content-type", content_type);
  response.fields.add("server", "evenkeel-sim");
  response.body = make_body(std::move(body));
  return response;
}

Response respond_json(int status, std::string body) {
  return respond(status, "application/json", std::move(body));
}

std::string error_object(std::string_view message) {
  return R"({"error":)" + json_string(message) + '}';
}

Response respond_event_stream(BodyPtr body) {
  Response response;
  response.fields.add("content-type", "text/event-stream; charset=utf-8");
  response.fields.add("server", "evenkeel-sim");
  response.body = std::move(body);
  return response;
}

Task<Result<std::string>> read_all(Request& request) {
  std::string body;
  if (request.body == nullptr) co_return body;
  if (const auto length = request.body->length()) body.reserve(*length);
  while (true) {
    auto chunk = co_await request.body->read();
    if (!chunk) co_return std::move(chunk.error());
    body += chunk->bytes;
    if (chunk->last) co_return body;
  }
}

std::string base64(std::string_view bytes) {
  constexpr char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::size_t left = std::min<std::size_t>(3, bytes.size() - at);
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      group = group << 8 | (i < left ? static_cast<unsigned char>(bytes[at + i]) : 0u);
    }
    for (std::size_t i = 0; i < 4; ++i) {
      out += i <= left ? letters[(group >> (18 - 6 * i)) & 63] : '=';
    }
  }
  return out;
}

}  // namespace evenkeel
