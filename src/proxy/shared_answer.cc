#include "proxy/shared_answer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "proxy/request_copy.h"

namespace evenkeel {

void AnswerBytes::append(std::string_view bytes) {
  while (!bytes.empty()) {
    if (blocks_.empty() || blocks_.back()->free_size() == 0) {
      blocks_.push_back(
          std::make_shared<ReadBuffer>(ReadBuffer{.block = Block::take(block_bytes)}));
    }
    ReadBuffer& into = *blocks_.back();
    const std::size_t size = std::min<std::size_t>(bytes.size(), into.free_size());
    std::memcpy(into.free_begin(), bytes.data(), size);
    into.end += static_cast<std::uint32_t>(size);
    end_ += size;
    bytes.remove_prefix(size);
  }
}

AnswerBytes::Piece AnswerBytes::at(std::uint64_t position) const {
  if (position == end_) return {};
  const std::uint64_t offset = position - begin_;
  const BlockPtr& block = blocks_[offset / block_bytes];
  return {.block = block, .bytes = block->bytes().substr(offset % block_bytes)};
}

void AnswerBytes::keep_last(std::uint64_t bytes) {
  while (!blocks_.empty() && end_ - begin_ > bytes + block_bytes) {
    begin_ += block_bytes;
    blocks_.pop_front();
  }
}

/// A wait for more of the answer.
class SharedAnswer::Change : private CoroutineWaiter {
 public:
  explicit Change(SharedAnswer& answer) : answer_(answer) {}
  Change(const Change&) = delete;
  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> waiter) {
    coroutine_ = waiter;
    answer_.waiting_.add(*this);
  }
  void await_resume() const {}

 private:
  SharedAnswer& answer_;
};

SharedAnswer::SharedAnswer(Loop& loop, Owner& owner, const AnswerKey& key, const Request& from,
                           std::string body)
    : loop_(loop), owner_(owner), key_(key), priority_(from.info.identity.priority), demand_(loop) {
  copy_request(from, request_);
  request_.body = make_body(std::move(body));
}

/// What reads the backend's answer is told that it breaks off, as a client's leaving does.
SharedAnswer::~SharedAnswer() {
  close();
  std::optional<Fault>& fault = request_.info.outcome.fault;
  if (!ended_ && !fault) fault = Fault::client_gone;
}

Task<void> SharedAnswer::generate(Task<Result<Response>> answering) {
  auto response = co_await answering;
  if (!response) {
    error_ = std::move(response.error());
    end();
    co_return;
  }
  take_head(*response);
  body_ = std::move(response->body);
  announce();
  while (body_ != nullptr) {
    co_await demand_.wait();
    auto next = body_->read();
    auto chunk = co_await next;
    if (!chunk) {
      error_ = std::move(chunk.error());
      request_.info.outcome.fault = error_->fault;
      break;
    }
    append(chunk->bytes);
    if (chunk->last) break;
    announce();
  }
  body_.reset();
  end();
}

/// Copies the head: what the response points to lives no longer than its body.
void SharedAnswer::take_head(Response& response) {
  head_.status = response.status;
  request_.info.outcome.status = response.status;  // no frontend does: it has no client
  head_.reason_phrase = head_.fields.keep(response.reason_phrase);
  for (const Field& field : response.fields) head_.fields.add_copy(field);
  head_.declared_length = response.declared_length;
  length_ = response.body == nullptr ? 0 : response.body->length();
  has_head_ = true;
}

void SharedAnswer::append(std::string_view bytes) {
  bytes_.append(bytes);
  const std::uint64_t max = std::max<std::uint64_t>(
      owner_.memory_is_scarce() ? scarce_held_bytes : max_held_bytes, bytes.size());
  if (bytes_.end() - bytes_.begin() <= max) return;
  close();
  bytes_.keep_last(max);
}

/// Wakes the readers in the loop's next step: they may leave, and the last one drops the answer,
/// whose coroutine must not run then.
void SharedAnswer::announce() {
  while (!waiting_.empty()) {
    Waiter& waiter = waiting_.first();
    waiter.leave();
    loop_.wake_soon(waiter);
  }
}

void SharedAnswer::close() {
  if (!std::exchange(closed_, true)) owner_.on_closed(*this);
}

void SharedAnswer::end() {
  ended_ = true;
  close();
  announce();
}

void SharedAnswer::leave(Reader& reader) {
  const bool pays = readers_.front() == &reader && !is_paid_;
  readers_.erase(reader.place_);
  if (!pays) return;
  const bool goes_on = !ended_ && !readers_.empty();
  if (goes_on) {
    reader.info_.outcome.source = AnswerSource::coalesced;
    return;
  }
  pay(reader.info_);
  is_paid_ = true;
}

/// Makes the request the one that the backend got.
void SharedAnswer::pay(RequestInfo& info) const {
  const RequestInfo& own = request_.info;
  adopt_outcome(info, own);
  info.outcome.source = AnswerSource::miss;
  info.inference->response = own.inference->response;
  info.inference->served_model = own.inference->served_model;
}

SharedAnswer::Reader::Reader(std::shared_ptr<SharedAnswer> answer, RequestInfo& info, bool joins)
    : answer_(std::move(answer)), info_(info), joins_(joins) {
  info.outcome.source = joins ? AnswerSource::coalesced : AnswerSource::miss;
  info.inference->is_observed = true;
  place_ = answer_->readers_.insert(answer_->readers_.end(), this);
}

SharedAnswer::Reader::~Reader() { answer_->leave(*this); }

Task<Result<Response>> SharedAnswer::Reader::head() {
  while (!answer_->has_head_ && !answer_->ended_) {
    Change change(*answer_);
    co_await change;
  }
  if (!answer_->has_head_) co_return Error(*answer_->error_);
  const Response& head = answer_->head_;
  Response response;
  response.status = head.status;
  response.reason_phrase = head.reason_phrase;
  response.declared_length = head.declared_length;
  for (const Field& field : head.fields) {
    const bool is_for_one = joins_ && equals_ignore_case(field.name(), "set-cookie");
    if (!is_for_one) response.fields.add(field);
  }
  co_return response;
}

Task<Result<Chunk>> SharedAnswer::Reader::read() {
  auto chunk = take();
  if (chunk) return std::move(*chunk);
  return wait();
}

Task<Result<Chunk>> SharedAnswer::Reader::wait() {
  while (true) {
    answer_->demand_.raise();
    Change change(*answer_);
    co_await change;
    auto chunk = take();
    if (chunk) co_return std::move(*chunk);
  }
}

/// What has passed and was not read; nothing: there is no more yet.
std::optional<Result<Chunk>> SharedAnswer::Reader::take() {
  const SharedAnswer& answer = *answer_;
  if (position_ < answer.bytes_.begin()) {
    return Error{.fault = Fault::write_timeout,
                 .side = Side::client,
                 .detail =
                     "the client reads a shared answer too slowly: what follows for it is "
                     "no longer held"};
  }
  AnswerBytes::Piece piece = answer.bytes_.at(position_);
  position_ += piece.bytes.size();
  block_ = std::move(piece.block);
  const bool at_end = answer.ended_ && position_ == answer.bytes_.end();
  if (piece.bytes.empty() && !at_end) return std::nullopt;
  if (info_.timings.first_byte == Instant{}) info_.timings.first_byte = answer.loop_.now();
  if (at_end && !info_.outcome.fault) info_.outcome.fault = answer.request_.info.outcome.fault;
  if (piece.bytes.empty() && answer.error_) return Error(*answer.error_);
  return Chunk{.bytes = piece.bytes, .last = at_end && !answer.error_};
}

}  // namespace evenkeel
