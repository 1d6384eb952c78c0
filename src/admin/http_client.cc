#include "admin/http_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/beast/http/error.hpp>
#include <cstring>
#include <exception>
#include <utility>

namespace evenkeel {
namespace {

namespace http = boost::beast::http;

constexpr std::size_t max_head_bytes = 16 * 1024;
constexpr std::size_t read_bytes = 64 * 1024;
constexpr Duration max_connect_time = std::chrono::seconds(2);  // while another address is left

Error failure(Fault fault, std::string detail) {
  return {.fault = fault, .side = Side::backend, .detail = std::move(detail)};
}

/// True if the final response is still to come (RFC 9110, section 15.2).
template <class Message>
bool is_interim(const Message& message) {
  return message.result_int() / 100 == 1 && message.result_int() != 101;
}

asio::ip::tcp::endpoint to_asio(const Endpoint& endpoint) {
  asio::ip::tcp::endpoint converted;
  std::memcpy(converted.data(), endpoint.address(), endpoint.size);
  converted.resize(endpoint.size);
  return converted;
}

}  // namespace

Result<AdminStream::TlsContext> verifying_tls_context(const std::string& ca_file) {
  auto context = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_client);
  ErrorCode error;
  if (ca_file.empty()) {
    context->set_default_verify_paths(error);
  } else {
    context->load_verify_file(ca_file, error);
  }
  if (error) {
    return Error{.fault = Fault::bad_request,
                 .side = Side::client,
                 .detail = ca_file + ": " + error.message()};
  }
  context->set_verify_mode(asio::ssl::verify_peer);
  return context;
}

/// Runs the exchange to its end, or until the time is over; then its connection is closed.
Result<HttpAnswer> HttpClient::send(std::string request, Duration timeout) {
  std::optional<Result<HttpAnswer>> outcome;
  asio::cancellation_signal cancellation;
  asio::co_spawn(io_, store(exchange(std::move(request)), outcome),
                 asio::bind_cancellation_slot(cancellation.slot(), asio::detached));
  io_.restart();
  // Either `cancel` stops the loop after this, or it has set the flag before.
  if (!cancelled_) io_.run_for(timeout);
  if (outcome) return std::move(*outcome);
  cancellation.emit(asio::cancellation_type::terminal);
  io_.restart();
  io_.run();
  return failure(Fault::first_byte_timeout,
                 fmt::format("no response within {:.3g} s", seconds_of(timeout)));
}

void HttpClient::cancel() {
  cancelled_ = true;
  io_.stop();
}

Awaitable<void> HttpClient::store(Awaitable<Result<HttpAnswer>> work,
                                  std::optional<Result<HttpAnswer>>& outcome) {
  auto result = co_await std::move(work);
  outcome.emplace(std::move(result));
}

/// Connects the socket, unless the time is over before.
Awaitable<ErrorCode> HttpClient::connect_within(TcpSocket& socket, const Endpoint& endpoint,
                                                Duration timeout) {
  using namespace asio::experimental::awaitable_operators;
  ErrorCode error;
  ErrorCode ignored;
  IoTimer timer(io_.get_executor(), timeout);
  const auto first = co_await (socket.async_connect(to_asio(endpoint), or_error(error)) ||
                               timer.async_wait(or_error(ignored)));
  co_return first.index() == 0 ? error : ErrorCode(asio::error::timed_out);
}

Awaitable<Result<HttpClient::StreamPtr>> HttpClient::connect() {
  std::string last_error = "the name has no address";
  std::vector<Endpoint>& endpoints = server_.endpoints;
  for (std::size_t i = 0; i < endpoints.size(); ++i) {
    TcpSocket socket(io_.get_executor());
    ErrorCode error;
    if (i + 1 < endpoints.size()) {
      error = co_await connect_within(socket, endpoints[i], max_connect_time);
    } else {  // the last one may take all the time that is left
      co_await socket.async_connect(to_asio(endpoints[i]), or_error(error));
    }
    if (error) {
      last_error = error.message();
      continue;
    }
    std::rotate(endpoints.begin(), endpoints.begin() + static_cast<std::ptrdiff_t>(i),
                endpoints.end());
    ErrorCode ignored;
    socket.set_option(asio::ip::tcp::no_delay(true), ignored);
    auto stream = std::make_shared<AdminStream>(std::move(socket), server_.tls);
    stream->expect_server(server_.host);
    co_await stream->handshake(true, error);
    if (error) {
      const std::string why =
          server_.tls_failure != nullptr ? server_.tls_failure(error) : "TLS: " + error.message();
      co_return failure(Fault::tls_failed, why);
    }
    co_return stream;
  }
  co_return failure(Fault::connect_failed, last_error);
}

Awaitable<ErrorCode> HttpClient::write(AdminStream& stream, std::string_view bytes) {
  ErrorCode error;
  while (!bytes.empty() && !error) {
    const AdminStream::Buffers buffers = {asio::const_buffer(bytes.data(), bytes.size()),
                                          asio::const_buffer()};
    const std::size_t written = co_await stream.write_some(buffers, error);
    bytes.remove_prefix(written);
  }
  co_return error;
}

void HttpClient::begin_answer(std::optional<Parser>& parser) const {
  parser.emplace();
  parser->header_limit(max_head_bytes);
  parser->body_limit(max_answer_bytes_);
  parser->eager(true);
}

Awaitable<Result<HttpAnswer>> HttpClient::exchange(std::string request) {
  StreamPtr stream = std::exchange(stream_, nullptr);
  if (stream == nullptr) {
    auto connected = co_await connect();
    if (!connected) co_return std::move(connected.error());
    stream = *connected;
  }
  const ErrorCode unsent = co_await write(*stream, request);
  if (unsent) co_return failure(Fault::backend_closed, unsent.message());

  std::optional<Parser> parser;
  begin_answer(parser);
  boost::beast::flat_buffer buffer(2 * read_bytes);
  bool closed = false;
  while (!parser->is_done()) {
    ErrorCode error;
    const std::size_t room = std::min(read_bytes, buffer.max_size() - buffer.size());
    const std::size_t size = co_await stream->read_some(buffer.prepare(room), error);
    buffer.commit(size);
    closed = error || size == 0;
    auto problem = parse(*parser, buffer, closed);
    while (!problem && parser->is_done() && is_interim(parser->get())) {
      begin_answer(parser);
      problem = parse(*parser, buffer, closed);
    }
    if (!problem) continue;
    if (error && error != asio::error::eof) problem->detail += ": " + error.message();
    if (closed && server_.tls == nullptr && !parser->got_some())
      problem->detail += server_.closed_hint;
    co_return std::move(*problem);
  }
  auto& message = parser->get();
  if (!closed && message.keep_alive()) stream_ = stream;
  HttpAnswer answer{.status = static_cast<int>(message.result_int()),
                    .body = std::move(message.body()),
                    .retry_after = {}};
  const auto retry_after = message.find(http::field::retry_after);
  if (retry_after != message.end()) answer.retry_after.emplace(retry_after->value());
  co_return answer;
}

std::optional<Error> HttpClient::parse(Parser& parser, boost::beast::flat_buffer& buffer,
                                       bool closed) {
  try {
    ErrorCode error;
    while (buffer.size() > 0 && !parser.is_done()) {
      const std::size_t used = parser.put(buffer.data(), error);
      buffer.consume(used);
      if (error == http::error::need_more || used == 0) break;
      if (error) return failure(Fault::backend_protocol, "bad response: " + error.message());
    }
    if (!closed || parser.is_done()) {
      if (buffer.size() < buffer.max_size()) return std::nullopt;
      return failure(Fault::backend_protocol, "bad response: a line is too long");
    }
    if (!parser.got_some()) return failure(Fault::backend_closed, "the connection closed");
    error = {};
    parser.put_eof(error);
    if (!error) return std::nullopt;
  } catch (const std::exception&) {  // Beast 1.81 throws for a field of more than 64 KiB
    return failure(Fault::backend_protocol, "bad response: a field is too large");
  }
  return failure(Fault::backend_closed, "the connection closed before the response was complete");
}

}  // namespace evenkeel
