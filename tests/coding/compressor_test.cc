#include "evenkeel/coding/compressor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/coding/decompressor.h"
#include "evenkeel/coding/window_budget.h"

namespace evenkeel {
namespace {

struct Coding {
  const char* name;
  std::unique_ptr<Compressor> (*compressor)();
  std::unique_ptr<Decompressor> (*decompressor)();
};

constexpr std::array<Coding, 2> codings = {{
    {"gzip", make_gzip_compressor, make_gzip_decompressor},
    {"zstd", make_zstd_compressor, [] { return make_zstd_decompressor(WindowShare{}); }},
}};

class Compressors : public testing::TestWithParam<Coding> {};

/// Compresses a piece into room of so many bytes at a time.
std::string compress(Compressor& compressor, std::string_view piece, Compressor::Ending ending,
                     std::size_t room_size = 1000) {
  std::string out;
  std::string room(room_size, '\0');
  auto status = Compressor::Status::more;
  std::size_t size = 0;
  do {
    status = compressor.next(piece, ending, room, size);
    EXPECT_NE(status, Compressor::Status::failed);
    out.append(room, 0, size);
  } while (ending == Compressor::Ending::none ? !piece.empty()
                                              : status == Compressor::Status::more);
  EXPECT_TRUE(piece.empty());
  return out;
}

/// The text, and whether it is complete.
std::pair<std::string, bool> decompressed(const Coding& coding, std::string_view bytes) {
  const auto data = coding.decompressor();
  std::string text;
  std::string room(4096, '\0');
  std::size_t size = 0;
  do {
    EXPECT_EQ(data->next(bytes, room, size), Decompressor::Status::good);
    text.append(room, 0, size);
  } while (!bytes.empty() || size == room.size());
  return {text, data->complete()};
}

std::string document(std::size_t size) {
  std::mt19937 random(7);
  std::string text = "{\"data\":[";
  while (text.size() < size) text += std::to_string(random()) + ",";
  return text.substr(0, size);
}

TEST_P(Compressors, GiveBackTheTextWhereverItIsCut) {
  const std::string text = document(600);
  const auto compressor = GetParam().compressor();
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    for (const auto ending : {Compressor::Ending::none, Compressor::Ending::flush}) {
      compressor->begin(text.size());
      std::string all = compress(*compressor, std::string_view(text).substr(0, cut), ending, 7);
      all += compress(*compressor, std::string_view(text).substr(cut), Compressor::Ending::finish);
      EXPECT_EQ(decompressed(GetParam(), all), std::pair(text, true)) << cut;
    }
  }
}

TEST_P(Compressors, FlushSoThatAllIsReadable) {
  const std::string text = document(300'000);
  const auto compressor = GetParam().compressor();
  compressor->begin(std::nullopt);
  std::string all;
  for (std::size_t at = 0; at < text.size(); at += 70'001) {
    const std::string_view piece = std::string_view(text).substr(at, 70'001);
    all += compress(*compressor, piece, Compressor::Ending::flush);
    EXPECT_EQ(decompressed(GetParam(), all).first, text.substr(0, at + piece.size()));
  }
  all += compress(*compressor, {}, Compressor::Ending::finish);
  EXPECT_EQ(decompressed(GetParam(), all), std::pair(text, true));
  EXPECT_LT(all.size(), text.size() * 6 / 10);
}

TEST_P(Compressors, BeginAnotherTextWhereverOneWasDropped) {
  const std::string text = document(5000);
  const auto compressor = GetParam().compressor();
  for (const auto ending :
       {Compressor::Ending::none, Compressor::Ending::flush, Compressor::Ending::finish}) {
    compressor->begin(std::nullopt);
    compress(*compressor, document(100'000), ending);
    compressor->begin(text.size());
    const std::string all = compress(*compressor, text, Compressor::Ending::finish);
    EXPECT_EQ(decompressed(GetParam(), all), std::pair(text, true));
  }
}

TEST_P(Compressors, CompressNothing) {
  const auto compressor = GetParam().compressor();
  compressor->begin(std::nullopt);
  const std::string all = compress(*compressor, {}, Compressor::Ending::finish, 3);
  EXPECT_EQ(decompressed(GetParam(), all), std::pair(std::string(), true));
}

INSTANTIATE_TEST_SUITE_P(Codings, Compressors, testing::ValuesIn(codings),
                         [](const auto& coding) { return std::string(coding.param.name); });

}  // namespace
}  // namespace evenkeel
