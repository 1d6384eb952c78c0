#include "proxy/request_batch.h"

#include <algorithm>
#include <array>
#include <utility>

#include "proxy/request_copy.h"

namespace evenkeel {
namespace {

/// True for an error that one of the inputs may be the reason of. The others speak of the model, of
/// the client or of the load.
bool concerns_input(int status) {
  constexpr auto others = std::to_array({401, 402, 403, 404, 405, 407, 408, 429});
  return status >= 400 && status < 500 && std::ranges::find(others, status) == others.end();
}

/// True for a field that only one request gets.
bool is_for_one(const Field& field) {
  return field.id == FieldId::x_request_id || equals_ignore_case(field.name(), "set-cookie");
}

/// True for a field that says of the bytes of the whole answer.
bool is_of_bytes(const Field& field) {
  constexpr auto names = std::to_array<std::string_view>(
      {"etag", "content-md5", "digest", "content-digest", "repr-digest"});
  return std::ranges::any_of(
      names, [&](std::string_view name) { return equals_ignore_case(field.name(), name); });
}

}  // namespace

RequestBatch::RequestBatch(Loop& loop, BatchApi api, std::vector<Member> members,
                           std::shared_ptr<const void> flight)
    : loop_(loop),
      api_(api),
      began_(loop.now()),
      flight_(std::move(flight)),
      members_(std::move(members)),
      shares_(members_.size()) {
  copy_request(*members_.front().request, request_);
  InferenceInfo& info = *request_.info.inference;
  info.places = {};  // they are of one body
  InferenceRequest& asked = info.request;
  asked.prompt_bytes = asked.prompt_tokens = asked.tensor_bytes = 0;
  asked.estimated_prompt_tokens = 0;
  std::vector<const BatchBody*> bodies;
  std::uint64_t rows = 0;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const Member& member = members_[i];
    const InferenceRequest& own = member.request->info.inference->request;
    asked.prompt_bytes += own.prompt_bytes;
    asked.prompt_tokens += own.prompt_tokens;
    asked.tensor_bytes += own.tensor_bytes;
    asked.estimated_prompt_tokens += own.estimated_prompt_tokens;
    bodies.push_back(member.body);
    shares_[i].first_row = rows;
    shares_[i].rows = member.body->rows();
    rows += member.body->rows();
  }
  request_.fields.remove("accept-encoding");  // a compressed answer could not be taken apart
  request_.body = make_body(join_bodies(bodies));
}

/// What reads the backend's answer is told that it breaks off, as a client's leaving does.
RequestBatch::~RequestBatch() {
  std::optional<Fault>& fault = request_.info.outcome.fault;
  if (!ended_ && !fault) fault = Fault::client_gone;
}

Task<void> RequestBatch::receive(Task<Result<Response>> answering) {
  auto response = co_await answering;
  if (!response) {
    error_ = std::move(response.error());
    end();
    co_return;
  }
  take_head(*response);
  BodyPtr body = std::move(response->body);
  bool is_whole = body == nullptr;
  while (!is_whole) {
    auto next = body->read();
    auto chunk = co_await next;
    if (!chunk) {
      error_ = std::move(chunk.error());
      request_.info.outcome.fault = error_->fault;
      break;
    }
    is_too_long_ = bytes_.size() + chunk->bytes.size() > max_answer_bytes;
    if (is_too_long_) break;
    bytes_ += chunk->bytes;
    is_whole = chunk->last;
  }
  body.reset();
  end();
}

/// Copies the head: what the response points to lives no longer than its body.
void RequestBatch::take_head(const Response& response) {
  head_.status = response.status;
  request_.info.outcome.status = response.status;  // no frontend does: it has no client
  head_.reason_phrase = head_.fields.keep(response.reason_phrase);
  for (const Field& field : response.fields) head_.fields.add_copy(field);
  head_.declared_length = response.declared_length;
}

void RequestBatch::end() {
  judge();
  ended_ = true;
  flight_.reset();
  for (const Member& member : members_) {
    if (member.request != nullptr) member.settled->raise();
  }
}

void RequestBatch::judge() {
  if (error_) return;
  if (head_.status != 200) {
    must_split_ = is_too_long_ || concerns_input(head_.status);
    return;
  }
  const bool is_plain = !is_too_long_ && head_.fields.find("content-encoding") == nullptr;
  const std::uint64_t rows = shares_.back().first_row + shares_.back().rows;
  if (is_plain) answer_ = BatchAnswer::read(api_, std::move(bytes_), rows);
  must_split_ = !answer_;
  if (answer_) share_answer();
}

void RequestBatch::share_answer() {
  total_tokens_ = answer_->prompt_tokens().value_or(0);
  std::vector<TokenWeight> weights;
  for (const Member& member : members_) weights.push_back(member.weight);
  if (!answer_->prompt_tokens()) {
    // What else `usage` may have is divided by the estimates.
    for (const TokenWeight& weight : weights) total_tokens_ += weight.tokens;
  }
  share_tokens(total_tokens_, weights, shares_);
}

Result<Response> RequestBatch::answer_of(std::size_t member) const {
  if (error_) return Error(*error_);
  Response response;
  response.status = head_.status;
  response.reason_phrase = response.fields.keep(head_.reason_phrase);
  for (const Field& field : head_.fields) {
    const bool is_left_out = (member > 0 && is_for_one(field)) || (answer_ && is_of_bytes(field));
    if (!is_left_out) response.fields.add_copy(field);
  }
  if (!answer_) {
    response.body = make_body(bytes_);
    if (response.body == nullptr) response.declared_length = head_.declared_length;
    return response;
  }
  BatchShare share = shares_[member];
  share.id = members_[member].body->id();
  response.body = make_body(answer_->part(share, total_tokens_));
  return response;
}

void RequestBatch::leave(std::size_t member) {
  Member& left = members_[member];
  RequestInfo& info = left.request->info;
  const RequestInfo& own = request_.info;
  left.request = nullptr;
  const Duration gathered = began_ - left.joined;
  if (must_split_) {
    info.timings.waited += gathered;
    info.timings.retried += loop_.now() - began_;
    return;
  }
  adopt_outcome(info, own);
  info.timings.waited = own.timings.waited + gathered;
  info.timings.uploaded = own.timings.uploaded;
  info.timings.first_byte = own.timings.first_byte;
}

}  // namespace evenkeel
