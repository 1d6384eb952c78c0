// Sends usage records to a collector.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "evenkeel/base/clock.h"
#include "evenkeel/config/config.h"

namespace evenkeel {

/// Posts the records of the usage file as batches of CloudEvents, about once a second, on a thread
/// of its own, which blocks for the collector. The file is all that it knows of them: neither
/// workers nor the writer of the file ever wait for it, and what cannot be sent stays there. After
/// a failure the next try follows after a second, which doubles up to a minute. Of a batch that is
/// refused for what is in it, halves are sent, down to the record at fault, which is skipped.
///
/// Thread: one, but for `status`.
class UsageSender {
 public:
  /// `version`: of the daemon, for the collector.
  explicit UsageSender(std::string version);
  UsageSender(const UsageSender&) = delete;
  UsageSender& operator=(const UsageSender&) = delete;
  /// Sends what the file has, for at most two seconds; the next process sends the rest.
  ~UsageSender();

  /// Sends the records of this file to this collector from now on, after those of the file before.
  /// Without a collector the thread ends, after the request in progress.
  void apply(const UsageConfig& config);
  /// Leaves the records to another process for good, after the request in progress.
  void retire();

  struct Status {
    std::uint64_t sent = 0;                   ///< records that the collector has taken
    std::uint64_t refused = 0;                ///< records that it has not, and that are skipped
    std::uint64_t failures = 0;               ///< requests that it has not taken
    std::optional<Duration> unsent_age = {};  ///< of the oldest record that was not sent; nothing:
                                              ///< another process sends them
  };
  /// What has come of it; nothing without a collector. Thread: any.
  std::optional<Status> status() const;

 private:
  class Impl;
  void end();
  void join_ended();

  const std::string version_;
  mutable std::mutex mutex_;                  // of `impl_`
  std::shared_ptr<Impl> impl_;                // also of its thread; null: there is no collector
  std::vector<std::shared_ptr<Impl>> ended_;  // whose threads are to be joined
  bool retired_ = false;
};

}  // namespace evenkeel
