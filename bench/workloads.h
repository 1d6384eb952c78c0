#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/client_loop.h"
#include "bench/log_linear_histogram.h"
#include "bench/sse_events.h"

namespace evenkeel::bench {

// A chat completion of `body_bytes`; a GET where that is 0. Requests with the same `prompt` share
// the first seven eighths of the text; then comes the request's number, so that the rest misses a
// prefix cache.
class ChatRequest {
 public:
  struct Shape {
    std::string authority;
    std::string path;
    std::string model;
    std::vector<std::string> header_lines;
    std::size_t body_bytes = 0;
    bool stream = false;
    bool repeats = false;  // those of one prompt are the same; else each has a number
  };

  ChatRequest(const Shape& shape, std::size_t prompt);

  const std::string* numbered(std::uint64_t number);

 private:
  std::string message_;
  std::optional<std::size_t> number_at_;
};

std::vector<ChatRequest> make_requests(const ChatRequest::Shape& shape, std::size_t prompts);

// Every client sends its next request as soon as it has its response.
class ClosedLoop : public Workload {
 public:
  // request_limit 0: no limit.
  ClosedLoop(ClientLoop& loop, std::vector<ChatRequest> requests, std::uint64_t request_limit);

  const std::string* next_request(std::size_t client) override;
  void on_payload(std::size_t, std::string_view bytes) override { payload_bytes_ += bytes.size(); }
  void on_finished(std::size_t client, const CompletedExchange& finished) override;

  const LogLinearHistogram& latency() const { return latency_; }
  std::uint64_t bad_status() const { return bad_status_; }
  std::uint64_t payload_bytes() const { return payload_bytes_; }

 private:
  ClientLoop& loop_;
  std::vector<ChatRequest> requests_;
  const std::uint64_t limit_;
  std::uint64_t requested_ = 0;
  std::uint64_t answered_ = 0;
  std::uint64_t bad_status_ = 0;
  std::uint64_t payload_bytes_ = 0;
  LogLinearHistogram latency_;
};

// Every client reads one stream of timestamped events after the other.
class StreamReaders : public Workload {
 public:
  StreamReaders(std::vector<ChatRequest> requests, std::size_t clients);

  const std::string* next_request(std::size_t client) override;
  void on_payload(std::size_t client, std::string_view bytes) override;
  void on_finished(std::size_t client, const CompletedExchange& finished) override;

  const LogLinearHistogram& delay() const { return delay_; }
  std::uint64_t finished_streams() const { return finished_; }
  std::uint64_t bad_status() const { return bad_status_; }

 private:
  std::vector<ChatRequest> requests_;
  std::vector<TimestampParser> scans_;
  std::uint64_t requested_ = 0;
  std::uint64_t finished_ = 0;
  std::uint64_t bad_status_ = 0;
  LogLinearHistogram delay_;
};

// Clients that send one request and then keep the idle connection. Each opens the next one when it
// is idle, so that few are active at a time.
class IdleConnections : public Workload {
 public:
  IdleConnections(ClientLoop& loop, std::vector<ChatRequest> requests, std::size_t target_count);

  const std::string* next_request(std::size_t client) override;
  void on_payload(std::size_t, std::string_view) override {}
  void on_finished(std::size_t client, const CompletedExchange& finished) override;

  bool all_idle() const { return idle_count_ >= target_count_; }
  std::uint64_t bad_status() const { return bad_status_; }

 private:
  ClientLoop& loop_;
  std::vector<ChatRequest> requests_;
  const std::size_t target_count_;
  std::vector<bool> requested_;
  std::size_t opened_ = 0;
  std::size_t idle_count_ = 0;
  std::uint64_t bad_status_ = 0;
};

}  // namespace evenkeel::bench
