#include "evenkeel/base/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>

#include "base/line_writer.h"
#include "evenkeel/base/utf8.h"

namespace evenkeel::log {
namespace {

constexpr const char* pattern = "%Y-%m-%dT%H:%M:%S.%e%z %l %v";
/// The most bytes of lines that wait for a reader of stderr.
constexpr std::size_t queue_bytes = 1024 * 1024;
/// How long the exit waits for a reader that takes nothing.
constexpr std::chrono::milliseconds exit_patience{500};

spdlog::level::level_enum level_of(Level level) {
  switch (level) {
    case Level::debug: return spdlog::level::debug;
    case Level::info: return spdlog::level::info;
    case Level::warning: return spdlog::level::warn;
    case Level::error: return spdlog::level::err;
  }
  return spdlog::level::info;
}

Level level_of(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::trace:
    case spdlog::level::debug: return Level::debug;
    case spdlog::level::warn: return Level::warning;
    case spdlog::level::err:
    case spdlog::level::critical: return Level::error;
    default: return Level::info;
  }
}

std::atomic<Format> chosen_format{nullptr};

std::string dropped_notice(std::uint64_t dropped) {
  const std::string text = "log: " + std::to_string(dropped) +
                           " lines dropped here: stderr was not read in time, or not writable";
  spdlog::pattern_formatter formatter(pattern);
  spdlog::memory_buf_t line;
  formatter.format({"evenkeel", spdlog::level::warn, text}, line);
  return {line.data(), line.size()};
}

/// Formats on the calling thread; a LineWriter writes.
class QueueSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit QueueSink(LineWriter& writer) : writer_(writer) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    if (const Format format = chosen_format.load(std::memory_order_relaxed)) {
      const std::string_view text(message.payload.data(), message.payload.size());
      writer_.append(format({message.time, level_of(message.level), text}) + '\n');
      return;
    }
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    writer_.append({line.data(), line.size()});
  }
  void flush_() override {}

  LineWriter& writer_;
};

struct Log {
  Log() : logger("evenkeel", std::make_shared<QueueSink>(writer)) { logger.set_pattern(pattern); }

  LineWriter writer{STDERR_FILENO, queue_bytes, &dropped_notice};
  spdlog::logger logger;
};

/// Never destroyed: what runs at the exit may still log, and the writing thread may be waiting for
/// a reader that never comes.
Log& instance() {
  static Log* const log = [] {
    auto* const made = new Log;
    const auto flush = [] { instance().writer.flush(exit_patience); };
    std::atexit(flush);
    std::at_quick_exit(flush);
    return made;
  }();
  return *log;
}

}  // namespace

void set_level(Level least) { instance().logger.set_level(level_of(least)); }

Level level() { return level_of(instance().logger.level()); }

void set_format(Format format) { chosen_format.store(format, std::memory_order_relaxed); }

std::string_view to_string(Level level) {
  switch (level) {
    case Level::debug: return "debug";
    case Level::info: return "info";
    case Level::warning: return "warning";
    case Level::error: return "error";
  }
  return "unknown";
}

void write(Level level, std::string_view message) {
  if (!instance().logger.should_log(level_of(level))) return;
  // Parts of it may come from servers and clients.
  const std::string text = printable_utf8(message, "\n\t");
  instance().logger.log(level_of(level), spdlog::string_view_t(text.data(), text.size()));
}

void print(std::string_view lines) {
  std::string text(lines);
  if (!text.ends_with('\n')) text += '\n';
  instance().writer.append(std::move(text));
}

std::uint64_t dropped_lines() { return instance().writer.dropped(); }

}  // namespace evenkeel::log
