// Boost.Asio as the management plane uses it: concrete executors, so that nothing is type-erased.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <memory>

#include "evenkeel/base/clock.h"

namespace evenkeel {

namespace asio = boost::asio;

using ErrorCode = boost::system::error_code;
using Executor = asio::io_context::executor_type;
template <class T>
using Awaitable = asio::awaitable<T, Executor>;
using TcpSocket = asio::basic_stream_socket<asio::ip::tcp, Executor>;
using TcpAcceptor = asio::basic_socket_acceptor<asio::ip::tcp, Executor>;
using IoTimer = asio::basic_waitable_timer<Clock, asio::wait_traits<Clock>, Executor>;

/// Shared with work that was posted to other loops and may outlive the thread that runs it.
using IoContextPtr = std::shared_ptr<asio::io_context>;

inline constexpr asio::use_awaitable_t<Executor> use_awaitable{};

/// The completion token of `co_await operation(or_error(error))`.
inline auto or_error(ErrorCode& error) { return asio::redirect_error(use_awaitable, error); }

}  // namespace evenkeel
