#include "evenkeel/inference/grpc_message.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace evenkeel {
namespace {

using Step = GrpcMessageReader::Step;

std::string framed(const std::vector<std::string>& messages) {
  std::string out;
  for (const std::string& message : messages) append_grpc_frame(out, message);
  return out;
}

/// The messages of a stream in pieces of that size; ends with "!" if it fails.
std::vector<std::string> read_in_pieces(std::string_view stream, std::size_t piece,
                                        std::size_t largest = 1 << 20) {
  GrpcMessageReader reader(largest);
  std::vector<std::string> messages;
  while (!stream.empty()) {
    std::string_view bytes = stream.substr(0, piece);
    stream.remove_prefix(bytes.size());
    while (true) {
      const Step step = reader.read(bytes);
      if (step == Step::more) break;
      if (step != Step::message) {
        messages.emplace_back("!");
        return messages;
      }
      messages.emplace_back(reader.message());
    }
    EXPECT_TRUE(bytes.empty());
  }
  if (!reader.at_boundary()) messages.emplace_back("...");
  return messages;
}

TEST(GrpcFrame, IsAFlagALengthAndTheMessage) {
  std::string out = "x";
  append_grpc_frame(out, "abc");
  EXPECT_EQ(out, std::string("x\0\0\0\0\3abc", 9));
  out.clear();
  append_grpc_frame(out, std::string(0x01020304 & 0xffff, 'y'));
  EXPECT_EQ(out.substr(0, 5), std::string("\0\0\0\3\4", 5));
}

TEST(GrpcMessageReader, FindsTheSameMessagesInAnyPieces) {
  const std::vector<std::string> messages = {"one", "", std::string(1000, 'x'), "", "last"};
  const std::string stream = framed(messages);
  for (std::size_t piece = 1; piece <= stream.size(); ++piece) {
    EXPECT_EQ(read_in_pieces(stream, piece), messages) << piece;
  }
}

TEST(GrpcMessageReader, DoesNotCopyACompleteMessage) {
  const std::string stream = framed({"hello"});
  GrpcMessageReader reader(100);
  std::string_view bytes = stream;
  ASSERT_EQ(reader.read(bytes), Step::message);
  EXPECT_EQ(reader.message().data(), stream.data() + grpc_prefix_bytes);
}

TEST(GrpcMessageReader, KnowsWhetherTheStreamIsBetweenMessages) {
  const std::string stream = framed({"one"});
  for (std::size_t cut = 1; cut < stream.size(); ++cut) {
    EXPECT_EQ(read_in_pieces(std::string_view(stream).substr(0, cut), 3),
              std::vector<std::string>{"..."});
  }
  EXPECT_TRUE(GrpcMessageReader(1).at_boundary());
}

TEST(GrpcMessageReader, RefusesALargeMessageByItsLengthAlone) {
  GrpcMessageReader reader(10);
  std::string_view bytes("\0\0\0\0\x0b", 5);
  EXPECT_EQ(reader.read(bytes), Step::too_large);
  EXPECT_EQ(read_in_pieces(framed({std::string(10, 'x')}), 4, 10).size(), 1u);
  EXPECT_EQ(read_in_pieces(framed({"ok", std::string(11, 'x')}), 1, 10),
            (std::vector<std::string>{"ok", "!"}));
}

TEST(GrpcMessageReader, RefusesAnInvalidFlag) {
  GrpcMessageReader reader(10);
  std::string_view bytes("\2\0\0\0\0", 5);
  EXPECT_EQ(reader.read(bytes), Step::malformed);
}

TEST(GrpcMessageReader, ReportsCompression) {
  GrpcMessageReader reader(10);
  std::string_view bytes("\1\0\0\0\1a\0\0\0\0\1b", 12);
  ASSERT_EQ(reader.read(bytes), Step::message);
  EXPECT_TRUE(reader.compressed());
  ASSERT_EQ(reader.read(bytes), Step::message);
  EXPECT_FALSE(reader.compressed());
}

}  // namespace
}  // namespace evenkeel
