#include "evenkeel/base/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/line_writer.h"
#include "evenkeel/base/utf8.h"

namespace evenkeel::log {
namespace {

constexpr const char* pattern = "%Y-%m-%dT%H:%M:%S.%e%z %l [%n] %v";
/// The most bytes of lines that wait for a reader of stderr.
constexpr std::size_t queue_bytes = 1024 * 1024;
/// How long the exit waits for a reader that takes nothing.
constexpr std::chrono::milliseconds exit_patience{500};

constexpr std::array<std::string_view, 4> names_of_levels{"debug", "info", "warning", "error"};
constexpr std::array<std::string_view, subsystem_count> names{
    "access_log", "admin",   "affinity", "discovery", "dns",   "health", "limits",  "listener",
    "outlier",    "polling", "process",  "reload",    "state", "tls",    "tracing", "usage"};
static_assert(names[static_cast<std::size_t>(Subsystem::usage)] == "usage");

/// The value whose name this is, by its place among the names.
template <class Value, std::size_t N>
std::optional<Value> value_of(std::string_view name, const std::array<std::string_view, N>& all) {
  const auto* const found = std::ranges::find(all, name);
  if (found == all.end()) return std::nullopt;
  return static_cast<Value>(found - all.begin());
}

spdlog::level::level_enum spdlog_level(Level level) {
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
std::atomic<Level> common_level{Level::info};

std::string dropped_notice(std::uint64_t dropped) {
  const std::string text = "log: " + std::to_string(dropped) +
                           " lines dropped here: stderr was not read in time, or not writable";
  spdlog::pattern_formatter formatter(pattern);
  spdlog::memory_buf_t line;
  formatter.format({"process", spdlog::level::warn, text}, line);
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
      const std::string_view name(message.logger_name.data(), message.logger_name.size());
      writer_.append(format({message.time, level_of(message.level), name, text}) + '\n');
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
  Log() {
    const auto sink = std::make_shared<QueueSink>(writer);
    sink->set_pattern(pattern);
    for (const std::string_view name : names) {
      loggers.push_back(std::make_unique<spdlog::logger>(std::string(name), sink));
    }
  }
  spdlog::logger& of(Subsystem subsystem) { return *loggers[static_cast<std::size_t>(subsystem)]; }

  LineWriter writer{STDERR_FILENO, queue_bytes, &dropped_notice};
  std::vector<std::unique_ptr<spdlog::logger>> loggers;  // in the order of Subsystem
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

void set_level(Level least) {
  common_level.store(least, std::memory_order_relaxed);
  for (const auto& logger : instance().loggers) logger->set_level(spdlog_level(least));
}

Level level() { return common_level.load(std::memory_order_relaxed); }

void set_format(Format format) { chosen_format.store(format, std::memory_order_relaxed); }

std::string_view to_string(Level level) { return names_of_levels[static_cast<std::size_t>(level)]; }

std::optional<Level> level_of(std::string_view name) {
  return value_of<Level>(name, names_of_levels);
}

std::span<const std::string_view, 4> level_names() { return names_of_levels; }

std::string_view to_string(Subsystem subsystem) {
  return names[static_cast<std::size_t>(subsystem)];
}

std::optional<Subsystem> subsystem_of(std::string_view name) {
  return value_of<Subsystem>(name, names);
}

std::span<const std::string_view, subsystem_count> subsystem_names() { return names; }

void Logger::set_level(Level least) const {
  instance().of(subsystem_).set_level(spdlog_level(least));
}

Level Logger::level() const { return level_of(instance().of(subsystem_).level()); }

void Logger::write(Level level, std::string_view message) const {
  spdlog::logger& logger = instance().of(subsystem_);
  if (!logger.should_log(spdlog_level(level))) return;
  // Parts of it may come from servers and clients.
  const std::string text = printable_utf8(message, "\n\t");
  logger.log(spdlog_level(level), spdlog::string_view_t(text.data(), text.size()));
}

void Logger::record(std::string_view message) const {
  const spdlog::logger& logger = instance().of(subsystem_);
  const std::string text = printable_utf8(message, "\n\t");
  const spdlog::details::log_msg line(logger.name(), spdlog::level::info,
                                      spdlog::string_view_t(text.data(), text.size()));
  for (const auto& sink : logger.sinks()) sink->log(line);
}

void print(std::string_view lines) {
  std::string text(lines);
  if (!text.ends_with('\n')) text += '\n';
  instance().writer.append(std::move(text));
}

std::uint64_t dropped_lines() { return instance().writer.dropped(); }

}  // namespace evenkeel::log
