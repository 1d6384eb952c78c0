// Decodes header blocks with nghttp2's decoder, as a peer does.
#pragma once

#include <gtest/gtest.h>
#include <nghttp2/nghttp2.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace evenkeel {

class HpackDecoder {
 public:
  struct Section {
    std::vector<std::pair<std::string, std::string>> fields;
    std::vector<std::string> never_indexed;  // their names
  };

  HpackDecoder() { nghttp2_hd_inflate_new(&inflater_); }
  HpackDecoder(const HpackDecoder&) = delete;
  HpackDecoder& operator=(const HpackDecoder&) = delete;
  ~HpackDecoder() { nghttp2_hd_inflate_del(inflater_); }

  /// The peer acknowledges this limit before it sends the next block.
  void limit_table(std::size_t bytes) {
    EXPECT_EQ(nghttp2_hd_inflate_change_table_size(inflater_, bytes), 0);
  }
  std::size_t table_bytes() const { return nghttp2_hd_inflate_get_dynamic_table_size(inflater_); }

  Section decode(std::string_view block) {
    Section section;
    const auto* at = reinterpret_cast<const std::uint8_t*>(block.data());
    std::size_t left = block.size();
    while (true) {
      nghttp2_nv field;
      int flags = 0;
      const auto taken = nghttp2_hd_inflate_hd2(inflater_, &field, &flags, at, left, 1);
      if (taken < 0) {
        ADD_FAILURE() << nghttp2_strerror(static_cast<int>(taken));
        return section;
      }
      at += taken;
      left -= static_cast<std::size_t>(taken);
      if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0) {
        section.fields.emplace_back(text(field.name, field.namelen),
                                    text(field.value, field.valuelen));
        if ((field.flags & NGHTTP2_NV_FLAG_NO_INDEX) != 0) {
          section.never_indexed.push_back(section.fields.back().first);
        }
      }
      if ((flags & NGHTTP2_HD_INFLATE_FINAL) != 0) break;
    }
    nghttp2_hd_inflate_end_headers(inflater_);
    return section;
  }

 private:
  static std::string text(const std::uint8_t* bytes, std::size_t size) {
    return {reinterpret_cast<const char*>(bytes), size};
  }

  nghttp2_hd_inflater* inflater_ = nullptr;
};

}  // namespace evenkeel
