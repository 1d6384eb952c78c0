// Requests whose bodies are compressed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "evenkeel/coding/window_budget.h"
#include "inference/read_request.h"

namespace evenkeel {
namespace {

using testing::StartsWith;

enum class Wrapping : int { raw = -15, zlib = 15, gzip = 31 };

std::string compressed(std::string_view text, Wrapping wrapping) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, static_cast<int>(wrapping), 8, Z_DEFAULT_STRATEGY),
            Z_OK);
  std::string out(deflateBound(&stream, text.size()) + 100, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string gzipped(std::string_view text) { return compressed(text, Wrapping::gzip); }

struct ZstdOptions {
  bool checksum = false;
  bool knows_size = true;  ///< the header has the size of the text, else only the window's
  int window_log = 0;      ///< 0: as the library chooses
};

/// A frame of zstd.
std::string zstd(std::string_view text, ZstdOptions options = {}) {
  const std::unique_ptr<ZSTD_CCtx, std::size_t (*)(ZSTD_CCtx*)> context(ZSTD_createCCtx(),
                                                                        ZSTD_freeCCtx);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_checksumFlag, options.checksum ? 1 : 0);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_windowLog, options.window_log);
  std::string out(ZSTD_compressBound(text.size()) + 100, '\0');
  ZSTD_outBuffer output{out.data(), out.size(), 0};
  ZSTD_inBuffer input{text.data(), text.size(), 0};
  if (!options.knows_size) {  // it is known if all comes with the end
    ZSTD_inBuffer beginning{text.data(), text.size() / 2, 0};
    ZSTD_compressStream2(context.get(), &output, &beginning, ZSTD_e_continue);
    input.pos = beginning.pos;
  }
  EXPECT_EQ(ZSTD_compressStream2(context.get(), &output, &input, ZSTD_e_end), 0u);
  out.resize(output.pos);
  return out;
}

std::string skippable(std::string_view content) {
  std::string frame = "\x5a\x2a\x4d\x18";
  frame += static_cast<char>(content.size());
  return (frame + std::string(3, '\0')).append(content);
}

RequestHead encoded(std::string_view encoding) {
  RequestHead head = post("/v1/chat/completions");
  head.content_encoding = encoding;
  return head;
}

void expect_cuts_do_not_matter(std::string_view encoding, std::string_view body) {
  const RequestHead head = encoded(encoding);
  const ReadRequest whole = read_request(head, body);
  for (std::size_t first = 0; first <= body.size(); ++first) {
    for (const std::size_t second : {first, (first + body.size()) / 2}) {
      const ReadRequest cut = read_pieces(
          head, {body.substr(0, first), body.substr(first, second - first), body.substr(second)});
      ASSERT_EQ(facts_of(cut.request), facts_of(whole.request)) << "cut at " << first;
      ASSERT_EQ(cut.problem, whole.problem) << "cut at " << first;
    }
  }
}

// Text that does not compress too well.
std::string long_body(int size = 50000) {
  std::string body = R"({"model":"m","messages":[{"role":"user","content":")";
  std::uint32_t state = 1;
  for (int i = 0; i < size; ++i) {
    state = state * 1664525 + 1013904223;
    body += static_cast<char>('a' + (state >> 24) % 26);
  }
  return body + R"("}],"stream":true})";
}

const std::string short_body = R"({"model":"m","stream":true})";

TEST(CompressedRequest, IsReadAsItsText) {
  const std::string body = long_body();
  const ReadRequest plain = read_request("/v1/chat/completions", body);
  const auto facts = [&](std::string_view encoding, const std::string& bytes) {
    const ReadRequest read = read_request(encoded(encoding), bytes);
    EXPECT_TRUE(read.accepted);
    EXPECT_TRUE(read.model_values.empty());
    EXPECT_FALSE(read.object_begin.has_value());
    return facts_of(read.request);
  };

  EXPECT_EQ(facts("gzip", gzipped(body)), facts_of(plain.request));
  EXPECT_EQ(facts("X-Gzip", gzipped(body)), facts_of(plain.request));
  EXPECT_EQ(facts("deflate", compressed(body, Wrapping::zlib)), facts_of(plain.request));
  EXPECT_EQ(facts("deflate", compressed(body, Wrapping::raw)), facts_of(plain.request));
  EXPECT_EQ(facts("zstd", zstd(body)), facts_of(plain.request));
  EXPECT_EQ(facts("Zstd", zstd(body, {.checksum = true})), facts_of(plain.request));
  EXPECT_EQ(facts("zstd", zstd(body, {.knows_size = false})), facts_of(plain.request));
}

TEST(CompressedRequest, MayHaveSeveralFramesOfZstd) {
  const std::string body = long_body();
  const std::string frames = skippable("") + zstd(body.substr(0, 100)) + skippable("no text") +
                             zstd("") + zstd(body.substr(100), {.knows_size = false}) +
                             skippable("x");

  const ReadRequest read = read_request(encoded("zstd"), frames);

  EXPECT_TRUE(read.request.complete);
  EXPECT_EQ(facts_of(read.request), facts_of(read_request("/v1/chat/completions", body).request));
}

TEST(CompressedRequest, MayHaveSeveralMembersOfGzip) {
  const std::string body = long_body();
  const std::string members =
      gzipped(body.substr(0, 100)) + gzipped("") + gzipped(body.substr(100));

  for (const std::string_view padding : {std::string_view(), std::string_view("\0\0\0", 3)}) {
    const ReadRequest read = read_request(encoded("gzip"), members + std::string(padding));

    EXPECT_TRUE(read.accepted) << read.problem;
    EXPECT_TRUE(read.request.complete);
    EXPECT_EQ(facts_of(read.request), facts_of(read_request("/v1/chat/completions", body).request));
  }
}

TEST(CompressedRequest, CutsDoNotMatter) {
  expect_cuts_do_not_matter("gzip", gzipped(short_body));
  expect_cuts_do_not_matter(
      "gzip", gzipped(short_body.substr(0, 9)) + gzipped("") + gzipped(short_body.substr(9)));
  expect_cuts_do_not_matter("zstd", zstd(short_body));
  expect_cuts_do_not_matter("zstd", zstd(short_body.substr(0, 9), {.knows_size = false}) +
                                        skippable("no text") +
                                        zstd(short_body.substr(9), {.checksum = true}));
}

// Behind its magic number, this frame looks like a skippable one and what follows it. Cut there,
// the library alone finds no text in it.
TEST(CompressedRequest, NoFrameHidesInAHeader) {
  std::string text(0x184d + 256, ' ');
  text.replace(text.size() - short_body.size(), short_body.size(), short_body);
  std::string frame = "\x28\xb5\x2f\xfd\x50\x2a\x4d\x18";
  frame += std::string("\x14\0\0\0\0", 5);  // a compressed block without text
  const auto header = static_cast<unsigned>(text.size()) << 3 | 1;  // of a raw one, the last
  for (int shift = 0; shift < 24; shift += 8) frame += static_cast<char>(header >> shift & 0xff);
  frame += text;

  for (std::size_t first = 0; first < 20; ++first) {
    const std::string_view bytes = frame;
    const ReadRequest cut =
        read_pieces(encoded("zstd"), {bytes.substr(0, first), bytes.substr(first)});
    EXPECT_TRUE(cut.request.complete) << "cut at " << first;
    EXPECT_EQ(cut.request.model, "m") << "cut at " << first;
  }
}

TEST(CompressedRequest, CutsOfDamagedFramesDoNotMatter) {
  const std::string text = R"({"model":"m","messages":[{"role":"user","content":")" +
                           std::string(300, 'a') + long_body(100).substr(60) + "more";
  const std::string whole = zstd(text.substr(0, 40), {.knows_size = false}) + skippable("no text") +
                            zstd(text.substr(40), {.checksum = true});
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const int flip : {1, 2, 8, 128}) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ flip);
      std::vector<std::string_view> bytes;
      for (std::size_t i = 0; i < damaged.size(); ++i)
        bytes.push_back(std::string_view(damaged).substr(i, 1));

      const ReadRequest one = read_request(encoded("zstd"), damaged);
      const ReadRequest cut = read_pieces(encoded("zstd"), bytes);

      ASSERT_EQ(cut.problem, one.problem) << "byte " << at << " ^ " << flip;
      if (!one.accepted) continue;
      ASSERT_EQ(facts_of(cut.request), facts_of(one.request)) << "byte " << at << " ^ " << flip;
    }
  }
}

TEST(CompressedRequest, OtherEncodingsAreNotRead) {
  for (const std::string_view encoding : {"br", "gzip, zstd"}) {
    for (const std::string& body :
         {std::string("\x8b\x02\x80{}\x03"), gzipped(short_body), zstd(short_body)}) {
      const ReadRequest read = read_request(encoded(encoding), body);
      EXPECT_TRUE(read.accepted) << read.problem;
      EXPECT_EQ(read.request.model, "");
    }
  }
  EXPECT_TRUE(read_request(encoded("identity"), "{}").accepted);
}

// As servers see it that ignore the field, and of others none takes such a body.
TEST(CompressedRequest, IsReadAsItIsWithoutTheEncodingOfItsHead) {
  for (const std::string_view encoding : {"gzip", "deflate", "zstd", "br", "foo"}) {
    for (const std::string& body :
         {short_body, " " + short_body, "\r\n" + short_body, "{ " + short_body.substr(1)}) {
      const ReadRequest plain = read_request("/v1/chat/completions", body);
      const ReadRequest read = read_request(encoded(encoding), body);
      EXPECT_EQ(facts_of(read.request), facts_of(plain.request)) << encoding << ": " << body;
      EXPECT_EQ(ranges_of(read), ranges_of(plain)) << encoding << ": " << body;
    }
    expect_cuts_do_not_matter(encoding, short_body);
    for (const std::string& body : {std::string("\xef\xbb\xbf{}"), std::string("{\0}\0", 4)}) {
      EXPECT_FALSE(read_request(encoded(encoding), body).accepted) << encoding << ": " << body;
    }
  }
  RequestHead form = encoded("zstd");
  form.path = "/v1/audio/transcriptions";
  form.content_type = "multipart/form-data; boundary=x";
  const std::string body =
      "--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--x--\r\n";
  EXPECT_EQ(read_request(form, body).request.model, "m");
}

TEST(CompressedRequest, HasTheEncodingThatItsFirstBytesTell) {
  for (const std::string_view encoding : {"gzip", "deflate", "zstd"}) {
    for (const std::string& body : {gzipped(short_body), compressed(short_body, Wrapping::zlib),
                                    zstd(short_body), skippable("x") + zstd(short_body)}) {
      EXPECT_EQ(read_request(encoded(encoding), body).request.model, "m") << encoding;
    }
  }
}

TEST(CompressedRequest, NamesTheByteOfItsText) {
  EXPECT_THAT(read_request(encoded("gzip"), gzipped("{\"a\":x}")).problem,
              StartsWith("invalid JSON at byte 5: a value expected"));
  EXPECT_THAT(read_request(encoded("gzip"), gzipped("{\"a\":")).problem,
              StartsWith("invalid JSON at byte 5: the body ends"));
  EXPECT_THAT(read_request(encoded("gzip"), gzipped("{\"a\":") + gzipped("x}")).problem,
              StartsWith("invalid JSON at byte 5: a value expected"));
  EXPECT_THAT(read_request(encoded("zstd"), zstd("{\"a\":") + zstd("x}")).problem,
              StartsWith("invalid JSON at byte 5: a value expected"));
}

TEST(CompressedRequest, DamagedDataIsNoError) {
  std::string damaged = gzipped(short_body);
  damaged[10] = static_cast<char>(0xff);
  std::string wrong_sum = zstd(short_body, {.checksum = true});
  wrong_sum.back() = static_cast<char>(wrong_sum.back() + 1);
  // The library knows formats from before the standard.
  std::string old_format = zstd("") + zstd(short_body);
  old_format[zstd("").size()] = 0x27;
  const auto expect_unread = [](std::string_view encoding, const std::string& body) {
    const ReadRequest read = read_request(encoded(encoding), body);
    EXPECT_TRUE(read.accepted) << read.problem;
    EXPECT_FALSE(read.request.complete);
  };

  const std::string members = gzipped(short_body) + gzipped(" ");
  for (const std::string& body : {damaged, gzipped(short_body).substr(0, 20), std::string(),
                                  members.substr(0, members.size() - 1)}) {
    expect_unread("gzip", body);
  }
  for (const std::string& body :
       {wrong_sum, old_format, std::string(), zstd(short_body) + "{}",
        zstd(short_body) + std::string("\x28\xb5"),
        std::string("\x28\xb5\x2f\xfd\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")}) {
    expect_unread("zstd", body);
  }
  const std::string whole = zstd(short_body, {.checksum = true}) + skippable("no text");
  for (std::size_t size = 1; size < whole.size(); ++size) {
    if (size == whole.size() - skippable("no text").size()) continue;
    expect_unread("zstd", whole.substr(0, size));
  }
}

TEST(CompressedRequest, StopsWhereItExpandsTooMuch) {
  const std::string text = R"({"model":"m","messages":[{"role":"user","content":")" +
                           std::string(10000000, 'a') + R"("}],"stream":true})";
  for (const auto& [encoding, body] :
       {std::pair("gzip", gzipped(text)), std::pair("zstd", zstd(text))}) {
    const ReadRequest read = read_request(encoded(encoding), body);

    EXPECT_TRUE(read.accepted);
    EXPECT_FALSE(read.request.complete);
    EXPECT_EQ(read.request.model, "m");
    EXPECT_LT(read.request.prompt_bytes, 1000000u);
    EXPECT_GT(read.request.prefix_blocks.size(), 50u);
  }
}

TEST(CompressedRequest, HasAWindowOfEightMebibytesAtMost) {
  const auto model = [](int window_log) {
    const ZstdOptions options{.knows_size = false, .window_log = window_log};
    return read_request(encoded("zstd"), zstd(short_body, options)).request.model;
  };

  EXPECT_EQ(model(23), "m");
  EXPECT_EQ(model(24), "");
  EXPECT_EQ(model(27), "");
}

TEST(CompressedRequest, WindowsHaveABudget) {
  const std::string body = zstd(long_body(3000000), {.knows_size = false, .window_log = 20});
  WindowBudget windows(4'000'000);
  InferenceRequest first;
  InferenceRequest second;
  {
    const auto reader = RequestReader::create(encoded("zstd"), first, {.budget = &windows});
    EXPECT_TRUE(reader->read(body));
    EXPECT_GT(windows.taken(), 1'000'000u);
    EXPECT_LT(windows.taken(), 2'000'000u);

    const auto other = RequestReader::create(encoded("zstd"), second, {.budget = &windows});
    EXPECT_TRUE(other->read(body));
    EXPECT_TRUE(other->done());
    EXPECT_TRUE(other->lacks_memory());
    EXPECT_EQ(other->decoded(), RequestReader::Decoded::some);
    EXPECT_TRUE(reader->finish());
    EXPECT_FALSE(reader->lacks_memory());
  }
  EXPECT_EQ(windows.taken(), 0u);
  EXPECT_TRUE(first.complete);
  EXPECT_FALSE(second.complete);
  EXPECT_EQ(second.model, "m");
  EXPECT_LT(second.prompt_bytes, 1'500'000u);
}

TEST(CompressedRequest, OneClientLeavesWindowsToOthers) {
  WindowBudget windows(1000);
  EXPECT_TRUE(windows.take(1, 500));
  EXPECT_FALSE(windows.take(1, 1)) << "it has as much as is free";

  EXPECT_TRUE(windows.take(2, 250));
  EXPECT_FALSE(windows.take(2, 1));
  EXPECT_TRUE(windows.take(3, 125));

  windows.give(1, 500);
  EXPECT_TRUE(windows.take(2, 62));
  EXPECT_EQ(windows.taken(), 437u);
}

TEST(CompressedRequest, TakesNothingBeforeAHeaderIsComplete) {
  const std::string body = zstd(long_body(), {.knows_size = false, .window_log = 23});
  WindowBudget windows;
  std::deque<InferenceRequest> requests;
  std::vector<std::unique_ptr<RequestReader>> readers;
  for (int i = 0; i < 300; ++i) {
    readers.push_back(
        RequestReader::create(encoded("zstd"), requests.emplace_back(), {.budget = &windows}));
    EXPECT_TRUE(readers.back()->read(std::string_view(body).substr(0, 5)));
  }
  EXPECT_EQ(windows.taken(), 0u);

  EXPECT_TRUE(readers.front()->read(std::string_view(body).substr(5)));
  EXPECT_TRUE(readers.front()->finish());

  EXPECT_EQ(requests.front().model, "m");
  EXPECT_TRUE(requests.front().complete);
}

TEST(CompressedRequest, TakesWhatASmallWindowTakes) {
  WindowBudget windows;
  InferenceRequest request;
  const auto reader = RequestReader::create(encoded("zstd"), request, {.budget = &windows});

  EXPECT_TRUE(reader->read(zstd(short_body)));

  EXPECT_GT(windows.taken(), 0u);
  EXPECT_LT(windows.taken(), 200'000u);
}

TEST(CompressedRequest, TellsWhetherMemoryIsLacking) {
  const std::string body = zstd(short_body);
  WindowBudget windows(1000);
  InferenceRequest request;
  const auto reader = RequestReader::create(encoded("zstd"), request, {.budget = &windows});

  EXPECT_TRUE(reader->read(body));

  EXPECT_TRUE(reader->done());
  EXPECT_TRUE(reader->lacks_memory());
  EXPECT_EQ(reader->decoded(), RequestReader::Decoded::none);
  EXPECT_TRUE(reader->finish());
  EXPECT_EQ(request.model, "");
  EXPECT_EQ(windows.taken(), 0u);
}

TEST(CompressedRequest, TellsHowMuchWasDecompressed) {
  using Decoded = RequestReader::Decoded;
  const auto decoded = [](const std::string& body) {
    InferenceRequest request;
    const auto reader = RequestReader::create(encoded("zstd"), request);
    EXPECT_TRUE(reader->read(body) && reader->finish());
    EXPECT_FALSE(reader->lacks_memory());
    return reader->decoded();
  };
  const std::string body = zstd(long_body(200000));
  std::string damaged = zstd(short_body, {.checksum = true});
  damaged[6] = static_cast<char>(damaged[6] ^ 0xff);

  EXPECT_EQ(decoded(body), Decoded::all);
  EXPECT_EQ(decoded(body.substr(0, body.size() - 1)), Decoded::some);
  EXPECT_EQ(decoded(body + "more"), Decoded::some);
  EXPECT_EQ(decoded(damaged), Decoded::none);
  EXPECT_EQ(decoded(body.substr(0, 3)), Decoded::none);
}

}  // namespace
}  // namespace evenkeel
