#include "epp/inflow.h"

namespace evenkeel {

void Inflow::end(const ext_proc::HeaderMap& trailers) {
  has_trailers_ = true;
  for (const ext_proc::HeaderValue& header : trailers.headers()) {
    const bool is_raw = !header.raw_value().empty();
    trailers_.add_copy(header.key(), is_raw ? header.raw_value() : header.value());
  }
  end();
}

Task<Result<Chunk>> Inflow::read() {
  if (is_ready()) return next();
  return wait();
}

Task<Result<Chunk>> Inflow::wait() {
  while (!is_ready()) co_await arrived_.wait();
  co_return next();
}

Result<Chunk> Inflow::next() {
  current_.clear();
  if (waiting_.empty() && failure_) return Error(*failure_);
  current_.swap(waiting_);
  taken_.raise();
  if (!has_ended_) return Chunk{.bytes = current_};
  return Chunk{
      .bytes = current_, .last = true, .trailers = trailers_.size() > 0 ? &trailers_ : nullptr};
}

}  // namespace evenkeel
