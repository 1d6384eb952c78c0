// A parser of metrics pages: Prometheus text 0.0.4 and 1.0, OpenMetrics. It takes a page in pieces,
// and skips lines with unwanted names as fast as memory can be read.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace evenkeel {

/// One line of a page: `name{labels} value`. Views into that line.
struct Sample {
  std::string_view name;
  std::string_view labels;  ///< the text between the braces; see `find_label`
  double value = 0;         ///< may be NaN or infinite
};

/// Parses one line, without its line feed. Nothing if it is a comment, empty, or not a sample. Text
/// after the value (a timestamp, an exemplar) is ignored.
std::optional<Sample> parse_sample(std::string_view line);

/// The value of a label; nothing if there is no such label. A view into `labels`, or into `scratch`
/// if the value had to be unescaped.
std::optional<std::string_view> find_label(std::string_view labels, std::string_view name,
                                           std::string& scratch);

/// The wanted names, indexed so that eight bytes of a line suffice to rule out most others.
class MetricNames {
 public:
  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

  /// REQUIRES: `names` are distinct and not empty, and what they view outlives this object.
  explicit MetricNames(std::vector<std::string_view> names);

  /// The index of the name among those given; `none` if it is not there.
  std::size_t find(std::string_view name) const;

  /// False if a line (without leading blanks) certainly has none of the names. `end`: the end of
  /// readable memory.
  bool may_match(const char* line, std::size_t size, const char* end) const;

 private:
  std::uint64_t window(const char* line, const char* end) const;
  std::size_t bit_of(std::uint64_t window) const { return (window * 0x9e3779b97f4a7c15u) >> 56; }

  std::vector<std::string_view> names_;
  std::size_t min_name_bytes_ = 0;
  std::size_t offset_ = 0;                // of the window: after the common prefix of all names
  std::uint64_t mask_ = 0;                // of the window: covers the shortest name only
  std::array<std::uint64_t, 4> bloom_{};  // hashes of the windows of the names
};

/// Receives the samples.
class SampleSink {
 public:
  /// `name_index`: of the sample's name among the wanted ones.
  virtual void sample(std::size_t name_index, const Sample& sample) = 0;

 protected:
  ~SampleSink() = default;
};

/// Parses one page, in pieces of any size.
class ExpositionReader {
 public:
  /// Longer lines are skipped.
  static constexpr std::size_t max_line_bytes = std::size_t{64} * 1024;

  /// REQUIRES: both outlive the reader.
  ExpositionReader(const MetricNames& names, SampleSink& sink) : names_(names), sink_(sink) {}

  void read(std::string_view bytes);

  /// True if `# EOF` was read: what follows is ignored.
  bool ended() const { return ended_; }
  /// True if the last line has no line feed. Then it is no sample: its value may be incomplete.
  bool has_partial_line() const { return !partial_.empty() || skipping_; }

 private:
  std::string_view finish_partial(std::string_view bytes);
  void line(const char* begin, std::size_t size, const char* end);

  const MetricNames& names_;
  SampleSink& sink_;
  std::string partial_;    // a line whose end is not in yet
  bool skipping_ = false;  // until the end of a line that is too long
  bool ended_ = false;
};

}  // namespace evenkeel
