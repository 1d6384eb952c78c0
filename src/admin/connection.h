// One client of the admin listener: HTTP/1.1 by Beast's parser, from its first byte to its end.
#pragma once

#include <boost/asio/cancellation_signal.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "admin/api.h"
#include "admin/asio.h"
#include "admin/message.h"
#include "admin/stream.h"
#include "evenkeel/admin/admin_server.h"

namespace evenkeel {

/// Requests are answered one after the other: what a client sends ahead stays in the kernel beyond
/// 32 KiB. Deadlines are enforced by its owner, which calls `close_if_expired`.
/// Thread: the management thread.
class AdminConnection {
 public:
  /// Called before a large reply is sent: makes room for it by closing other connections.
  using MakeRoom = std::function<void(const AdminConnection& self, const SharedText& text)>;

  AdminConnection(TcpSocket socket, AdminStream::TlsContext tls, const AdminLimits& limits,
                  AdminApi& api, MakeRoom make_room);

  /// Serves until the client or `close` ends it. Never throws for anything that a client sends.
  Awaitable<void> serve();

  /// Ends `serve` soon, whatever it waits for.
  void close();
  void close_if_expired(Instant now) {
    if (now > deadline_) close();
  }
  /// The slot through which `close` reaches what `serve` waits for.
  asio::cancellation_slot cancellation_slot() { return cancelled_.slot(); }

  /// The time when the connection last sent, received or finished anything.
  Instant last_progress() const { return last_progress_; }
  /// True if a request is complete and its reply is not known yet.
  bool answering() const { return answering_; }
  /// The text that it is sending; null: none.
  const SharedText& sending() const { return sending_; }
  Instant sending_since() const { return sending_since_; }

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  enum class Read : std::uint8_t { complete, closed, refused };

  Awaitable<bool> serve_request();
  Awaitable<Read> read_request(Parser& parser);
  Awaitable<bool> read_more();
  bool parse_buffered(Parser& parser);
  bool refuse(int status, std::string message);
  bool accept_head(const Parser& parser);
  AdminRequest to_request(const Parser& parser) const;
  Awaitable<bool> write_reply(const AdminReply& reply, bool head_only, bool keep_alive);
  Awaitable<bool> write_all(std::string_view head, std::string_view body);
  Awaitable<void> stream_events(std::string last_event_id);
  Awaitable<void> linger();
  void progress() { last_progress_ = Clock::now(); }

  AdminStream stream_;
  const AdminLimits& limits_;
  AdminApi& api_;
  MakeRoom make_room_;
  std::string client_;
  boost::beast::flat_buffer buffer_;
  std::size_t request_bytes_ = 0;  // read for the current request
  bool expects_continue_ = false;
  AdminReply refusal_;  // of the current request
  Instant deadline_ = never;
  Instant last_progress_ = Clock::now();
  bool answering_ = false;
  SharedText sending_;
  Instant sending_since_{};
  asio::cancellation_signal cancelled_;
};

}  // namespace evenkeel
