#include "bench/workloads.h"

#include <algorithm>
#include <utility>

namespace evenkeel::bench {
namespace {

constexpr std::size_t kNumberDigits = 20;
constexpr std::size_t kMaxOpening = 64;
constexpr int kOk = 200;

std::string prompt_text(std::size_t prompt, std::size_t bytes) {
  const std::string sentence =
      "Prompt " + std::to_string(prompt) + " says the same again and again. ";
  std::string text;
  while (text.size() < bytes) text += sentence;
  text.resize(bytes);
  return text;
}

}  // namespace

ChatRequest::ChatRequest(const Shape& shape, std::size_t prompt) {
  std::string fields = " " + shape.path + " HTTP/1.1\r\nhost: " + shape.authority +
                       "\r\nuser-agent: bench_load\r\naccept: */*\r\n";
  for (const std::string& line : shape.header_lines) fields += line + "\r\n";
  if (shape.body_bytes == 0) {
    message_ = "GET" + fields + "\r\n";
    return;
  }
  const std::string front = R"({"model":")" + shape.model + R"(",)" +
                            (shape.stream ? R"("stream":true,)" : "") +
                            R"("messages":[{"role":"user","content":")";
  const std::string back = R"("}]})";
  const std::size_t bare = front.size() + kNumberDigits + back.size();
  std::string text = prompt_text(prompt, shape.body_bytes > bare ? shape.body_bytes - bare : 0);
  const std::size_t shared = text.size() / 8 * 7;
  text.insert(shared, kNumberDigits, '0');
  const std::string body = front + text + back;
  message_ = "POST" + fields +
             "content-type: application/json\r\ncontent-length: " + std::to_string(body.size()) +
             "\r\n\r\n" + body;
  if (!shape.repeats) number_at_ = message_.size() - body.size() + front.size() + shared;
}

const std::string* ChatRequest::numbered(std::uint64_t number) {
  if (number_at_) {
    for (std::size_t i = kNumberDigits; i-- > 0; number /= 10) {
      message_[*number_at_ + i] = static_cast<char>('0' + number % 10);
    }
  }
  return &message_;
}

std::vector<ChatRequest> make_requests(const ChatRequest::Shape& shape, std::size_t prompts) {
  std::vector<ChatRequest> requests;
  for (std::size_t prompt = 0; prompt < std::max<std::size_t>(1, prompts); ++prompt) {
    requests.emplace_back(shape, prompt);
  }
  return requests;
}

ClosedLoop::ClosedLoop(ClientLoop& loop, std::vector<ChatRequest> requests,
                       std::uint64_t request_limit)
    : loop_(loop), requests_(std::move(requests)), limit_(request_limit) {}

const std::string* ClosedLoop::next_request(std::size_t) {
  if (limit_ != 0 && requested_ == limit_) return nullptr;
  ++requested_;
  return requests_[requested_ % requests_.size()].numbered(requested_);
}

void ClosedLoop::on_finished(std::size_t, const CompletedExchange& finished) {
  latency_.add(finished.ended_ns - finished.began_ns);
  if (finished.status != kOk) ++bad_status_;
  if (++answered_ == limit_) loop_.stop();
}

StreamReaders::StreamReaders(std::vector<ChatRequest> requests, std::size_t clients)
    : requests_(std::move(requests)), scans_(clients) {}

const std::string* StreamReaders::next_request(std::size_t client) {
  scans_[client].restart();
  ++requested_;
  return requests_[requested_ % requests_.size()].numbered(requested_);
}

void StreamReaders::on_payload(std::size_t client, std::string_view bytes) {
  const std::uint64_t now = monotonic_ns();
  scans_[client].feed(bytes,
                      [&](std::uint64_t stamp) { delay_.add(now > stamp ? now - stamp : 0); });
}

void StreamReaders::on_finished(std::size_t, const CompletedExchange& finished) {
  ++finished_;
  if (finished.status != kOk) ++bad_status_;
}

IdleConnections::IdleConnections(ClientLoop& loop, std::vector<ChatRequest> requests,
                                 std::size_t target_count)
    : loop_(loop),
      requests_(std::move(requests)),
      target_count_(target_count),
      requested_(target_count) {
  opened_ = std::min(target_count_, kMaxOpening);
  loop_.open(opened_);
}

const std::string* IdleConnections::next_request(std::size_t client) {
  if (requested_[client]) return nullptr;
  requested_[client] = true;
  return requests_[0].numbered(client);
}

void IdleConnections::on_finished(std::size_t, const CompletedExchange& finished) {
  if (finished.status != kOk) ++bad_status_;
  ++idle_count_;
  if (opened_ < target_count_) {
    ++opened_;
    loop_.open(1);
  }
  if (all_idle()) loop_.stop();
}

}  // namespace evenkeel::bench
