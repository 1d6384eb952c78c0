// The audit log: who has changed what in the daemon, and what became of clients' credentials.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_set>

#include "evenkeel/base/clock.h"
#include "evenkeel/base/result.h"
#include "evenkeel/json/value.h"

namespace evenkeel {

class AuditFile;

/// What was refused to a client or an operator.
enum class AuditRefusal : std::uint8_t { unauthorized, model_not_allowed, admin };
inline constexpr std::size_t audit_refusals = 3;

/// What causes a record: those of clients, which may be many, leave half of the memory to others.
enum class AuditCause : std::uint8_t { operators, clients };

/// A queue of records and the thread that writes them, each continuing the chain of those before
/// (audit_record.h). Records that cannot be written wait in memory, in order; when that is full,
/// further ones are lost and counted, and a record says how many. What fails is reported in the
/// daemon's log once, until it works again.
///
/// Thread: any, but for constructor and destructor. No member waits for the disk.
class AuditLog {
 public:
  using Members = JsonValue::Object;

  /// Refusals of a kind that get a record in a second. The others are counted, in a record of their
  /// own.
  static constexpr int refusals_per_second = 10;
  /// Keys whose first use gets a record.
  static constexpr std::size_t max_keys = 100'000;

  /// `path`: of the file; `key`: of the hashes, empty: none.
  static Result<std::unique_ptr<AuditLog>> open(std::string path, std::string key);
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;
  /// Writes the records that wait, if that takes no more than 5 s.
  ~AuditLog();

  /// Records an event. Long texts are cut.
  void record(std::string_view event, Members members, AuditCause cause = AuditCause::operators);
  /// True if a refusal is to be recorded now; otherwise it is counted.
  bool admits(AuditRefusal kind);
  /// True the first time that a key is named since the start, as long as there is room.
  bool is_first_use(std::string_view key);

  std::uint64_t written() const { return written_.load(std::memory_order_relaxed); }
  std::uint64_t lost() const { return lost_.load(std::memory_order_relaxed); }
  /// The number of the last record in the file, which that of its file must not be below.
  std::uint64_t last_sequence() const { return last_sequence_.load(std::memory_order_relaxed); }

 private:
  explicit AuditLog(AuditFile file);

  /// Refusals of a kind.
  struct Refusals {
    std::atomic<int> left{refusals_per_second};  // that get a record until the next refill
    std::atomic<std::uint64_t> uncounted{0};     // that got none, and are in no record's count
  };

  void run();
  void queue(std::string members, std::size_t max_bytes);
  bool write_queued(std::unique_lock<std::mutex>& lock);
  void refill();
  void report_lost();
  void report(int error);

  std::unique_ptr<AuditFile> file_;  // the thread's
  bool failing_ = false;             // likewise: the last write has failed
  std::atomic<std::uint64_t> written_{0};
  std::atomic<std::uint64_t> lost_{0};
  std::atomic<std::uint64_t> last_sequence_{0};
  std::array<Refusals, audit_refusals> refusals_;  // by kind

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::string> queued_;  // members
  std::size_t queued_bytes_ = 0;
  std::uint64_t unreported_ = 0;  // lost records
  Instant refill_at_ = never;
  bool stopping_ = false;

  std::mutex keys_mutex_;                 // workers wait for no writer
  std::unordered_set<std::string> keys_;  // that were used; has room for all
  std::thread thread_;
};

}  // namespace evenkeel
