// A connection to a Redis or Valkey server, for one worker.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/high_resolution_timer.h"
#include "evenkeel/base/loop.h"
#include "evenkeel/base/task.h"
#include "evenkeel/upstream/connector.h"

namespace evenkeel {

/// A reply in RESP2, the protocol of Redis.
struct RedisReply {
  enum class Kind : std::uint8_t { text, error, integer, null, list };

  Kind kind = Kind::null;
  std::string text;  ///< of a text or an error
  std::int64_t integer = 0;
  std::vector<RedisReply> items;

  bool operator==(const RedisReply&) const = default;
};

/// What `parse_redis_reply` has found.
enum class RedisParse : std::uint8_t { reply, incomplete, malformed };
/// Takes one reply from the front of `bytes`, if all of it is there.
RedisParse parse_redis_reply(std::string_view& bytes, RedisReply& reply);

/// Appends a command of these words.
void append_redis_command(std::string& out, std::initializer_list<std::string_view> first,
                          const std::vector<std::string>& rest = {});

struct RedisOptions {
  std::vector<Endpoint> addresses;
  ConnectorOptions connector;
  std::string user;  ///< empty: the default user
  std::string password;
  std::uint32_t database = 0;
  Duration timeout{};  ///< the longest that a request waits for a reply

  bool operator==(const RedisOptions&) const = default;
};

/// Sends scripts to a server over one connection, without waiting for the reply to one before it
/// sends the next. Connects in the background, again and again where the server is away. While
/// there is no connection, or the server has been too slow, a call returns at once; a slow server
/// is tried with one call every 100 ms.
///
/// Thread: the loop's. Outlives its calls.
class RedisClient {
 public:
  /// `scripts`: what can be called, in Lua. `shared`: what is not shared while the server is away,
  /// as the log says: "limits"; empty for all workers but one, which log nothing.
  RedisClient(Loop& loop, RedisOptions options, std::vector<std::string> scripts,
              std::string shared);
  RedisClient(const RedisClient&) = delete;
  RedisClient& operator=(const RedisClient&) = delete;
  ~RedisClient();

  const RedisOptions& options() const { return options_; }
  /// The words of a call: the number of keys, the keys, the arguments.
  using Words = std::vector<std::string>;
  /// What is told to a script once a reply has come too late that is a list beginning with 0.
  struct Undo {
    std::size_t script = 0;
    Words words;  ///< empty: nothing
  };
  /// Calls a script by its number. Nothing: no reply in time, or an error.
  Task<std::optional<RedisReply>> call(std::size_t script, Words words, Undo undo);
  /// Calls it without waiting for the reply; does nothing where there is no connection.
  void tell(std::size_t script, const Words& words);
  /// True if the server answers in time, and so many bytes would not pile up for it.
  bool has_room(std::size_t bytes) const {
    return may_send() && !is_slow_ && unsent_.size() + writing_bytes_ + bytes <= max_unsent_bytes;
  }

 private:
  static constexpr std::size_t max_unsent_bytes = 4UL * 1024 * 1024;
  static constexpr Duration warning_interval = std::chrono::minutes(1);

  struct Call;
  struct Sent {
    Call* call = nullptr;  // null: none waits for the reply
    Undo undo;
  };
  /// A call that waits for its reply.
  struct Call {
    Call(Loop& loop, Instant until, std::deque<Sent>& all)
        : answered(loop), deadline(until), sent(all) {}
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    ~Call() {
      for (Sent& each : sent) {
        if (each.call == this) each.call = nullptr;
      }
    }

    Signal answered;
    const Instant deadline;
    std::deque<Sent>& sent;
    std::optional<RedisReply> reply;
  };

  Task<void> run();
  Task<bool> greet();
  Task<std::optional<RedisReply>> read_reply();
  Task<void> flush();
  bool may_send() const;
  void send(std::size_t script, const Words& words, Sent sent);
  void deliver(RedisReply reply);
  void note(const RedisReply& reply);
  void warn(std::string_view problem);
  void expire();
  void disconnect();

  Loop& loop_;
  const std::string shared_;
  const RedisOptions options_;
  const std::vector<std::string> scripts_;
  Connector connector_;
  std::unique_ptr<Socket> socket_;       // null: not connected
  std::vector<std::string> script_ids_;  // SHA-1; empty: not greeted yet
  std::string received_;
  std::string unsent_;
  std::size_t writing_bytes_ = 0;  // that the socket has been given
  Instant next_warning_{};         // of replies that are errors
  std::deque<Sent> sent_;          // in the order of their replies
  Instant slow_until_{};           // no call before, unless the server answers
  bool is_slow_ = false;
  bool has_error_ = false;  // the last reply was one
  Signal never_;
  MethodHighResolutionTimer<&RedisClient::expire> timer_;
  Task<void> flushing_;
  Task<void> running_;
};

}  // namespace evenkeel
