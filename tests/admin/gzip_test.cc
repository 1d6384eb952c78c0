#include "admin/gzip.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <string>

namespace evenkeel {
namespace {

std::string inflated(std::string compressed) {
  z_stream stream{};
  constexpr int gzip_only = 15 + 16;
  EXPECT_EQ(inflateInit2(&stream, gzip_only), Z_OK);
  std::string text(10 * 1024 * 1024, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(compressed.data());
  stream.avail_in = static_cast<uInt>(compressed.size());
  stream.next_out = reinterpret_cast<Bytef*>(text.data());
  stream.avail_out = static_cast<uInt>(text.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  text.resize(stream.total_out);
  inflateEnd(&stream);
  return text;
}

TEST(Gzip, GivesBackWhatItCompresses) {
  std::string page;
  for (int i = 0; i < 100'000; ++i)
    page += "evenkeel_backend_up{backend=\"" + std::to_string(i) + "\"} 1\n";

  const std::string compressed = gzip(page);

  EXPECT_LT(compressed.size(), page.size() / 5);
  EXPECT_EQ(inflated(compressed), page);
  EXPECT_EQ(inflated(gzip("")), "");
}

}  // namespace
}  // namespace evenkeel
