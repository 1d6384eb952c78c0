#include "evenkeel/admin/admin_server.h"

#include <poll.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/system/system_error.hpp>
#include <exception>
#include <functional>
#include <list>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "admin/api.h"
#include "admin/connection.h"
#include "evenkeel/base/log.h"
#include "evenkeel/base/refusal_text.h"

namespace evenkeel {
namespace {

constexpr Duration sweep_interval = std::chrono::milliseconds(250);  // between deadline checks
constexpr Duration accept_pause = std::chrono::milliseconds(100);    // when descriptors run out
constexpr auto files_exhausted = boost::system::errc::too_many_files_open_in_system;
/// Lower priority than the workers', in case they share a core.
constexpr int niceness = 5;

void log_failure(const char* what, const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const boost::system::system_error& error) {
    if (error.code() == asio::error::operation_aborted) return;  // closed by us
    log::admin.error(std::string("admin: ") + what + " failed: " + error.what());
  } catch (const std::exception& error) {
    log::admin.error(std::string("admin: ") + what + " failed: " + error.what());
  } catch (...) {
    log::admin.error(std::string("admin: ") + what + " failed");
  }
}

Error cannot_start(int error) {
  return Error{.fault = Fault::internal,
               .side = Side::proxy,
               .detail = "admin: cannot start: " + refusal_text("", error)};
}

asio::ip::tcp protocol_of(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  return address.ss_family == AF_INET6 ? asio::ip::tcp::v6() : asio::ip::tcp::v4();
}

}  // namespace

class AdminServer::Impl {
 public:
  Impl(RuntimeAccess runtime, const AdminLimits& limits)
      : runtime_(std::move(runtime)),
        limits_(limits),
        api_(io_, runtime_),
        acceptor_(io_->get_executor()),
        sweep_timer_(io_->get_executor()),
        accept_timer_(io_->get_executor()) {}

  Result<Done> open(int fd) {
    ErrorCode error;
    acceptor_.assign(protocol_of(fd), fd, error);
    if (error) {
      close(fd);
      return Error{.fault = Fault::bad_request,
                   .side = Side::proxy,
                   .detail = "admin: cannot listen: " + error.message()};
    }
    acceptor_.non_blocking(true, error);
    keep_running("accepting connections", [this] { return accept_connections(); });
    keep_running("closing expired connections", [this] { return close_expired(); });
    keep_running("watching backends", [this] { return api_.watch_states(); });
    keep_running("taking samples", [this] { return api_.take_samples(); });
    thread_ = std::thread([this] { run(); });
    return Done{};
  }

  void move_to(int fd) {
    asio::post(*io_, [this, fd] {
      TcpAcceptor next(io_->get_executor());
      ErrorCode error;
      next.assign(protocol_of(fd), fd, error);
      if (error) {
        log::admin.error("admin: cannot listen: " + error.message());
        ::close(fd);
        return;
      }
      next.non_blocking(true, error);
      accept_pending();  // a close would reset them
      close_listener();
      acceptor_ = std::move(next);
    });
  }

  void retire() {
    asio::post(*io_, [this] {
      retired_ = true;
      accept_timer_.cancel();
      close_listener();
    });
  }

  ~Impl() {
    if (!thread_.joinable()) return;
    asio::post(*io_, [this] { stop(); });
    thread_.join();
  }

 private:
  using ConnectionPtr = std::shared_ptr<AdminConnection>;

  void run() {
    pthread_setname_np(pthread_self(), "admin");
    setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), niceness);
    while (true) {
      try {
        io_->run();  // returns when everything that `stop` closes has ended
        return;
      } catch (const std::exception& error) {
        log::admin.error(std::string("admin: ") + error.what());
      }
    }
  }

  void stop() {
    stopping_ = true;
    ErrorCode ignored;
    acceptor_.close(ignored);
    sweep_timer_.cancel();
    accept_timer_.cancel();
    api_.stop();
    for (const ConnectionPtr& connection : connections_) connection->close();
  }

  /// Runs a coroutine until `stop`. One that fails begins again.
  void keep_running(const char* what, std::function<Awaitable<void>()> coroutine) {
    auto running = coroutine();
    auto ended = [this, what, coroutine = std::move(coroutine)](std::exception_ptr failure) {
      if (failure == nullptr || stopping_) return;
      log_failure(what, failure);
      keep_running(what, coroutine);
    };
    asio::co_spawn(*io_, std::move(running), std::move(ended));
  }

  /// Not acceptor_.close(), which leaves the socket in the epoll set while another process has it.
  void close_listener() {
    ErrorCode ignored;
    const int fd = acceptor_.release(ignored);
    if (fd >= 0) ::close(fd);
  }

  void accept_pending() {
    ErrorCode error;
    for (std::size_t accepted = 0; accepted < limits_.connections; ++accepted) {
      TcpSocket socket(io_->get_executor());
      acceptor_.accept(socket, error);
      if (error) return;
      adopt(std::move(socket));
    }
  }

  Awaitable<void> accept_connections() {
    while (!stopping_ && !retired_) {
      ErrorCode error;
      TcpSocket socket(io_->get_executor());
      co_await acceptor_.async_accept(socket, or_error(error));
      if (stopping_ || retired_) co_return;
      // Several at once: each turn of the loop serves every connection once, and a probe that waits
      // behind a flood would wait for as many turns. Few enough that each of them is served before
      // it could have to make room.
      const std::size_t batch = std::max<std::size_t>(1, limits_.connections / 4);
      for (std::size_t accepted = 1; !error; ++accepted) {
        adopt(std::move(socket));
        if (accepted == batch) break;
        socket = TcpSocket(io_->get_executor());
        acceptor_.accept(socket, error);
      }
      const bool moved = error == asio::error::operation_aborted;  // to another socket
      if (!error || moved || error == asio::error::would_block) continue;
      const bool exhausted = error == asio::error::no_descriptors || error == files_exhausted;
      if (exhausted && has_pending_connection()) make_room_for_connection();
      accept_timer_.expires_after(accept_pause);
      ErrorCode ignored;
      co_await accept_timer_.async_wait(or_error(ignored));
    }
  }

  /// True if a connection is pending: accept(2) reports that descriptors have run out even when
  /// none is.
  bool has_pending_connection() {
    pollfd listener{.fd = acceptor_.native_handle(), .events = POLLIN, .revents = 0};
    return poll(&listener, 1, 0) == 1;
  }

  void adopt(TcpSocket socket) {
    if (connections_.size() >= limits_.connections) make_room_for_connection();
    // Connections use the certificates of the configuration that is active when they begin.
    const auto status = runtime_.status->snapshot();
    if (status->config->admin.tls && status->admin_tls == nullptr) return;  // never in the clear
    auto connection = std::make_shared<AdminConnection>(
        std::move(socket), status->admin_tls, limits_, api_,
        [this](const AdminConnection& sender, const SharedText& text) { make_room(sender, text); });
    connections_.push_back(connection);
    const auto slot = connection->cancellation_slot();
    // The completion handler owns the connection until the coroutine has ended, also by exception.
    asio::co_spawn(
        *io_, connection->serve(),
        asio::bind_cancellation_slot(slot, [this, connection](std::exception_ptr failure) {
          if (failure != nullptr) log_failure("a connection", failure);
          connections_.remove(connection);
        }));
  }

  /// Closes the one without progress for longest. One that waits for our reply is not stalled, and
  /// goes only if all others wait for theirs, too.
  void make_room_for_connection() {
    const auto stalled = std::min_element(connections_.begin(), connections_.end(),
                                          [](const ConnectionPtr& a, const ConnectionPtr& b) {
                                            if (a->answering() != b->answering())
                                              return b->answering();
                                            return a->last_progress() < b->last_progress();
                                          });
    if (stalled == connections_.end()) return;
    (*stalled)->close();
    connections_.erase(stalled);
  }

  /// Closes the connections that have been sending one reply for longest, until the unsent replies
  /// of the others and `text` are within the limit. A shared reply counts once.
  void make_room(const AdminConnection& sender, const SharedText& text) {
    while (true) {
      std::set<SharedText> held{text};
      ConnectionPtr slowest;
      for (const ConnectionPtr& connection : connections_) {
        if (connection->sending() == nullptr || connection.get() == &sender) continue;
        held.insert(connection->sending());
        if (slowest == nullptr || connection->sending_since() < slowest->sending_since()) {
          slowest = connection;
        }
      }
      std::size_t total = 0;
      for (const SharedText& each : held) total += each->size();
      if (slowest == nullptr || total <= limits_.unsent_bytes) return;
      slowest->close();
      connections_.remove(slowest);
    }
  }

  Awaitable<void> close_expired() {
    while (!stopping_) {  // cancel() has no effect on a timer that has expired already
      ErrorCode ignored;
      sweep_timer_.expires_after(sweep_interval);
      co_await sweep_timer_.async_wait(or_error(ignored));
      const Instant now = Clock::now();
      for (const ConnectionPtr& connection : connections_) connection->close_if_expired(now);
    }
  }

  const RuntimeAccess runtime_;
  const AdminLimits limits_;
  // Shared: work that was posted to a loop and has not run may outlive this object.
  IoContextPtr io_ = std::make_shared<asio::io_context>(1);
  AdminApi api_;
  TcpAcceptor acceptor_;
  IoTimer sweep_timer_;
  IoTimer accept_timer_;
  std::list<ConnectionPtr> connections_;
  bool stopping_ = false;
  bool retired_ = false;
  std::thread thread_;
};

AdminServer::AdminServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
AdminServer::~AdminServer() = default;
void AdminServer::move_to(int fd) { impl_->move_to(fd); }
void AdminServer::retire() { impl_->retire(); }

Result<std::unique_ptr<AdminServer>> AdminServer::start(int fd, RuntimeAccess runtime,
                                                        const AdminLimits& limits) {
  try {
    auto impl = std::make_unique<Impl>(std::move(runtime), limits);
    auto opened = impl->open(fd);
    if (!opened) return std::move(opened.error());
    return std::unique_ptr<AdminServer>(new AdminServer(std::move(impl)));
  } catch (const boost::system::system_error& error) {  // no descriptor for its loop
    return cannot_start(error.code().value());
  } catch (const std::system_error& error) {  // no thread
    return cannot_start(error.code().value());
  }
}

}  // namespace evenkeel
