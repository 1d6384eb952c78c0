#include "admin/connection.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/beast/http/error.hpp>
#include <boost/beast/http/field.hpp>
#include <boost/beast/http/status.hpp>
#include <exception>
#include <utility>

#include "evenkeel/base/host.h"
#include "evenkeel/http/fields.h"

namespace evenkeel {
namespace {

namespace http = boost::beast::http;

constexpr std::size_t read_bytes = 4096;
constexpr std::size_t buffer_bytes = 32 * 1024;
/// What framing may add to a body: Beast bounds neither the extensions of chunks nor trailers.
constexpr std::size_t max_framing_bytes = 1024 * 1024;
/// What a refused client may still send before its connection is cut.
constexpr std::size_t max_discarded_bytes = 16 * 1024 * 1024;

std::string_view to_std(boost::beast::string_view text) { return {text.data(), text.size()}; }

std::string address_of(const TcpSocket& socket) {
  ErrorCode error;
  const auto endpoint = socket.remote_endpoint(error);
  return error ? std::string() : normal_host(endpoint.address().to_string());
}

/// Asks the kernel, which knows whatever the client has sent that is not read yet.
bool has_left(TcpSocket& socket) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(socket.native_handle(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return true;
  return info.tcpi_state != TCP_ESTABLISHED;
}

std::string head_of(const AdminReply& reply, bool keep_alive) {
  const auto reason =
      to_std(http::obsolete_reason(http::int_to_status(static_cast<unsigned>(reply.status))));
  std::string head = fmt::format(
      "HTTP/1.1 {} {}\r\ncontent-type: {}\r\ncache-control: {}\r\n"
      "x-content-type-options: nosniff\r\n",
      reply.status, reason, reply.content_type, reply.cache_control);
  const bool has_length = !reply.live && reply.status != 304;
  if (has_length) head += fmt::format("content-length: {}\r\n", reply.body->size());
  if (reply.gzipped) head += "content-encoding: gzip\r\n";
  for (const auto& [name, value] : reply.fields) head += fmt::format("{}: {}\r\n", name, value);
  head += keep_alive ? "connection: keep-alive\r\n\r\n" : "connection: close\r\n\r\n";
  return head;
}

}  // namespace

AdminConnection::AdminConnection(TcpSocket socket, AdminStream::TlsContext tls,
                                 const AdminLimits& limits, AdminApi& api, MakeRoom make_room)
    : stream_(std::move(socket), std::move(tls)),
      limits_(limits),
      api_(api),
      make_room_(std::move(make_room)),
      client_(address_of(stream_.socket())),
      buffer_(buffer_bytes) {
  ErrorCode ignored;
  stream_.socket().set_option(asio::ip::tcp::no_delay(true), ignored);
}

void AdminConnection::close() {
  deadline_ = never;
  cancelled_.emit(asio::cancellation_type::terminal);
  stream_.close();
}

Awaitable<void> AdminConnection::serve() {
  if (stream_.secure()) {
    deadline_ = Clock::now() + limits_.handshake;
    ErrorCode error;
    co_await stream_.handshake(false, error);
    if (error) co_return;
  }
  bool goes_on = true;
  while (goes_on) goes_on = co_await serve_request();
  co_await linger();
  stream_.close();
}

/// Returns false if nothing more is to be read from this connection.
Awaitable<bool> AdminConnection::serve_request() {
  Parser parser;
  parser.header_limit(static_cast<std::uint32_t>(limits_.head_bytes));
  parser.body_limit(limits_.body_bytes);
  const Read read = co_await read_request(parser);
  if (read == Read::closed) co_return false;
  deadline_ = never;  // the API bounds its own waits
  progress();
  if (read == Read::refused) {
    co_await write_reply(refusal_, false, false);
    co_return false;
  }

  AdminRequest request = to_request(parser);
  request.has_left = [this] { return has_left(stream_.socket()); };
  answering_ = true;
  const AdminReply reply = co_await api_.handle(request);
  answering_ = false;
  progress();
  const bool head_only = request.method == "HEAD";
  if (reply.live) {
    const bool begun = co_await write_reply(reply, head_only, false);
    if (!begun || head_only) co_return false;
    co_await stream_events(std::string(request.field("last-event-id").value_or("")));
    co_return false;
  }
  const bool keep_alive = parser.get().keep_alive();
  const bool written = co_await write_reply(reply, head_only, keep_alive);
  co_return written&& keep_alive;
}

Awaitable<AdminConnection::Read> AdminConnection::read_request(Parser& parser) {
  request_bytes_ = buffer_.size();
  expects_continue_ = false;
  deadline_ = Clock::now() + (buffer_.size() > 0 ? limits_.head : limits_.idle);
  bool head_accepted = false;
  while (true) {
    if (buffer_.size() > 0 && !parse_buffered(parser)) co_return Read::refused;
    if (parser.is_header_done() && !head_accepted) {
      if (!accept_head(parser)) co_return Read::refused;
      head_accepted = true;
      parser.eager(true);  // from here on, all that is there
      deadline_ = Clock::now() + limits_.body;
      continue;
    }
    if (parser.is_done()) co_return Read::complete;
    if (expects_continue_) {
      expects_continue_ = false;
      const bool written = co_await write_all("HTTP/1.1 100 Continue\r\n\r\n", "");
      if (!written) co_return Read::closed;
      deadline_ = Clock::now() + limits_.body;
    }
    const bool first_bytes = request_bytes_ == 0;
    const bool more = co_await read_more();
    if (!more) co_return Read::closed;
    if (first_bytes) deadline_ = Clock::now() + limits_.head;
    if (request_bytes_ > limits_.head_bytes + limits_.body_bytes + max_framing_bytes) {
      refuse(413, "request larger than its limit");
      co_return Read::refused;
    }
  }
}

/// Returns false if the connection has ended.
Awaitable<bool> AdminConnection::read_more() {
  const std::size_t room = std::min(read_bytes, buffer_.max_size() - buffer_.size());
  ErrorCode error;
  const std::size_t size = co_await stream_.read_some(buffer_.prepare(room), error);
  if (error || size == 0) co_return false;
  buffer_.commit(size);
  request_bytes_ += size;
  progress();
  co_return true;
}

/// Gives the parser what is there, until it needs more or is done. False: refused.
bool AdminConnection::parse_buffered(Parser& parser) {
  try {
    while (buffer_.size() > 0 && !parser.is_done()) {
      ErrorCode error;
      const bool had_head = parser.is_header_done();
      const std::size_t used = parser.put(buffer_.data(), error);
      buffer_.consume(used);
      if (error == http::error::need_more) break;
      if (error == http::error::header_limit) {
        return refuse(431, fmt::format("head larger than {} bytes", limits_.head_bytes));
      }
      if (error == http::error::body_limit) {
        return refuse(413, fmt::format("body larger than {} bytes", limits_.body_bytes));
      }
      if (error) return refuse(400, "malformed request: " + error.message());
      if (!had_head && parser.is_header_done()) return true;  // the head is judged first
      if (used == 0) break;
    }
  } catch (const std::exception&) {  // Beast 1.81 throws for a field of more than 64 KiB
    return refuse(431, "a field is too large");
  }
  if (!parser.is_done() && buffer_.size() == buffer_.max_size()) {
    return refuse(parser.is_header_done() ? 400 : 431,
                  fmt::format("a line larger than {} bytes", buffer_.max_size()));
  }
  return true;
}

bool AdminConnection::refuse(int status, std::string message) {
  refusal_ = error_reply(status, message);
  return false;
}

/// True if the head can be read in one way only, which Beast 1.81 does not check.
bool AdminConnection::accept_head(const Parser& parser) {
  const auto& head = parser.get();
  if (head.count(http::field::host) > 1) return refuse(400, "more than one Host");
  if (head.version() >= 11 && head.count(http::field::host) == 0) return refuse(400, "no Host");
  const auto coding = to_std(head[http::field::transfer_encoding]);
  if (!coding.empty() && !equals_ignore_case(coding, "chunked")) {
    return refuse(501, "unknown transfer-encoding");
  }
  if (!coding.empty() && head.version() < 11) return refuse(400, "transfer-encoding in HTTP/1.0");
  if (!to_std(head.target()).starts_with('/')) return refuse(400, "the target begins with /");
  expects_continue_ = equals_ignore_case(to_std(head[http::field::expect]), "100-continue");
  return true;
}

AdminRequest AdminConnection::to_request(const Parser& parser) const {
  const auto& message = parser.get();
  AdminRequest request{.method = to_std(message.method_string()),
                       .target = to_std(message.target()),
                       .host = to_std(message[http::field::host]),
                       .body = message.body(),
                       .client = client_,
                       .has_left = {}};
  for (const auto& field : message) {
    request.fields.emplace_back(to_std(field.name_string()), to_std(field.value()));
  }
  return request;
}

Awaitable<bool> AdminConnection::write_reply(const AdminReply& reply, bool head_only,
                                             bool keep_alive) {
  const std::string head = head_of(reply, keep_alive);
  if (head_only || reply.live) {
    const bool written = co_await write_all(head, "");
    co_return written;
  }
  make_room_(*this, reply.body);
  sending_ = reply.body;
  sending_since_ = Clock::now();
  const bool written = co_await write_all(head, *reply.body);
  sending_ = nullptr;
  co_return written;
}

/// Returns false if the client has gone, or takes nothing any more.
Awaitable<bool> AdminConnection::write_all(std::string_view head, std::string_view body) {
  while (!head.empty() || !body.empty()) {
    deadline_ = Clock::now() + limits_.write;
    const AdminStream::Buffers buffers = {asio::const_buffer(head.data(), head.size()),
                                          asio::const_buffer(body.data(), body.size())};
    ErrorCode error;
    const std::size_t written = co_await stream_.write_some(buffers, error);
    if (error || written == 0) co_return false;
    const std::size_t of_head = std::min(written, head.size());
    head.remove_prefix(of_head);
    body.remove_prefix(written - of_head);
    progress();
  }
  deadline_ = never;
  co_return true;
}

/// A client that has gone shows as a failed write, within two events.
Awaitable<void> AdminConnection::stream_events(std::string last_event_id) {
  LiveFeed::Subscription subscription(api_.live_feed(), last_event_id);
  while (true) {
    const SharedText event = co_await subscription.next();
    if (event == nullptr) co_return;
    make_room_(*this, event);
    sending_ = event;
    sending_since_ = Clock::now();
    const bool written = co_await write_all(*event, "");
    sending_ = nullptr;
    if (!written) co_return;
  }
}

/// A connection that is closed with bytes unread is reset, and the reset may overtake the reply:
/// the client gets the end of ours first, and some time to send its own.
Awaitable<void> AdminConnection::linger() {
  deadline_ = Clock::now() + limits_.close;
  co_await stream_.shutdown_send();
  buffer_.clear();
  std::size_t discarded = 0;
  while (discarded < max_discarded_bytes) {
    ErrorCode error;
    const std::size_t size = co_await stream_.read_some(buffer_.prepare(read_bytes), error);
    if (error || size == 0) co_return;
    discarded += size;
  }
}

}  // namespace evenkeel
