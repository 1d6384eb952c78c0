// bench_origin: the server behind the proxies of a benchmark. One thread, edge-triggered epoll,
// responses prepared in advance.
//
//   bench_origin [--listen 127.0.0.1:0]... [--answer-bytes 300] [--large-bytes 4194304]
//                [--sse-events 100] [--sse-rate 100] [--sse-bytes 200]
//
// Prints `listening ADDRESS` on stdout for each --listen. Answers every request with the same JSON
// once its body is read, except: /large (a large body); the health and model pages that inference
// routers read; and `/sse` or a chat completion with "stream":true, which get --sse-events events
// at
// --sse-rate per second.

#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <map>
#include <memory>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "bench/flags.h"
#include "bench/http_parser.h"
#include "bench/sockets.h"
#include "bench/sse_events.h"

namespace evenkeel::bench {
namespace {

constexpr std::size_t kInputBytes = 256 * 1024;
constexpr std::size_t kLongestHead = 128 * 1024;
constexpr std::uint64_t kWorthDropping =
    4096;  // a longer rest of a body is discarded in the kernel, not copied
constexpr std::uint64_t kMaxSearchedBody =
    16384;  // longer bodies are not searched for "stream":true
constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
constexpr std::string_view kStreamHead =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ncache-control: "
    "no-cache\r\n"
    "transfer-encoding: chunked\r\n\r\n";
constexpr std::string_view kStreamEnd = "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n";
constexpr std::string_view kHttp2Preface = "PRI * HTTP/2.0";

std::string whole_answer(std::string_view content_type, std::string_view body) {
  return "HTTP/1.1 200 OK\r\ncontent-type: " + std::string(content_type) +
         "\r\ncontent-length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}

std::string chat_completion(std::size_t bytes) {
  std::string front =
      R"({"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"bench","choices":[{"index":0,"message":{"role":"assistant","content":")";
  const std::string back =
      R"("},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":9,"total_tokens":18}})";
  const std::size_t bare = front.size() + back.size();
  if (bytes > bare) front.append(bytes - bare, 'x');
  return front + back;
}

// The responses that contain no time, made once.
class Answers {
 public:
  Answers(std::size_t answer_bytes, std::size_t large_bytes)
      : usual_(whole_answer("application/json", chat_completion(answer_bytes))) {
    const auto json = [this](std::string path, std::string_view body) {
      by_path_[std::move(path)] = whole_answer("application/json", body);
    };
    constexpr std::string_view kModel =
        R"({"model_path":"bench","served_model_name":"bench","tokenizer_path":"bench","is_generation":true,"version":"bench"})";
    json("/health", "{}");
    json("/get_server_info", kModel);
    json("/server_info", kModel);
    json("/get_model_info", kModel);
    json("/model_info", kModel);
    json(
        "/v1/models",
        R"({"object":"list","data":[{"id":"bench","object":"model","created":1,"owned_by":"bench","root":"bench","max_model_len":131072}]})");
    json(
        "/v1/chat/completions/render",
        R"([["bench"],[{"request_id":"bench","token_ids":[1,2,3,4,5,6,7,8],"sampling_params":{}}]])");
    by_path_["/large"] = whole_answer("application/octet-stream", std::string(large_bytes, 'x'));
  }

  std::string_view of(std::string_view path) const {
    const auto found = by_path_.find(path);
    return found == by_path_.end() ? std::string_view(usual_) : std::string_view(found->second);
  }

 private:
  std::string usual_;
  std::map<std::string, std::string, std::less<>> by_path_;
};

struct Connection {
  enum class Phase { kHead, kBody, kAnswering, kStreaming };

  FileDescriptor fd;
  std::uint32_t serial = 0;
  Phase phase = Phase::kHead;
  bool readable = false;
  bool peer_closed = false;
  bool close_after = false;
  bool may_stream = false;  // a chat completion; its body decides
  bool wants_stream = false;
  BodyParser body = BodyParser::none();
  std::string unread;  // an incomplete head, or pipelined requests
  bool unread_is_fresh = false;
  std::string small_body;
  std::string_view unsent;  // of a prepared response
  std::string backlog;      // of a stream with a slow reader
  std::string_view answer;
  std::uint64_t events_left = 0;
  std::uint64_t next_event_ns = 0;
};

struct StreamPlan {
  std::uint64_t events = 0;
  std::uint64_t period_ns = 0;
};

class Origin {
 public:
  Origin(Answers answers, StreamPlan plan, std::size_t event_bytes)
      : answers_(std::move(answers)),
        plan_(plan),
        event_(event_bytes),
        poll_(epoll_create1(EPOLL_CLOEXEC)),
        clock_(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)),
        input_(kInputBytes) {
    watch(clock_.get(), EPOLLIN, 0);
  }

  void listen(const sockaddr_in& address) {
    FileDescriptor listener = listen_on(address);
    std::printf("listening %s\n", to_text(bound_address(listener.get())).c_str());
    std::fflush(stdout);
    watch(listener.get(), EPOLLIN, 0);
    listeners_.push_back(std::move(listener));
  }

  // Until TERM or INT.
  void run() {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigprocmask(SIG_BLOCK, &signals, nullptr);
    const FileDescriptor ending(signalfd(-1, &signals, SFD_CLOEXEC));
    watch(ending.get(), EPOLLIN, 0);

    std::array<epoll_event, 512> events;
    for (;;) {
      const int ready = epoll_wait(poll_.get(), events.data(), static_cast<int>(events.size()), -1);
      for (int i = 0; i < ready; ++i) {
        const epoll_event& event = events[static_cast<std::size_t>(i)];
        const auto fd = static_cast<int>(event.data.u64 & 0xffffffffU);
        if (fd == ending.get()) return;
        dispatch(fd, static_cast<std::uint32_t>(event.data.u64 >> 32), event.events);
      }
    }
  }

 private:
  void watch(int fd, std::uint32_t events, std::uint32_t serial) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = (static_cast<std::uint64_t>(serial) << 32) | static_cast<std::uint32_t>(fd);
    if (epoll_ctl(poll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) exit_with_errno("epoll_ctl");
  }

  void dispatch(int fd, std::uint32_t serial, std::uint32_t events) {
    if (fd == clock_.get()) return send_due_events();
    if (serial == 0) return accept_all(fd);
    Connection* connection = find(fd, serial);
    if (connection == nullptr) return;
    if (events & (EPOLLERR | EPOLLHUP)) return drop(*connection);
    connection->readable |= (events & EPOLLIN) != 0;
    connection->peer_closed |= (events & EPOLLRDHUP) != 0;
    serve(*connection);
  }

  Connection* find(int fd, std::uint32_t serial) {
    const auto slot = static_cast<std::size_t>(fd);
    if (slot >= connections_.size() || !connections_[slot]) return nullptr;
    return connections_[slot]->serial == serial ? connections_[slot].get() : nullptr;
  }

  void accept_all(int listener) {
    for (;;) {
      FileDescriptor fd = accept_from(listener);
      if (!fd) return;
      auto connection = std::make_unique<Connection>();
      connection->serial = ++last_serial_;
      watch(fd.get(), EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, connection->serial);
      const auto slot = static_cast<std::size_t>(fd.get());
      connection->fd = std::move(fd);
      if (slot >= connections_.size()) connections_.resize(slot + 64);
      connections_[slot] = std::move(connection);
    }
  }

  void drop(Connection& connection) {
    connections_[static_cast<std::size_t>(connection.fd.get())].reset();
  }

  // Reads and writes as far as possible. May drop the connection.
  void serve(Connection& c) {
    for (;;) {
      if (c.phase == Connection::Phase::kStreaming) {
        if (c.peer_closed || !send_backlog(c)) drop(c);
        return;
      }
      if (c.phase == Connection::Phase::kAnswering) {
        const Sent sent = send_rest(c);
        if (sent == Sent::kBlocked) return;
        if (sent == Sent::kFailed || c.close_after) return drop(c);
        c.phase = Connection::Phase::kHead;
      }
      if (c.unread_is_fresh) {
        c.unread_is_fresh = false;
        const std::string bytes = std::exchange(c.unread, {});
        if (!consume(c, bytes)) return drop(c);
        continue;
      }
      const Received received = receive(c);
      if (received == Received::kNothing) return;
      if (received == Received::kEnd) return drop(c);
    }
  }

  enum class Received { kSome, kNothing, kEnd };

  Received receive(Connection& c) {
    if (!c.readable) return Received::kNothing;
    const bool dropping = c.body.length_left() >= kWorthDropping && !c.may_stream;
    const ssize_t got = dropping ? recv(c.fd.get(), nullptr, c.body.length_left(), MSG_TRUNC)
                                 : recv(c.fd.get(), input_.data(), input_.size(), 0);
    if (got < 0 && errno == EAGAIN) {
      c.readable = false;
      return Received::kNothing;
    }
    if (got <= 0) return Received::kEnd;
    const auto size = static_cast<std::size_t>(got);
    if (dropping) {
      c.body.skip(size);
      if (c.body.done()) begin_answer(c);
      return Received::kSome;
    }
    // A short read has drained an edge-triggered socket, except for its end.
    if (size < input_.size() && !c.peer_closed) c.readable = false;
    std::string_view bytes(input_.data(), size);
    std::string joined;
    if (!c.unread.empty()) {
      joined = std::exchange(c.unread, {});
      joined.append(bytes);
      bytes = joined;
    }
    return consume(c, bytes) ? Received::kSome : Received::kEnd;
  }

  // False: the request is malformed.
  bool consume(Connection& c, std::string_view bytes) {
    using Phase = Connection::Phase;
    while (!bytes.empty() && (c.phase == Phase::kHead || c.phase == Phase::kBody)) {
      if (c.phase == Phase::kHead) {
        if (bytes.starts_with(kHttp2Preface)) return false;
        const auto head = parse_head(bytes);
        if (!head) {
          c.unread.assign(bytes);
          return bytes.size() < kLongestHead;
        }
        begin_request(c, *head);
        bytes.remove_prefix(head->size_bytes);
      }
      while (!bytes.empty() && !c.body.done()) {
        const BodyParser::Step step = c.body.step(bytes);
        if (c.body.broken()) return false;
        if (c.may_stream) c.small_body.append(step.payload);
        bytes.remove_prefix(step.consumed);
      }
      if (c.body.done()) begin_answer(c);
    }
    if (!bytes.empty()) {
      c.unread.assign(bytes);
      c.unread_is_fresh = true;
    }
    return true;
  }

  void begin_request(Connection& c, const HttpHead& head) {
    const std::string_view target = request_target(head.start_line);
    const std::string_view path = target.substr(0, target.find('?'));
    c.answer = answers_.of(path);
    if (head.start_line.starts_with("HEAD "))
      c.answer = c.answer.substr(0, c.answer.find("\r\n\r\n") + 4);
    c.close_after = head.close || head.start_line.ends_with("HTTP/1.0");
    c.wants_stream = path == "/sse";
    c.may_stream =
        path.ends_with("/completions") && head.content_length.value_or(0) <= kMaxSearchedBody;
    c.small_body.clear();
    c.body = head.chunked ? BodyParser::chunked()
                          : BodyParser::of_length(head.content_length.value_or(0));
    c.phase = Connection::Phase::kBody;
    if (head.expects_continue) ::send(c.fd.get(), kContinue.data(), kContinue.size(), MSG_NOSIGNAL);
  }

  void begin_answer(Connection& c) {
    const bool wants_stream = c.small_body.find(R"("stream":true)") != std::string::npos ||
                              c.small_body.find(R"("stream": true)") != std::string::npos;
    if (!c.wants_stream && !wants_stream) {
      c.unsent = c.answer;
      c.phase = Connection::Phase::kAnswering;
      return;
    }
    c.phase = Connection::Phase::kStreaming;
    c.backlog.assign(kStreamHead);
    c.events_left = plan_.events;
    // Phases follow the golden ratio, so that streams opened together do not send at the same time.
    const std::uint64_t phase = (++streams_ * 618'033'989U) % kSecond * plan_.period_ns / kSecond;
    c.next_event_ns = monotonic_ns() + phase;
    schedule(c);
  }

  enum class Sent { kAll, kBlocked, kFailed };

  Sent send_rest(Connection& c) {
    while (!c.unsent.empty()) {
      const ssize_t sent = ::send(c.fd.get(), c.unsent.data(), c.unsent.size(), MSG_NOSIGNAL);
      if (sent < 0) return errno == EAGAIN ? Sent::kBlocked : Sent::kFailed;
      c.unsent.remove_prefix(static_cast<std::size_t>(sent));
    }
    return Sent::kAll;
  }

  bool send_backlog(Connection& c) {
    if (c.backlog.empty()) return true;
    c.unsent = c.backlog;
    if (send_rest(c) == Sent::kFailed) return false;
    c.backlog.erase(0, c.backlog.size() - c.unsent.size());
    c.unsent = {};
    return true;
  }

  struct Due {
    std::uint64_t at_ns;
    int fd;
    std::uint32_t serial;
    bool operator>(const Due& other) const { return at_ns > other.at_ns; }
  };

  void schedule(Connection& c) {
    due_.push({.at_ns = c.next_event_ns, .fd = c.fd.get(), .serial = c.serial});
    arm_clock();
  }

  void arm_clock() {
    if (due_.empty() || due_.top().at_ns == armed_ns_) return;
    armed_ns_ = due_.top().at_ns;
    itimerspec when{};
    when.it_value.tv_sec = static_cast<time_t>(armed_ns_ / kSecond);
    when.it_value.tv_nsec = static_cast<long>(armed_ns_ % kSecond);
    timerfd_settime(clock_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
  }

  void send_due_events() {
    std::uint64_t expirations = 0;
    if (read(clock_.get(), &expirations, sizeof expirations) < 0 && errno != EAGAIN)
      exit_with_errno("timerfd");
    armed_ns_ = 0;
    const std::uint64_t now = monotonic_ns();
    while (!due_.empty() && due_.top().at_ns <= now) {
      const Due due = due_.top();
      due_.pop();
      if (Connection* c = find(due.fd, due.serial)) send_event(*c);
    }
    arm_clock();
  }

  void send_event(Connection& c) {
    const bool last = c.events_left <= 1;
    const std::string_view chunk = event_.chunk_with_timestamp(monotonic_ns());
    if (c.backlog.empty() && !last) {
      const ssize_t sent = ::send(c.fd.get(), chunk.data(), chunk.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno != EAGAIN) return drop(c);
      c.backlog.assign(chunk.substr(sent < 0 ? 0 : static_cast<std::size_t>(sent)));
    } else {
      c.backlog.append(chunk);
      if (last) c.backlog.append(kStreamEnd);
      if (!send_backlog(c)) return drop(c);
    }
    if (!last) {
      --c.events_left;
      c.next_event_ns += plan_.period_ns;
      due_.push({.at_ns = c.next_event_ns, .fd = c.fd.get(), .serial = c.serial});
      return;
    }
    end_stream(c);
  }

  // The unsent rest of the last event goes out like an ordinary response.
  void end_stream(Connection& c) {
    c.phase = Connection::Phase::kAnswering;
    c.unsent = c.backlog;
    serve(c);
  }

  const Answers answers_;
  const StreamPlan plan_;
  TimestampedEvent event_;
  FileDescriptor poll_;
  FileDescriptor clock_;
  std::vector<FileDescriptor> listeners_;
  std::vector<std::unique_ptr<Connection>> connections_;  // by descriptor
  std::uint32_t last_serial_ = 0;
  std::uint64_t streams_ = 0;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
  std::uint64_t armed_ns_ = 0;
  std::vector<char> input_;
};

void run(Flags& flags) {
  std::vector<std::string> addresses = flags.all("--listen");
  if (addresses.empty()) addresses.emplace_back("127.0.0.1:0");
  const auto answer_bytes = flags.number("--answer-bytes", 300);
  const auto large_bytes = flags.number("--large-bytes", 4 << 20);
  const auto event_bytes = flags.number("--sse-bytes", 200);
  const StreamPlan plan{
      .events = flags.number("--sse-events", 100),
      .period_ns = static_cast<std::uint64_t>(1e9 / flags.real("--sse-rate", 100)),
  };
  flags.reject_unknown();
  raise_file_limit();

  Origin origin(Answers(answer_bytes, large_bytes), plan, event_bytes);
  for (const std::string& address : addresses) origin.listen(parse_address(address));
  origin.run();
}

}  // namespace
}  // namespace evenkeel::bench

int main(int argument_count, char** arguments) {
  evenkeel::bench::Flags flags(argument_count, arguments);
  evenkeel::bench::run(flags);
}
