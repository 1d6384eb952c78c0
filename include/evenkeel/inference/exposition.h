// The text in which servers tell of themselves: Prometheus text 0.0.4 and 1.0, OpenMetrics. Read as
// it comes, in pieces; lines of names that nobody wants are passed over as fast as memory is read.
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

/// One line of an exposition: `name{labels} value`. Views into that line.
struct Sample {
  std::string_view name;
  std::string_view labels;  ///< what stands between the braces, as written; see `find_label`
  double value = 0;         ///< may be NaN, and infinite
};

/// Reads one line, without its line feed. Nothing when it is a comment, empty, or no sample. What
/// stands behind the value (a timestamp, an exemplar) is not looked at.
std::optional<Sample> parse_sample(std::string_view line);

/// The value of a label, in any order, with or without a comma at the end; nothing when it is not
/// there. A view into `labels`, or into `scratch` where the value had to be unescaped.
std::optional<std::string_view> find_label(std::string_view labels, std::string_view name,
                                           std::string& scratch);

/// Names that somebody wants, arranged so that a line of another name is told by eight bytes.
class MetricNames {
 public:
  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

  /// `names` are different from each other and not empty; what they view must live as long.
  explicit MetricNames(std::vector<std::string_view> names);

  /// Where the name stands among those given; `none` when it does not.
  std::size_t find(std::string_view name) const;

  /// False when a line (without blanks before its name) certainly has none of the names.
  /// `end`: of the memory that may be read.
  bool may_match(const char* line, std::size_t size, const char* end) const;

 private:
  std::uint64_t window(const char* line, const char* end) const;
  std::size_t bit_of(std::uint64_t window) const { return (window * 0x9e3779b97f4a7c15u) >> 56; }

  std::vector<std::string_view> names_;
  std::size_t min_name_bytes_ = 0;
  std::size_t offset_ = 0;  // of the window: behind what all names begin with
  std::uint64_t mask_ = 0;  // of the window: where the shortest name is shorter than it
  std::array<std::uint64_t, 4> bloom_{};  // which windows the names have, hashed
};

/// Who is told of the samples.
class SampleSink {
 public:
  /// `which`: of the names.
  virtual void sample(std::size_t name_index, const Sample& sample) = 0;

 protected:
  ~SampleSink() = default;
};

/// Reads one exposition in pieces, cut anywhere.
class ExpositionReader {
 public:
  /// A line that is longer than this is passed over.
  static constexpr std::size_t max_line_bytes = std::size_t{64} * 1024;

  /// Both outlive the reader.
  ExpositionReader(const MetricNames& names, SampleSink& sink) : names_(names), sink_(sink) {}

  void read(std::string_view bytes);

  /// `# EOF` has come: what follows is not looked at.
  bool ended() const { return ended_; }
  /// The last line had no line feed: it is no sample, since its value may be cut short.
  bool has_partial_line() const { return !partial_.empty() || skipping_; }

 private:
  std::string_view finish_partial(std::string_view bytes);
  void line(const char* begin, std::size_t size, const char* end);

  const MetricNames& names_;
  SampleSink& sink_;
  std::string partial_;    // of a line whose end has not come
  bool skipping_ = false;  // the rest of a line that is too long
  bool ended_ = false;
};

}  // namespace evenkeel
