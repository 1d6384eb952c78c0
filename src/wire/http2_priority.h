// The priority that a client gives a request (RFC 9218).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace evenkeel {

/// The `priority` fields of one header section.
class Http2PriorityField {
 public:
  struct Priority {
    std::uint32_t urgency = 3;  ///< 0, the most urgent, to 7
    int incremental = 0;        ///< 1: a part of the response is of use
  };

  /// The next of these fields. One that cannot be read makes all of them void.
  void add(std::string_view value);
  /// Nothing if none can be read.
  std::optional<Priority> value() const;

 private:
  Priority priority_;
  bool given_ = false;
  bool broken_ = false;
};

}  // namespace evenkeel
