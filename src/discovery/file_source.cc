#include <string>
#include <utility>

#include "discovery/source.h"
#include "evenkeel/base/file_watch.h"
#include "evenkeel/config/backend_list.h"

namespace evenkeel {
namespace {

class FileSource final : public DiscoverySource {
 public:
  FileSource(const SourceParts& parts, std::string file)
      : loop_(parts.loop), found_(parts.found), file_(std::move(file)), reading_(run()) {}

 private:
  Task<void> run() {
    co_await loop_.yield();  // not from inside the constructor
    while (true) {
      watch_.follow(file_, version_of(file_));  // or of an older one
      while (!read()) co_await loop_.sleep_for(FoundList::second_look);
      while (!watch_.has_changed(loop_.read_clock())) {
        note_presence();
        co_await loop_.sleep_for(FileWatch::interval);
      }
    }
  }

  /// A file that is read and does not change says that what was found is still true.
  void note_presence() {
    if (is_good_) found_.note_good();
  }

  /// False if the file is to be read again, before its list counts.
  bool read() {
    is_good_ = false;
    auto list = read_backend_file(file_);
    if (!list) {
      found_.note_failure("'" + file_ + "': " + list.error().detail);
      return true;
    }
    is_good_ = found_.offer(std::move(*list));
    return is_good_;
  }

  Loop& loop_;
  FoundList& found_;
  std::string file_;
  FileWatch watch_;
  bool is_good_ = false;  // the last reading of the file
  Task<void> reading_;
};

}  // namespace

DiscoverySourcePtr make_file_source(const SourceParts& parts, const std::string& file) {
  return std::make_unique<FileSource>(parts, file);
}

}  // namespace evenkeel
