// The backend side of HTTP/1.1: one connection, one exchange at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "backend_exchange.h"
#include "chunked.h"
#include "evenkeel/wire/link.h"
#include "head_parser.h"
#include "http1_message.h"
#include "http1_upload.h"
#include "response_buffer.h"

namespace evenkeel {

class Http1Link final : public Link {
 public:
  Http1Link(std::unique_ptr<Socket> socket, const LinkOptions& options)
      : socket_(std::move(socket)), options_(options) {}

  Task<Result<Response>> send(Request& request) override;
  std::size_t available_capacity() const override { return busy_ || !reusable_ ? 0 : 1; }
  bool alive(bool ask_kernel) override { return socket_->is_idle_and_open(ask_kernel); }
  void on_idle_close(Waiter* waiter) override {
    idle_close_waiter_ = waiter;
    Waiter* read_waiter = waiter == nullptr ? nullptr : &idle_read_;
    watch().on_readable(read_waiter);
    watch().on_hangup(read_waiter);
  }
  void suspect(Duration max_silence) override {
    silence_.set(max_silence, loop().now());
    if (busy_) watch().interrupt();
  }

 private:
  class ResponseReader;

  /// The idle link became readable: it was closed, or only TLS session tickets arrived.
  void on_idle_read() {
    if (idle_close_waiter_ != nullptr && !alive(false)) idle_close_waiter_->wake();
  }

  Watch& watch() { return socket_->watch(); }
  Loop& loop() { return socket_->loop(); }

  Task<Result<Done>> read_head(HeadParser& parser);
  /// The body of a response, read from the link as it is pulled.
  BodyPtr read_response(const Framing& framing, bool tunnel, ConnectionBudget* budget);
  Error closed(const HeadParser& parser, Socket::ReadStatus got) const;
  bool may_have_been_idle() const { return served_ && exchange_.may_cross_idle_close(); }
  void finish(bool clean);
  Error mark_unusable(Error error) {
    reusable_ = false;
    return error;
  }

  std::unique_ptr<Socket> socket_;
  LinkOptions options_;
  MethodWaiter<&Http1Link::on_idle_read> idle_read_{*this};
  Waiter* idle_close_waiter_ = nullptr;
  ReadBuffer in_;
  std::uint32_t body_begin_ = 0;  // in `in_`, behind the current head
  bool busy_ = false;
  bool reusable_ = true;
  bool served_ = false;  // an earlier exchange
  bool response_keep_alive_ = false;
  SilenceLimit silence_;
  BackendExchange exchange_{loop(), options_, silence_};
  Http1Upload upload_{*socket_, options_, exchange_};
};

}  // namespace evenkeel
