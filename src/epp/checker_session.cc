#include "epp/checker_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "evenkeel/base/rng.h"
#include "evenkeel/json/writer.h"

namespace evenkeel {
namespace {

constexpr std::string_view subset_space = "envoy.lb.subset_hint";
constexpr std::string_view subset_key = "x-gateway-destination-endpoint-subset";
constexpr std::string_view served_key = "x-gateway-destination-endpoint-served";

using Headers = ext_proc::HeaderMap;

void add_header(Headers& headers, std::string_view name, std::string_view value) {
  ext_proc::HeaderValue& header = *headers.add_headers();
  header.set_key(std::string(name));
  header.set_raw_value(std::string(value));
}

void set_metadata(ext_proc::ProcessingRequest& message, std::string_view space,
                  std::string_view key, ext_proc::Value value) {
  auto& spaces = *message.mutable_metadata_context()->mutable_filter_metadata();
  (*spaces[std::string(space)].mutable_fields())[std::string(key)] = std::move(value);
}

void add_unknown_fields(ext_proc::ProcessingRequest& message) {
  // Numbers 1000 (a varint) and 1001 (bytes).
  constexpr std::string_view unknown("\xc0\x3e\x07\xca\x3e\x03new", 9);
  message.MergeFromString(std::string(unknown));
  auto& attributes = *message.mutable_attributes();
  auto& fields = *attributes["envoy.filters.http.ext_proc"].mutable_fields();
  fields["source.address"].set_string_value("192.0.2.7:40000");
  fields["request.size"].set_number_value(1024);
}

bool has_answered_request(const PickerAnswer& answer, bool bodiless, bool trailers) {
  if (answer.count(AnswerPart::head) == 0) return false;
  if (trailers) return answer.count(AnswerPart::trailers) > 0;
  return bodiless || answer.body.ends > 0;
}

/// True if the picker has sent everything back and has not said that this was all.
bool lacks_end(const PickerAnswer& answer, const ProxiedRequest& request) {
  return !request.bodiless && !request.trailers && answer.count(AnswerPart::head) > 0 &&
         answer.body.bytes.size() >= request.body_bytes();
}

bool has_answered_response(const PickerAnswer& answer, bool trailers) {
  if (answer.count(AnswerPart::response_head) == 0) return false;
  if (trailers) return answer.count(AnswerPart::response_trailers) > 0;
  return answer.response_body.ends > 0;
}

}  // namespace

std::size_t ProxiedRequest::body_bytes() const {
  std::size_t bytes = 0;
  for (const std::string& chunk : chunks) bytes += chunk.size();
  return bytes;
}

std::string ProxiedRequest::body() const {
  std::string all;
  all.reserve(body_bytes());
  for (const std::string& chunk : chunks) all += chunk;
  return all;
}

std::vector<std::string> chunks_of(std::string_view bytes, std::size_t max_bytes, bool irregular) {
  Rng rng(bytes.size());
  std::vector<std::string> chunks;
  while (!bytes.empty()) {
    const std::size_t size = irregular ? 1 + rng() % max_bytes : max_bytes;
    chunks.emplace_back(bytes.substr(0, size));
    bytes.remove_prefix(std::min(size, bytes.size()));
  }
  return chunks;
}

CheckSession::CheckSession(Loop& loop, ServerAccess access, const PickerCheckOptions& options)
    : loop_(loop), options_(options), access_(std::move(access)), client_(loop_, access_) {}

Task<Result<Done>> CheckSession::reach() {
  GrpcCall hello{.path = "/grpc.health.v1.Health/Check"};
  auto reply = co_await client_.call(std::move(hello), deadline());
  if (reply) co_return Done{};
  const Fault fault = reply.error().fault;
  const bool is_there = fault == Fault::first_byte_timeout || fault == Fault::backend_closed;
  if (is_there) co_return Done{};
  co_return std::move(reply.error());
}

Task<void> CheckSession::begin() {
  ProxiedRequest small = request();
  auto answer = co_await exchange(std::move(small));
  first_ = std::move(answer);
}

std::string CheckSession::known_endpoint() const {
  if (!options_.subset.empty()) return options_.subset;
  const std::vector<std::string> endpoints = first_.endpoints();
  return endpoints.empty() ? "" : endpoints.front();
}

ProxiedRequest CheckSession::request() const {
  ProxiedRequest request;
  request.chunks = {document(1024)};
  return request;
}

std::string CheckSession::document(std::size_t bytes) const {
  const bool is_chat = options_.path.find("chat") != std::string::npos;
  std::string text = "{\"model\":";
  append_json_string(text, options_.model.empty() ? "test" : options_.model);
  text += is_chat ? R"(,"messages":[{"role":"user","content":")" : R"(,"prompt":")";
  const std::string_view end = is_chat ? "\"}],\"max_tokens\":1}" : "\",\"max_tokens\":1}";
  Rng rng(bytes);
  while (text.size() + end.size() < bytes) {
    const std::uint64_t letter = rng() % 32;
    text += letter < 26 ? static_cast<char>('a' + letter) : ' ';
  }
  return text += end;
}

std::unique_ptr<CheckStream> CheckSession::open() {
  return std::make_unique<CheckStream>(loop_, client_, access_);
}

void CheckSession::send_head(CheckStream& stream, const ProxiedRequest& request) const {
  ext_proc::ProcessingRequest message;
  ext_proc::HttpHeaders& head = *message.mutable_request_headers();
  head.set_end_of_stream(request.bodiless);
  Headers& headers = *head.mutable_headers();
  add_header(headers, ":authority", "models.example");
  add_header(headers, ":path", request.bodiless ? "/v1/models" : options_.path);
  add_header(headers, ":method", request.method);
  add_header(headers, ":scheme", "http");
  add_header(headers, "x-request-id", "6f9c1f0e-5c55-4c5d-9a52-8f3b9b7e7a10");
  if (!request.bodiless) add_header(headers, "content-type", "application/json");
  if (!request.bodiless && !request.trailers) {
    add_header(headers, "content-length", std::to_string(request.body_bytes()));
  }
  if (!request.claimed.empty()) add_header(headers, destination_header, request.claimed);
  for (const auto& [name, value] : options_.headers) add_header(headers, name, value);
  if (request.subset.kind_case() != ext_proc::Value::KIND_NOT_SET) {
    set_metadata(message, subset_space, subset_key, request.subset);
  }
  ext_proc::ProtocolConfiguration& protocol = *message.mutable_protocol_config();
  protocol.set_request_body_mode(request.mode);
  protocol.set_response_body_mode(request.mode);
  if (request.unknown_fields) add_unknown_fields(message);
  stream.send(message);
}

void CheckSession::send_body(CheckStream& stream, const ProxiedRequest& request) const {
  if (request.bodiless) return;
  const bool end_apart = request.end_apart || request.chunks.empty();
  const auto send_chunk = [&](const std::string& bytes, bool last) {
    ext_proc::ProcessingRequest message;
    message.mutable_request_body()->set_body(bytes);
    message.mutable_request_body()->set_end_of_stream(last && !request.trailers);
    if (request.unknown_fields) add_unknown_fields(message);
    stream.send(message);
  };
  for (const std::string& chunk : request.chunks) {
    send_chunk(chunk, !end_apart && &chunk == &request.chunks.back());
  }
  if (request.trailers) {
    ext_proc::ProcessingRequest message;
    add_header(*message.mutable_request_trailers()->mutable_trailers(), "x-checksum", "1234");
    stream.send(message);
  } else if (end_apart) {
    send_chunk("", true);
  }
}

Task<void> CheckSession::collect(CheckStream& stream, const ProxiedRequest& request,
                                 PickerAnswer& answer) {
  const Duration patience =
      options_.timeout + std::chrono::seconds(request.body_bytes() / (1 << 20));
  const Duration grace = std::min<Duration>(options_.timeout / 5, std::chrono::seconds(2));
  while (!answer.over() && !has_answered_request(answer, request.bodiless, request.trailers)) {
    const bool only_end = lacks_end(answer, request);
    if (only_end && !ends_bodies_) co_return;
    auto event = co_await stream.next(loop_.read_clock() + (only_end ? grace : patience));
    if (only_end && event.kind == StreamEvent::Kind::timeout) {
      ends_bodies_ = false;
      co_return;
    }
    answer.add(event);
  }
}

Task<void> CheckSession::finish(CheckStream& stream, PickerAnswer& answer) {
  constexpr Duration grace = std::chrono::milliseconds(100);
  stream.half_close();
  const Instant until = loop_.read_clock() + (ends_streams_ ? options_.timeout : grace);
  while (!answer.end && answer.failure.empty()) {
    auto event = co_await stream.next(until);
    if (event.kind == StreamEvent::Kind::timeout) {
      ends_streams_ = false;
      co_return;
    }
    answer.add(event);
  }
}

Task<void> CheckSession::respond(CheckStream& stream, const ProxiedResponse& response,
                                 PickerAnswer& answer) {
  ext_proc::ProcessingRequest message;
  Headers& headers = *message.mutable_response_headers()->mutable_headers();
  add_header(headers, ":status", "200");
  add_header(headers, "content-type", "text/event-stream");
  if (!response.served.empty()) {
    ext_proc::Value served;
    served.set_string_value(response.served);
    set_metadata(message, "envoy.lb", served_key, std::move(served));
  }
  stream.send(message);
  for (const std::string& chunk : response.chunks) {
    message.Clear();
    message.mutable_response_body()->set_body(chunk);
    stream.send(message);
  }
  message.Clear();
  if (response.trailers) {
    add_header(*message.mutable_response_trailers()->mutable_trailers(), "x-checksum", "1234");
  } else {
    message.mutable_response_body()->set_end_of_stream(true);
  }
  stream.send(message);
  while (!answer.over() && !has_answered_response(answer, response.trailers)) {
    auto event = co_await stream.next(deadline());
    answer.add(event);
  }
}

Task<PickerAnswer> CheckSession::exchange(ProxiedRequest request) {
  const auto stream = open();
  send_head(*stream, request);
  send_body(*stream, request);
  PickerAnswer answer;
  co_await collect(*stream, request, answer);
  co_await finish(*stream, answer);
  co_return answer;
}

Task<const std::vector<BodyExchange>*> CheckSession::bodies() {
  if (!bodies_.empty()) co_return &bodies_;
  const auto add = [this](const char* what, std::vector<std::string> chunks, bool end_apart) {
    BodyExchange exchange{.what = what, .request = {}, .answer = {}};
    exchange.request.chunks = std::move(chunks);
    exchange.request.end_apart = end_apart;
    bodies_.push_back(std::move(exchange));
  };
  constexpr std::size_t message = 62'000;
  add("0 B", {}, true);
  add("1 B", {"{"}, false);
  add("1 KB byte by byte", chunks_of(document(1024), 1, false), true);
  add("62 000 B at once", {document(message)}, false);
  add("65 536 B at once", {document(65'536)}, true);
  add("1 MB cut anywhere", chunks_of(document(1 << 20), 100'000, true), false);
  add("20 MB cut anywhere", chunks_of(document(20 << 20), 200'000, true), true);
  for (BodyExchange& each : bodies_) {
    auto answer = co_await exchange(each.request);
    each.answer = std::move(answer);
  }
  co_return &bodies_;
}

}  // namespace evenkeel
