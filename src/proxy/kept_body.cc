#include "proxy/kept_body.h"

#include <algorithm>
#include <chrono>

#include "evenkeel/json/value.h"

namespace evenkeel {
namespace {

/// The most that is passed on at a time.
constexpr std::size_t piece_bytes = 64UL * 1024;

class KeptBody final : public Body {
 public:
  explicit KeptBody(KeptAnswerPtr answer) : answer_(std::move(answer)) {}

  Task<Result<Chunk>> read() override {
    const std::string_view rest = std::string_view(answer_->body).substr(position_);
    const std::string_view piece = rest.substr(0, piece_bytes);
    position_ += piece.size();
    return Result<Chunk>(Chunk{.bytes = piece, .last = piece.size() == rest.size()});
  }
  std::optional<std::uint64_t> length() const override {
    return answer_->has_length ? std::optional<std::uint64_t>(answer_->body.size()) : std::nullopt;
  }

 private:
  KeptAnswerPtr answer_;
  std::size_t position_ = 0;
};

/// True if the field is of the answer itself, not of the way that it came.
bool is_kept(const Field& field) {
  constexpr std::string_view own_prefix = "x-evenkeel-";
  return field.id != FieldId::x_request_id && !equals_ignore_case(field.name(), "age") &&
         !(field.name_size > own_prefix.size() &&
           starts_with_ignore_case(field.name(), own_prefix));
}

std::optional<ResponseFormat> format_of(const Fields& fields) {
  return response_format_of(fields.value(FieldId::content_type).value_or(""),
                            fields.value(FieldId::content_encoding).value_or(""), false);
}

/// True if a text has ended as its engine meant it to.
bool has_ended(const InferenceInfo& info) {
  const InferenceTask task = info.request.task;
  if (task != InferenceTask::chat && task != InferenceTask::completion) return true;
  const std::string& reason = info.response.finish_reason;
  return !reason.empty() && reason != "abort" && reason != "error" && reason != "cancelled";
}

/// True unless the document is cut off, or says of an error. Long ones do not.
bool is_whole_document(std::string_view json) {
  constexpr std::size_t max_error = 16UL * 1024;
  const std::size_t last = json.find_last_not_of(" \t\r\n");
  if (last == json.npos || (json[last] != '}' && json[last] != ']')) return false;
  if (json.size() > max_error) return true;
  const auto document = parse_json(json);
  return document && (*document)["error"].is_null() && (*document)["object"].text() != "error";
}

/// True if a stream of OpenAI's or Anthropic's events has its last one, and none reports an error.
bool are_whole_events(std::string_view events) {
  InferenceResponse response;
  const auto reader = ResponseReader::create(ResponseFormat::events, response, {.errors = true});
  reader->read(events, {});
  reader->finish({});
  if (reader->found_error()) return false;
  events = events.substr(0, events.find_last_not_of("\r\n") + 1);
  const std::string_view last = events.substr(events.find_last_of("\r\n") + 1);
  return last.starts_with("data:") &&
         (last.ends_with("[DONE]") || last.find(R"("message_stop")") != last.npos);
}

}  // namespace

KeepingBody::KeepingBody(Loop& loop, std::shared_ptr<AnswerCache> cache,
                         std::shared_ptr<RedisAnswers> shared, const Options& options,
                         const RequestInfo& info, Response& response)
    : loop_(loop),
      cache_(std::move(cache)),
      shared_(std::move(shared)),
      options_(options),
      info_(info),
      format_(format_of(response.fields)),
      body_(std::move(response.body)),
      answer_(std::make_unique<KeptAnswer>()) {
  for (const Field& field : response.fields) {
    if (!is_kept(field)) continue;
    answer_->fields.push_back({std::string(field.name()), std::string(field.value())});
  }
  answer_->has_length = body_->length().has_value();
  if (answer_->has_length)
    answer_->body.reserve(std::min(*body_->length(), cache_->max_answer_bytes()));
}

Task<Result<Chunk>> KeepingBody::read() {
  auto next = body_->read();
  if (cache_ == nullptr) return next;
  if (next.ready()) return copy(next.take());
  return wait(std::move(next));
}

Task<Result<Chunk>> KeepingBody::wait(Task<Result<Chunk>> next) {
  auto chunk = co_await next;
  co_return copy(std::move(chunk));
}

Result<Chunk> KeepingBody::copy(Result<Chunk> chunk) {
  const std::uint64_t most = cache_->max_answer_bytes();
  const bool is_whole =
      chunk && chunk->trailers == nullptr && answer_->body.size() + chunk->bytes.size() <= most;
  if (!is_whole) {
    cache_.reset();
    answer_.reset();
    return chunk;
  }
  answer_->body += chunk->bytes;
  if (chunk->last) end();
  return chunk;
}

/// True if the answer is whole: a body may end early, and a server fail within one of status 200.
bool KeepingBody::is_whole() const {
  const bool may_be = !info_.outcome.fault && has_ended(*info_.inference);
  if (!may_be || format_ == ResponseFormat::json) return may_be && is_whole_document(answer_->body);
  const bool has_last_event =
      format_ == ResponseFormat::events && !info_.inference->places.max_tokens_name.empty();
  return !has_last_event || are_whole_events(answer_->body);
}

void KeepingBody::end() {
  if (is_whole()) {
    const Instant now = loop_.now();
    answer_->body.shrink_to_fit();
    answer_->stored = now - options_.lifetime.age;
    answer_->fresh_until = now + options_.lifetime.fresh;
    answer_->stale_until = answer_->fresh_until + options_.lifetime.stale;
    if (shared_ != nullptr)
      shared_->keep(options_.pool, options_.key, *answer_, options_.generation);
    cache_->keep(options_.key, std::move(answer_), options_.cache_age);
  }
  cache_.reset();
}

Response response_of(KeptAnswerPtr answer, Instant now) {
  Response response;
  for (const KeptAnswer::Field& field : answer->fields)
    response.fields.add(field.name, field.value);
  const auto age = std::chrono::duration_cast<std::chrono::seconds>(now - answer->stored);
  response.fields.add("age", response.fields.keep(std::to_string(std::max<std::int64_t>(
                                 0, static_cast<std::int64_t>(age.count())))));
  response.body = std::make_unique<KeptBody>(std::move(answer));
  return response;
}

}  // namespace evenkeel
