// The names of one kind that label metrics, and their indices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace evenkeel {

/// Names and how many plans use each. A name that none uses any more is a former one. Of those, the
/// last `max_former` keep their indices; the others are forgotten, and their indices are given to
/// new names.
///
/// Thread: one at a time.
class LabelNames {
 public:
  static constexpr std::size_t max_former = 256;

  /// Indices below `first`, which is 1 or more, are not given to names.
  explicit LabelNames(std::uint32_t first) : entries_(first) {}

  /// The index of a name; 0: it has none.
  std::uint32_t find(std::string_view name) const;
  /// The index of a name, also of one that is new; 0: there are too many.
  std::uint32_t add(std::string_view name);
  /// Counts one plan more that uses the name. Index 0 is ignored, here and below.
  void use(std::uint32_t index);
  /// Counts one plan less that uses the name. Allocates nothing.
  void release(std::uint32_t index);
  /// Forgets former names, those first that are unused for longest, until `max_former` are left.
  /// Appends their indices, which no name gets until they are passed to `reuse`.
  void forget(std::vector<std::uint32_t>& forgotten);
  void reuse(const std::vector<std::uint32_t>& forgotten);

  /// Indices end before this.
  std::size_t end() const { return entries_.size(); }
  /// The name of an index. Empty: it has none, or a former one. A name that no plan has used yet is
  /// not a former one.
  std::string_view used_name(std::size_t index) const;

 private:
  struct Entry {
    std::string_view name;  // the key in `indices_`; empty: none
    std::uint32_t uses = 0;
    bool is_former = false;
    // Former names in the order in which they became such, as a ring through entry 0.
    std::uint32_t previous = 0;
    std::uint32_t next = 0;
  };

  void append_former(std::uint32_t index);
  void remove_former(std::uint32_t index);

  std::map<std::string, std::uint32_t, std::less<>> indices_;
  std::vector<Entry> entries_;
  std::size_t former_ = 0;
  std::vector<std::uint32_t> free_;
};

}  // namespace evenkeel
