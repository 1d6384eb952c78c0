#include "evenkeel/upstream/fetch.h"

#include <algorithm>
#include <memory>

#include "evenkeel/net/socket.h"
#include "evenkeel/wire/link.h"

namespace evenkeel {
namespace {

/// Waits for a task or for an instant, whichever is first; afterwards ask `task.ready()`.
class UntilDoneOrLate : private Timer {
 public:
  UntilDoneOrLate(Loop& loop, Task<Result<Fetched>>& task, Instant deadline)
      : Timer(&UntilDoneOrLate::late), loop_(loop), task_(task), deadline_(deadline) {}
  UntilDoneOrLate(const UntilDoneOrLate&) = delete;

  bool await_ready() const { return task_.ready(); }
  void await_suspend(std::coroutine_handle<> waiter) {
    waiter_ = waiter;
    task_.resume_when_done(waiter);
    arm(loop_, deadline_);
  }
  void await_resume() {
    disarm();
    task_.resume_when_done({});
  }

 private:
  static void late(Timer& self) { static_cast<UntilDoneOrLate&>(self).waiter_.resume(); }

  Loop& loop_;
  Task<Result<Fetched>>& task_;
  Instant deadline_;
  std::coroutine_handle<> waiter_;
};

Task<Result<int>> dial_any(Loop& loop, const std::vector<Endpoint>& addresses, Instant deadline) {
  Error last{.fault = Fault::connect_failed, .side = Side::backend, .detail = "it has no address"};
  for (const Endpoint& address : addresses) {
    auto dialled = co_await dial(loop, address, deadline);
    if (dialled) co_return std::move(dialled);
    last = std::move(dialled.error());
  }
  co_return last;
}

Task<Result<Fetched>> exchange(Loop& loop, const FetchRequest& wanted, Instant deadline) {
  auto fd = co_await dial_any(loop, wanted.addresses, deadline);
  if (!fd) co_return std::move(fd.error());
  const Duration timeout = std::max(deadline - loop.now(), Duration::zero());
  const auto link = make_http1_link(std::make_unique<Socket>(loop, *fd),
                                    {.first_byte_timeout = timeout, .idle_timeout = timeout});
  Request request{.method = "GET", .authority = wanted.authority, .path = wanted.path};
  for (const auto& [name, value] : wanted.fields) {
    if (field_id(name) == FieldId::host) {
      request.authority = value;
    } else {
      request.fields.add(name, value);
    }
  }

  auto response = co_await link->send(request);
  if (!response) co_return std::move(response.error());
  Fetched fetched{.status = response->status,
                  .server = std::string(response->fields.value(FieldId::server).value_or(""))};
  for (bool last = response->body == nullptr; !last;) {
    auto chunk = co_await response->body->read();
    if (!chunk) co_return std::move(chunk.error());
    const std::size_t room = wanted.max_bytes - fetched.body.size();
    fetched.body += chunk->bytes.substr(0, room);
    fetched.complete = chunk->bytes.size() <= room;
    last = chunk->last || !fetched.complete;
  }
  co_return fetched;
}

}  // namespace

Task<Result<Fetched>> fetch(Loop& loop, FetchRequest request, Instant deadline) {
  auto pending = exchange(loop, request, deadline);
  co_await UntilDoneOrLate(loop, pending, deadline);
  if (pending.ready()) co_return pending.take();
  co_return Error{
      .fault = Fault::first_byte_timeout, .side = Side::backend, .detail = "no answer in time"};
}

Result<Fetched> fetch_blocking(FetchRequest request, Duration timeout) {
  Loop loop;
  auto fetched = fetch(loop, std::move(request), loop.read_clock() + timeout);
  loop.run_until([&] { return fetched.ready(); });
  return fetched.take();
}

}  // namespace evenkeel
