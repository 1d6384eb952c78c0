#include "evenkeel/upstream/redis_client.h"

#include <algorithm>
#include <utility>

#include "evenkeel/base/deadline.h"
#include "evenkeel/base/decimal.h"
#include "evenkeel/base/log.h"

namespace evenkeel {
namespace {

constexpr std::string_view default_user = "default";
constexpr std::size_t max_text = 1 << 20;
constexpr std::size_t max_items = 4096;
constexpr int max_depth = 4;
constexpr std::size_t read_bytes = 16 * 1024;
constexpr std::size_t max_pending = 10'000;  // calls without a reply
constexpr Duration connect_timeout = std::chrono::seconds(1);
constexpr Duration write_timeout = std::chrono::seconds(5);
constexpr Duration greeting_timeout = std::chrono::seconds(1);
constexpr Duration min_pause = std::chrono::milliseconds(100);
constexpr Duration max_pause = std::chrono::seconds(2);
constexpr Duration slow_pause = std::chrono::milliseconds(100);

void append_word(std::string& out, std::string_view word) {
  out.append("$").append(std::to_string(word.size())).append("\r\n").append(word).append("\r\n");
}

RedisParse parse(std::string_view& bytes, RedisReply& reply, int depth) {
  const std::size_t end = bytes.find("\r\n");
  if (end == bytes.npos)
    return bytes.size() > max_text ? RedisParse::malformed : RedisParse::incomplete;
  if (end == 0) return RedisParse::malformed;
  const char mark = bytes.front();
  const std::string_view line = bytes.substr(1, end - 1);
  bytes.remove_prefix(end + 2);
  if (mark == '+' || mark == '-') {
    reply = {.kind = mark == '+' ? RedisReply::Kind::text : RedisReply::Kind::error,
             .text = std::string(line),
             .items = {}};
    return RedisParse::reply;
  }
  const auto number = parse_number<std::int64_t>(line);
  if (!number) return RedisParse::malformed;
  if (mark == ':') {
    reply = {.kind = RedisReply::Kind::integer, .text = {}, .integer = *number, .items = {}};
    return RedisParse::reply;
  }
  if (mark != '$' && mark != '*') return RedisParse::malformed;
  reply = {};
  if (*number == -1) return RedisParse::reply;
  const auto size = static_cast<std::size_t>(*number);
  if (mark == '$') {
    if (size > max_text) return RedisParse::malformed;
    if (bytes.size() < size + 2) return RedisParse::incomplete;
    if (bytes.substr(size, 2) != "\r\n") return RedisParse::malformed;
    reply.kind = RedisReply::Kind::text;
    reply.text = bytes.substr(0, size);
    bytes.remove_prefix(size + 2);
    return RedisParse::reply;
  }
  if (size > max_items || depth == max_depth) return RedisParse::malformed;
  reply.kind = RedisReply::Kind::list;
  for (std::size_t i = 0; i < size; ++i) {
    const RedisParse found = parse(bytes, reply.items.emplace_back(), depth + 1);
    if (found != RedisParse::reply) return found;
  }
  return RedisParse::reply;
}

ConnectorOptions with_timeout(ConnectorOptions options) {
  options.connect_timeout = connect_timeout;
  return options;
}

}  // namespace

RedisParse parse_redis_reply(std::string_view& bytes, RedisReply& reply) {
  std::string_view rest = bytes;
  const RedisParse found = parse(rest, reply, 0);
  if (found == RedisParse::reply) bytes = rest;
  return found;
}

void append_redis_command(std::string& out, std::initializer_list<std::string_view> first,
                          const std::vector<std::string>& rest) {
  out.append("*").append(std::to_string(first.size() + rest.size())).append("\r\n");
  for (const std::string_view word : first) append_word(out, word);
  for (const std::string& word : rest) append_word(out, word);
}

RedisClient::RedisClient(Loop& loop, RedisOptions options, std::vector<std::string> scripts,
                         std::string shared)
    : loop_(loop),
      shared_(std::move(shared)),
      options_(std::move(options)),
      scripts_(std::move(scripts)),
      connector_(loop, options_.addresses, with_timeout(options_.connector)),
      never_(loop),
      timer_(*this, loop),
      running_(run()) {}

RedisClient::~RedisClient() = default;

Task<void> RedisClient::run() {
  Duration pause = min_pause;
  bool has_failed = false;
  for (;;) {
    auto connected = co_await connector_.connect();
    std::string problem;
    if (connected) {
      socket_ = std::move(*connected);
      const bool greeted = co_await greet();
      problem = greeted ? "the connection closed" : received_;
      if (greeted) {
        for (;;) {
          auto reply = co_await read_reply();
          if (!reply) break;
          const bool is_error = reply->kind == RedisReply::Kind::error;
          deliver(std::move(*reply));
          if (is_error) continue;  // it answers, and does nothing
          if (has_failed && !shared_.empty())
            log::limits.info(shared_ + " are shared through Redis again");
          has_failed = false;
          pause = min_pause;
        }
      }
    } else {
      problem = connected.error().detail;
    }
    disconnect();
    if (!has_failed) warn(": " + problem);
    has_failed = true;
    co_await never_.wait(loop_.read_clock() + pause);
    pause = std::min(pause * 2, max_pause);
  }
}

/// Logs in and passes the scripts. On failure, `received_` says why.
Task<bool> RedisClient::greet() {
  std::string commands;
  std::size_t replies = 0;
  if (!options_.password.empty()) {
    const std::string_view user =
        options_.user.empty() ? default_user : std::string_view(options_.user);
    append_redis_command(commands, {"AUTH", user, options_.password});
    ++replies;
  }
  if (options_.database != 0) {
    append_redis_command(commands, {"SELECT", std::to_string(options_.database)});
    ++replies;
  }
  for (const std::string& script : scripts_)
    append_redis_command(commands, {"SCRIPT", "LOAD", script});
  const Instant deadline = loop_.read_clock() + greeting_timeout;
  auto written = co_await socket_->write(commands, {}, {}, greeting_timeout);
  if (!written) {
    received_ = written.error().detail;
    co_return false;
  }
  std::vector<std::string> ids;
  for (std::size_t i = 0; i < replies + scripts_.size(); ++i) {
    auto reading = read_reply();
    co_await UntilDoneOrDeadline(reading, loop_, deadline);
    auto reply = reading.ready() ? reading.take() : std::nullopt;
    reading.drop();
    if (!reply || reply->kind == RedisReply::Kind::error) {
      received_ = reply ? reply->text : "no reply to the greeting";
      co_return false;
    }
    if (i >= replies) ids.push_back(std::move(reply->text));
  }
  script_ids_ = std::move(ids);
  co_return true;
}

/// The next reply; nothing if the connection has ended, or what came is none.
Task<std::optional<RedisReply>> RedisClient::read_reply() {
  for (;;) {
    RedisReply reply;
    std::string_view bytes = received_;
    const RedisParse found = parse_redis_reply(bytes, reply);
    if (found == RedisParse::malformed) co_return std::nullopt;
    if (found == RedisParse::reply) {
      received_.erase(0, received_.size() - bytes.size());
      co_return reply;
    }
    const std::size_t before = received_.size();
    received_.resize(before + read_bytes);
    const Socket::Read read = socket_->read_some(received_.data() + before, read_bytes);
    received_.resize(before + (read.status == Socket::ReadStatus::bytes ? read.size : 0));
    if (read.status == Socket::ReadStatus::bytes) continue;
    if (read.status != Socket::ReadStatus::would_block) co_return std::nullopt;
    const Wake wake = co_await socket_->watch().until_readable();
    if (wake != Wake::ready) co_return std::nullopt;
  }
}

Task<void> RedisClient::flush() {
  while (!unsent_.empty()) {
    const std::string sending = std::exchange(unsent_, {});
    writing_bytes_ = sending.size();
    auto written = co_await socket_->write(sending, {}, {}, write_timeout);
    writing_bytes_ = 0;
    if (written) continue;
    socket_->watch().interrupt();  // ends `read_reply`
    co_return;
  }
}

bool RedisClient::may_send() const { return !script_ids_.empty() && sent_.size() < max_pending; }

void RedisClient::send(std::size_t script, const Words& words, Sent sent) {
  append_redis_command(unsent_, {"EVALSHA", script_ids_[script]}, words);
  sent_.push_back(std::move(sent));
  if (flushing_.ready()) flushing_ = flush();
}

Task<std::optional<RedisReply>> RedisClient::call(std::size_t script, Words words, Undo undo) {
  const Instant now = loop_.read_clock();
  if (!may_send() || (is_slow_ && now < slow_until_)) co_return std::nullopt;
  if (is_slow_) slow_until_ = now + slow_pause;
  const bool is_first =
      std::ranges::all_of(sent_, [](const Sent& each) { return each.call == nullptr; });
  Call waiting(loop_, now + options_.timeout, sent_);
  Sent sent{.call = &waiting, .undo = std::move(undo)};
  send(script, words, std::move(sent));
  if (is_first) timer_.arm(waiting.deadline);
  co_await waiting.answered.wait();
  if (waiting.reply && waiting.reply->kind == RedisReply::Kind::error) co_return std::nullopt;
  co_return std::move(waiting.reply);
}

void RedisClient::tell(std::size_t script, const Words& words) {
  if (may_send()) send(script, words, {});
}

void RedisClient::deliver(RedisReply reply) {
  if (sent_.empty()) {
    socket_->watch().interrupt();
    return;
  }
  const Sent sent = std::move(sent_.front());
  sent_.pop_front();
  note(reply);
  if (sent.call != nullptr) {
    is_slow_ = false;
    sent.call->reply = std::move(reply);
    sent.call->answered.raise();
    return;
  }
  const bool has_acted =
      reply.kind == RedisReply::Kind::list && !reply.items.empty() && reply.items[0].integer == 0;
  if (has_acted && !sent.undo.words.empty()) tell(sent.undo.script, sent.undo.words);
}

/// Logs the first of several errors. After those that another connection may mend it ends this one:
/// the server has lost its scripts, or is not the primary any more.
void RedisClient::note(const RedisReply& reply) {
  const bool is_error = reply.kind == RedisReply::Kind::error;
  if (is_error && !has_error_ && loop_.now() >= next_warning_) {
    next_warning_ = loop_.now() + warning_interval;
    warn(": " + reply.text);
  }
  has_error_ = is_error;
  const bool is_elsewhere = reply.text.starts_with("NOSCRIPT") ||
                            reply.text.starts_with("READONLY") || reply.text.starts_with("MOVED");
  if (is_error && is_elsewhere) socket_->watch().interrupt();
}

void RedisClient::warn(std::string_view problem) {
  if (!shared_.empty())
    log::limits.warning("no " + shared_ + " are shared: Redis" + std::string(problem));
}

/// Ends the wait of all calls that have waited too long.
void RedisClient::expire() {
  const Instant now = loop_.read_clock();
  for (Sent& each : sent_) {
    if (each.call == nullptr) continue;
    if (each.call->deadline > now) {
      timer_.arm(each.call->deadline);
      return;
    }
    if (!is_slow_) warn(" is too slow");
    is_slow_ = true;
    slow_until_ = now + slow_pause;
    std::exchange(each.call, nullptr)->answered.raise();
  }
}

void RedisClient::disconnect() {
  flushing_.drop();
  script_ids_.clear();
  socket_.reset();
  is_slow_ = false;
  received_.clear();
  unsent_.clear();
  writing_bytes_ = 0;
  timer_.disarm();
  for (const Sent& each : std::exchange(sent_, {})) {
    if (each.call != nullptr) each.call->answered.raise();
  }
}

}  // namespace evenkeel
