#include "evenkeel/upstream/redis_answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "evenkeel/base/ascii.h"
#include "evenkeel/base/hash.h"
#include "evenkeel/http/fields.h"

namespace evenkeel {
namespace {

using std::chrono::milliseconds;
using WallTime = std::chrono::system_clock::time_point;

/// Keys: how often the answers of the pool were dropped, and the answer. That number is part of the
/// answer's key: those from before it are never found again, and expire.
constexpr std::string_view find_script = R"(
local generation = redis.call('GET', KEYS[1]) or '0'
return {generation, redis.call('GET', KEYS[2] .. ':' .. generation)}
)";
constexpr std::string_view keep_script = R"(
if (redis.call('GET', KEYS[1]) or '0') == ARGV[3] then
  redis.call('SET', KEYS[2] .. ':' .. ARGV[3], ARGV[1], 'PX', ARGV[2])
end
return 0
)";
constexpr std::string_view clear_script = R"(
redis.call('INCR', KEYS[1])
return 0
)";
constexpr std::size_t find_number = 0;
constexpr std::size_t keep_number = 1;
constexpr std::size_t clear_number = 2;

constexpr std::uint64_t format_version = 1;
constexpr std::size_t max_fields = 256;

std::string generation_key(std::string_view pool) {
  return fmt::format("evenkeel:{{limits}}:answers:{}", pool);
}

std::string answer_key(const AnswerKey& key) {
  return fmt::format("evenkeel:{{limits}}:answers:{:016x}{:016x}{:016x}{:016x}:{}", key.first.high,
                     key.first.low, key.second.high, key.second.low, key.body_bytes);
}

AnswerCache::Seeds seeds_of(std::string_view password) {
  const WideHash hash = wide_hash_of(password, 0x6361'6368'6500'0001);
  return {hash.low, hash.high};
}

void append(std::string& out, std::uint64_t number) {
  out.append(reinterpret_cast<const char*>(&number), sizeof number);
}
void append(std::string& out, std::string_view text) {
  append(out, std::uint64_t{text.size()});
  out.append(text);
}

/// Takes numbers and texts from the front. Once something is missing, all that follows is.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  std::uint64_t number() {
    std::uint64_t number = 0;
    if (rest_.size() < sizeof number) {
      fail();
      return 0;
    }
    std::memcpy(&number, rest_.data(), sizeof number);
    rest_.remove_prefix(sizeof number);
    return number;
  }
  std::string_view text() {
    const std::uint64_t size = number();
    if (size > rest_.size()) {
      fail();
      return {};
    }
    const std::string_view text = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return text;
  }
  bool is_at_end() const { return !failed_ && rest_.empty(); }
  bool failed() const { return failed_; }

 private:
  void fail() {
    failed_ = true;
    rest_ = {};
  }

  std::string_view rest_;
  bool failed_ = false;
};

/// Fields of a connection, of framing, for one client, or of evenkeel itself: no answer that was
/// kept has them.
constexpr std::string_view refused_names[] = {"connection",
                                              "keep-alive",
                                              "proxy-connection",
                                              "transfer-encoding",
                                              "content-length",
                                              "upgrade",
                                              "te",
                                              "trailer",
                                              "set-cookie",
                                              "age",
                                              "set-cookie2",
                                              "proxy-authenticate"};

bool is_name(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, is_token_char) &&
         !starts_with_ignore_case(name, "x-evenkeel-") &&
         std::ranges::none_of(refused_names, [name](std::string_view refused) {
           return equals_ignore_case(name, refused);
         });
}
bool is_value(std::string_view value) {
  return value.find_first_of(std::string_view("\r\n\0", 3)) == value.npos;
}

std::uint64_t wall_of(Instant instant, Instant now, WallTime time) {
  const auto wall = time + std::chrono::duration_cast<WallTime::duration>(instant - now);
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<milliseconds>(wall.time_since_epoch()).count());
}

/// The time, at most a year before or after now: it comes from elsewhere.
Instant instant_of(std::uint64_t wall, Instant now, WallTime time) {
  constexpr milliseconds year = std::chrono::hours(24 * 365);
  const auto present = std::chrono::duration_cast<milliseconds>(time.time_since_epoch());
  const auto wanted = milliseconds(static_cast<std::int64_t>(
      std::min<std::uint64_t>(wall, static_cast<std::uint64_t>((present + year).count()))));
  return now + std::max<milliseconds>(wanted - present, -year);
}

}  // namespace

std::string answer_to_bytes(const KeptAnswer& answer, Instant now, WallTime time) {
  std::string bytes;
  append(bytes, format_version);
  append(bytes, std::uint64_t{answer.has_length});
  append(bytes, wall_of(answer.stored, now, time));
  append(bytes, wall_of(answer.fresh_until, now, time));
  append(bytes, wall_of(answer.stale_until, now, time));
  append(bytes, std::uint64_t{answer.fields.size()});
  for (const KeptAnswer::Field& field : answer.fields) {
    append(bytes, field.name);
    append(bytes, field.value);
  }
  append(bytes, answer.body);
  return bytes;
}

std::shared_ptr<KeptAnswer> parse_answer(std::string_view bytes, Instant now, WallTime time) {
  Reader reader(bytes);
  if (reader.number() != format_version) return nullptr;
  auto answer = std::make_shared<KeptAnswer>();
  answer->has_length = reader.number() != 0;
  answer->stored = std::min(instant_of(reader.number(), now, time), now);
  answer->fresh_until = instant_of(reader.number(), now, time);
  answer->stale_until = instant_of(reader.number(), now, time);
  const std::uint64_t fields = reader.number();
  for (std::uint64_t i = 0; i < fields && i < max_fields && !reader.failed(); ++i) {
    const std::string_view name = reader.text();
    const std::string_view value = reader.text();
    if (!is_name(name) || !is_value(value)) return nullptr;
    answer->fields.push_back({std::string(name), std::string(value)});
  }
  answer->body = reader.text();
  if (!reader.is_at_end() || answer->stale_until <= now) return nullptr;
  return answer;
}

RedisAnswers::RedisAnswers(Loop& loop, RedisOptions options, bool logs)
    : loop_(loop),
      seeds_(seeds_of(options.password)),
      client_(loop, std::move(options),
              {std::string(find_script), std::string(keep_script), std::string(clear_script)},
              logs ? "kept answers" : "") {}

Task<RedisAnswers::Found> RedisAnswers::find(std::string_view pool, AnswerKey key) {
  RedisClient::Words words = {"2", generation_key(pool), answer_key(key)};
  auto reply = co_await client_.call(find_number, std::move(words), {});
  Found found;
  if (!reply || reply->items.size() != 2) co_return found;
  found.generation = std::move(reply->items[0].text);
  found.answer =
      parse_answer(reply->items[1].text, loop_.read_clock(), std::chrono::system_clock::now());
  co_return found;
}

void RedisAnswers::keep(std::string_view pool, const AnswerKey& key, const KeptAnswer& answer,
                        std::string generation) {
  const Instant now = loop_.read_clock();
  const auto kept_for = std::chrono::ceil<milliseconds>(answer.stale_until - now);
  if (generation.empty() || !client_.has_room(answer.size()) || kept_for <= milliseconds(0)) return;
  std::string bytes = answer_to_bytes(answer, now, std::chrono::system_clock::now());
  if (bytes.size() > max_bytes || !client_.has_room(bytes.size())) return;
  client_.tell(keep_number, {"2", generation_key(pool), answer_key(key), std::move(bytes),
                             std::to_string(kept_for.count()), std::move(generation)});
}

Task<bool> RedisAnswers::clear(std::string pool) {
  RedisClient::Words words = {"1", generation_key(pool)};
  const auto reply = co_await client_.call(clear_number, std::move(words), {});
  co_return reply.has_value();
}

Task<bool> clear_shared_answers(Loop& loop, RedisOptions options, std::vector<std::string> pools) {
  constexpr Duration patience = std::chrono::seconds(3);
  constexpr Duration pause = milliseconds(50);
  options.timeout = std::chrono::seconds(1);
  RedisAnswers answers(loop, std::move(options), false);
  Signal woken(loop);
  const Instant deadline = loop.read_clock() + patience;
  for (const std::string& pool : pools) {
    while (true) {
      const bool is_cleared = co_await answers.clear(pool);
      if (is_cleared) break;
      if (loop.read_clock() >= deadline) co_return false;
      co_await woken.wait(loop.read_clock() + pause);
    }
  }
  co_return true;
}

}  // namespace evenkeel
