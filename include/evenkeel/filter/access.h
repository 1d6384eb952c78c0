// Counts every request when it has ended, and writes its line into the access log.
#pragma once

#include "evenkeel/base/loop.h"
#include "evenkeel/http/message.h"
#include "evenkeel/stats/access_line.h"
#include "evenkeel/stats/access_log.h"
#include "evenkeel/stats/sheet.h"

namespace evenkeel {

/// What a worker counts and logs with. Thread: the worker's.
class Ledger {
 public:
  /// `ring` null: no access log.
  Ledger(Loop& loop, Sheet& sheet, LineRing* ring) : loop_(loop), sheet_(sheet), ring_(ring) {}

  /// From now on requests end because we leave, not because their clients do.
  void leave() { leaving_ = true; }
  bool leaving() const { return leaving_; }
  /// A request is on its way to its pool.
  void begin(const About& about) { sheet_.pool(about.pool_index).in_flight.add(); }
  /// It has ended, one way or another.
  void end(std::string_view method, std::string_view host, std::string_view path,
           const About& about);
  /// It ended before there was a pool to send it to.
  void refused(std::string_view method, std::string_view path, const About& about);

 private:
  void write(std::string_view method, std::string_view host, std::string_view path,
             const About& about, Instant ended, int status);

  Loop& loop_;
  Sheet& sheet_;
  LineRing* ring_;
  bool leaving_ = false;
  WallTime wall_time_;
  AccessLine line_;
};

/// The outermost filter: also the place where an error becomes an answer. A request is counted when
/// its response body is dropped, or when it is dropped itself.
class AccessFilter final : public Filter {
 public:
  explicit AccessFilter(Ledger& ledger) : ledger_(ledger) {}
  Task<Result<Response>> handle(Request& request, Handler& next) override;

 private:
  Ledger& ledger_;
};

}  // namespace evenkeel
