// Http2MessageCheck beside nghttp2's own enforcement of HTTP messaging: each message is given to a
// session of nghttp2 as frames and to the check as fields, and both must refuse the same frame.
#include "wire/http2_message_check.h"

#include <gtest/gtest.h>
#include <nghttp2/nghttp2.h>

#include <string>
#include <utility>
#include <vector>

#include "evenkeel/base/rng.h"

namespace evenkeel {
namespace {

using RequestMethod = Http2MessageCheck::RequestMethod;
using Receives = Http2MessageCheck::Receives;
using Pairs = std::vector<std::pair<std::string, std::string>>;

/// A HEADERS frame or, without fields, a DATA frame.
struct Frame {
  Pairs fields;
  bool last = false;
  std::size_t size = 0;
};

struct Message {
  Receives what = Receives::request;
  RequestMethod method = RequestMethod::other;
  std::vector<Frame> frames;

  std::string text() const {
    std::string all = what == Receives::request ? "request" : "response";
    all += method == RequestMethod::head      ? " to HEAD"
           : method == RequestMethod::connect ? " to CONNECT"
                                              : "";
    for (const Frame& frame : frames) {
      all += frame.fields.empty() ? "\nDATA " + std::to_string(frame.size) : "\nHEADERS";
      if (frame.last) all += " END_STREAM";
      for (const auto& [name, value] : frame.fields) {
        all += "\n  " + testing::PrintToString(name) + " = " + testing::PrintToString(value);
      }
    }
    return all;
  }
};

constexpr std::size_t none = ~std::size_t{0};

/// The first frame that the check refuses.
std::size_t refused_by_check(const Message& message) {
  Http2MessageCheck check(message.what);
  if (message.what == Receives::response) check.answers(message.method);
  for (std::size_t i = 0; i < message.frames.size(); ++i) {
    const Frame& frame = message.frames[i];
    bool fine = true;
    if (frame.fields.empty()) {
      // nghttp2 reports no empty chunk.
      fine = (frame.size == 0 || check.data(frame.size)) && (!frame.last || check.end());
    } else {
      for (const auto& [name, value] : frame.fields) {
        const auto found = check.field(name, field_id(name), value);
        fine = fine && found != Http2MessageCheck::Finding::malformed;
      }
      fine = fine && check.end_section(frame.last);
    }
    if (!fine) return i;
  }
  return none;
}

/// A session of nghttp2 that enforces HTTP messaging, and its only stream.
class Library {
 public:
  Library(Receives what, RequestMethod method) {
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_invalid_header_callback2(
        callbacks,
        [](nghttp2_session*, const nghttp2_frame*, nghttp2_rcbuf*, nghttp2_rcbuf*, std::uint8_t,
           void*) -> int { return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; });
    nghttp2_session_callbacks_set_on_frame_send_callback(
        callbacks, [](nghttp2_session*, const nghttp2_frame* frame, void* self) {
          if (frame->hd.type == NGHTTP2_RST_STREAM) static_cast<Library*>(self)->reset_ = true;
          return 0;
        });
    nghttp2_hd_deflate_new(&deflater_, 4096);
    const bool server = what == Receives::request;
    (server ? nghttp2_session_server_new : nghttp2_session_client_new)(&session_, callbacks, this);
    nghttp2_session_callbacks_del(callbacks);
    const nghttp2_settings_entry connect{NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1};
    nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, &connect, server ? 1 : 0);
    if (!server) ask(method);
    send();
    if (server) feed({NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN});
    frame(NGHTTP2_SETTINGS, 0, 0, "");
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library() {
    nghttp2_session_del(session_);
    nghttp2_hd_deflate_del(deflater_);
  }

  /// False: the stream was reset.
  bool accepts(const Frame& given) {
    const std::uint8_t end = given.last ? NGHTTP2_FLAG_END_STREAM : NGHTTP2_FLAG_NONE;
    if (given.fields.empty()) {
      frame(NGHTTP2_DATA, end, 1, std::string(given.size, 'x'));
    } else {
      frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | end, 1, encoded(given.fields));
    }
    return !reset_;
  }

 private:
  static std::uint8_t* bytes_of(const std::string& text) {
    return const_cast<std::uint8_t*>(reinterpret_cast<const std::uint8_t*>(text.data()));
  }

  static std::vector<nghttp2_nv> views_of(const Pairs& fields) {
    std::vector<nghttp2_nv> views;
    for (const auto& [name, value] : fields) {
      views.push_back({bytes_of(name), bytes_of(value), name.size(), value.size(), 0});
    }
    return views;
  }

  void ask(RequestMethod method) {
    Pairs fields = {{":method", method == RequestMethod::head      ? "HEAD"
                                : method == RequestMethod::connect ? "CONNECT"
                                                                   : "POST"}};
    if (method == RequestMethod::connect) fields.emplace_back(":protocol", "websocket");
    for (const auto& field : Pairs{{":scheme", "http"}, {":authority", "a"}, {":path", "/"}}) {
      fields.push_back(field);
    }
    const auto views = views_of(fields);
    nghttp2_data_provider unfinished{
        {},
        [](nghttp2_session*, std::int32_t, std::uint8_t*, std::size_t, std::uint32_t*,
           nghttp2_data_source*, void*) -> ssize_t { return NGHTTP2_ERR_DEFERRED; }};
    EXPECT_EQ(
        nghttp2_submit_request(session_, nullptr, views.data(), views.size(), &unfinished, nullptr),
        1);
  }

  std::string encoded(const Pairs& fields) {
    const auto views = views_of(fields);
    std::string block(nghttp2_hd_deflate_bound(deflater_, views.data(), views.size()), '\0');
    const auto size =
        nghttp2_hd_deflate_hd(deflater_, bytes_of(block), block.size(), views.data(), views.size());
    EXPECT_GE(size, 0);
    block.resize(static_cast<std::size_t>(size));
    return block;
  }

  void frame(std::uint8_t type, int flags, std::uint32_t stream, const std::string& payload) {
    std::string head(9, '\0');
    head[0] = static_cast<char>(payload.size() >> 16);
    head[1] = static_cast<char>(payload.size() >> 8);
    head[2] = static_cast<char>(payload.size());
    head[3] = static_cast<char>(type);
    head[4] = static_cast<char>(flags);
    head[8] = static_cast<char>(stream);
    feed(head + payload);
  }

  void feed(const std::string& text) {
    EXPECT_EQ(nghttp2_session_mem_recv(session_, bytes_of(text), text.size()),
              static_cast<ssize_t>(text.size()));
    send();
  }

  void send() {
    const std::uint8_t* ignored = nullptr;
    while (nghttp2_session_mem_send(session_, &ignored) > 0) {
    }
  }

  nghttp2_session* session_ = nullptr;
  nghttp2_hd_deflater* deflater_ = nullptr;
  bool reset_ = false;
};

std::size_t refused_by_library(const Message& message) {
  Library library(message.what, message.method);
  for (std::size_t i = 0; i < message.frames.size(); ++i) {
    if (!library.accepts(message.frames[i])) return i;
  }
  return none;
}

/// Returns whether both accept the message.
bool compare(const Message& message) {
  const std::size_t expected = refused_by_library(message);
  EXPECT_EQ(refused_by_check(message), expected) << message.text();
  return expected == none;
}

const Pairs get = {{":method", "GET"}, {":scheme", "http"}, {":path", "/"}, {":authority", "a"}};

Message request_with(const Pairs& fields, std::vector<Frame> rest = {}) {
  Message message{.frames = {{.fields = fields, .last = rest.empty()}}};
  for (Frame& frame : rest) message.frames.push_back(std::move(frame));
  return message;
}

Message response_with(const Pairs& fields, std::vector<Frame> rest = {},
                      RequestMethod method = RequestMethod::other) {
  Message message = request_with(fields, std::move(rest));
  message.what = Receives::response;
  message.method = method;
  return message;
}

Pairs operator+(Pairs left, const Pairs& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

Pairs changed(Pairs fields, const std::string& name, const std::string& value) {
  for (auto& field : fields) {
    if (field.first == name) field.second = value;
  }
  return fields;
}

Pairs without(Pairs fields, const std::string& name) {
  std::erase_if(fields, [&](const auto& field) { return field.first == name; });
  return fields;
}

TEST(Http2MessageCheck, AgreesWithNghttp2OnPseudoHeadersOfRequests) {
  EXPECT_TRUE(compare(request_with(get)));
  for (const char* name : {":method", ":scheme", ":path", ":authority"}) {
    EXPECT_EQ(compare(request_with(without(get, name))), false) << name;
    EXPECT_FALSE(compare(request_with(get + Pairs{{name, "/"}})));
    EXPECT_FALSE(compare(request_with(without(get, name) + Pairs{{"a", "b"}, {name, "GET"}})));
    EXPECT_FALSE(compare(request_with(changed(get, name, " "))));
    compare(request_with(changed(get, name, "")));
  }
  EXPECT_TRUE(compare(request_with(without(get, ":authority") + Pairs{{"host", "a"}})));
  for (const char* name : {":status", ":protocol", ":other", ":", ":Path", "path", ":host"}) {
    EXPECT_EQ(compare(request_with(get + Pairs{{name, "x"}})), std::string(name) == "path");
  }
  for (const char* scheme : {"https", "HTTP", "ftp", "", "1a", "a+b-c.1", "a_b", "a/"}) {
    for (const char* path : {"/", "*", "a", "", "/a?b#c", "//"}) {
      for (const char* verb : {"GET", "OPTIONS", "CONNECT", "connect", "TRACE"}) {
        const Pairs fields = changed(changed(get, ":scheme", scheme), ":path", path);
        compare(request_with(changed(fields, ":method", verb)));
      }
    }
  }
}

TEST(Http2MessageCheck, AgreesWithNghttp2OnConnect) {
  const Pairs connect = {{":method", "CONNECT"}, {":authority", "a:1"}};
  EXPECT_TRUE(compare(request_with(connect)));
  EXPECT_TRUE(compare(request_with(connect + Pairs{{"content-length", "9"}}, {{.last = true}})));
  EXPECT_FALSE(compare(request_with({{":method", "CONNECT"}, {"host", "a"}})));
  EXPECT_FALSE(compare(request_with(connect + Pairs{{":path", "/"}})));
  EXPECT_FALSE(compare(request_with(connect + Pairs{{":scheme", "http"}})));
  const Pairs extended = changed(get, ":method", "CONNECT") + Pairs{{":protocol", "websocket"}};
  EXPECT_TRUE(compare(request_with(extended)));
  EXPECT_FALSE(compare(request_with(changed(extended, ":method", "GET"))));
  EXPECT_FALSE(compare(request_with(without(extended, ":authority") + Pairs{{"host", "a"}})));
  EXPECT_FALSE(compare(request_with(without(extended, ":path"))));
  EXPECT_FALSE(compare(request_with(extended + Pairs{{"content-length", "9"}}, {{.last = true}})));
}

TEST(Http2MessageCheck, AgreesWithNghttp2OnStatusAndPseudoHeadersOfResponses) {
  EXPECT_TRUE(compare(response_with({{":status", "200"}})));
  for (const char* status : {"", "1", "20", "2000", "20a", "-20", " 20", "000", "099", "100", "101",
                             "103", "199", "204", "304", "600", "999"}) {
    compare(response_with({{":status", status}}));
    compare(response_with({{":status", status}}, {{.fields = {{":status", "200"}}, .last = true}}));
    for (const RequestMethod method :
         {RequestMethod::other, RequestMethod::head, RequestMethod::connect}) {
      for (const char* length : {"0", "1", "00", "2"}) {
        const Pairs head = {{":status", status}, {"content-length", length}};
        compare(response_with(head, {}, method));
        compare(response_with(head, {{.last = true, .size = 1}}, method));
        compare(response_with(head + Pairs{{"content-length", length}}, {}, method));
      }
    }
  }
  EXPECT_FALSE(compare(response_with({{"a", "b"}})));
  EXPECT_FALSE(compare(response_with({{"a", "b"}, {":status", "200"}})));
  EXPECT_FALSE(compare(response_with({{":status", "200"}, {":status", "200"}})));
  EXPECT_FALSE(compare(response_with({{":status", "200"}, {":path", "/"}})));
}

TEST(Http2MessageCheck, AgreesWithNghttp2OnConnectionSpecificFields) {
  for (const char* name : {"connection", "keep-alive", "proxy-connection", "transfer-encoding",
                           "upgrade", "te", "host", "trailer", "http2-settings", "expect"}) {
    for (const char* value : {"trailers", "Trailers", "trailers ", "gzip, trailers", "", "close"}) {
      const Pairs field = {{name, value}};
      compare(request_with(get + field));
      compare(request_with(get, {{.fields = field, .last = true}}));
      compare(request_with(get + field + field));
      compare(response_with(Pairs{{":status", "200"}} + field));
      compare(response_with({{":status", "200"}}, {{.fields = field, .last = true}}));
    }
  }
}

TEST(Http2MessageCheck, AgreesWithNghttp2OnEveryByteOfNamesAndValues) {
  const Pairs response = {{":status", "200"}};
  for (int code = 0; code < 256; ++code) {
    const std::string byte(1, static_cast<char>(code));
    for (const std::string& text : {byte, byte + "a", "a" + byte, "a" + byte + "b"}) {
      for (const char* name : {":method", ":scheme", ":path", ":authority"}) {
        compare(request_with(changed(get, name, text)));
      }
      compare(request_with(changed(get, ":path", "/" + text)));
      for (const Pairs& field :
           {Pairs{{text, "x"}}, Pairs{{"x", text}}, Pairs{{"user-agent", text}},
            Pairs{{"host", text}}, Pairs{{":" + text, "x"}}}) {
        compare(request_with(get + field));
        compare(response_with(response + field));
        compare(request_with(get, {{.fields = field, .last = true}}));
      }
      compare(response_with({{":status", "20" + text}}));
      compare(request_with(changed(get, ":method", "CONNECT") + Pairs{{":protocol", text}}));
    }
  }
  EXPECT_FALSE(compare(request_with(get + Pairs{{"", "x"}})));
  EXPECT_FALSE(compare(request_with(get + Pairs{{"User-Agent", "x"}})));
}

TEST(Http2MessageCheck, AgreesWithNghttp2OnLengths) {
  for (const char* length : {"0", "3", "03", "+3", "3,3", " 3", "3 ", "", "9223372036854775807",
                             "9223372036854775808", "99999999999999999999"}) {
    const Pairs field = {{"content-length", length}};
    for (std::size_t size = 0; size < 5; ++size) {
      const Frame whole{.last = true, .size = size};
      const Frame part{.size = size};
      const Frame trailers{.fields = {{"a", "b"}}, .last = true};
      for (const std::vector<Frame>& rest :
           {std::vector<Frame>{whole}, {part, whole}, {part, trailers}, {part}}) {
        compare(request_with(get + field, rest));
        compare(response_with(Pairs{{":status", "200"}} + field, rest));
        compare(response_with(Pairs{{":status", "200"}} + field, rest, RequestMethod::head));
        compare(response_with(Pairs{{":status", "200"}} + field, rest, RequestMethod::connect));
      }
    }
    compare(request_with(get + field));
    compare(request_with(get + field + field));
    compare(request_with(get, {{.size = 3}, {.fields = field, .last = true}}));
  }
  EXPECT_TRUE(
      compare(request_with(get + Pairs{{"content-length", "3"}}, {{.last = true, .size = 3}})));
}

TEST(Http2MessageCheck, AgreesWithNghttp2OnTheOrderOfSections) {
  const Frame interim{.fields = {{":status", "103"}, {"link", "x"}}};
  const Frame final_head{.fields = {{":status", "200"}}};
  const Frame trailers{.fields = {{"a", "b"}}, .last = true};
  const Frame open_trailers{.fields = {{"a", "b"}}};
  const Frame status_again{.fields = {{":status", "200"}}, .last = true};
  const Frame data{.size = 1};
  const std::vector<Frame> all = {interim, final_head, trailers, open_trailers, status_again, data};
  for (const Frame& second : all) {
    for (const Frame& third : all) {
      for (const Frame& first : {interim, final_head}) {
        // After the end of the stream, frames are for nghttp2 whatever the message is.
        Message message{.what = Receives::response, .frames = {first, second}};
        if (!second.last) message.frames.push_back(third);
        compare(message);
      }
    }
    compare(request_with(get, {second}));
  }
}

const Pairs some_request_fields = {{":method", "GET"},
                                   {":method", "HEAD"},
                                   {":method", "OPTIONS"},
                                   {":method", "CONNECT"},
                                   {":scheme", "http"},
                                   {":scheme", "https"},
                                   {":scheme", "x"},
                                   {":path", "/"},
                                   {":path", "*"},
                                   {":path", "x"},
                                   {":path", ""},
                                   {":authority", "a"},
                                   {":authority", ""},
                                   {":authority", "a b"},
                                   {":protocol", "websocket"},
                                   {":status", "200"},
                                   {"host", "a"},
                                   {"host", "b:1"},
                                   {"content-length", "1"},
                                   {"content-length", "0"},
                                   {"content-length", "x"},
                                   {"te", "trailers"},
                                   {"te", "gzip"},
                                   {"connection", "close"},
                                   {"user-agent", "x"},
                                   {"x-other", "y"},
                                   {"X-Other", "y"},
                                   {"cookie", "a=b"},
                                   {"x other", "y"},
                                   {"x", " y"},
                                   {"x", ""},
                                   {"transfer-encoding", "x"},
                                   {"priority", "u=1"}};

const Pairs some_response_fields = {
    {":status", "200"},      {":status", "204"},      {":status", "304"},
    {":status", "100"},      {":status", "103"},      {":status", "101"},
    {":status", "500"},      {":status", "2"},        {":path", "/"},
    {"content-length", "0"}, {"content-length", "1"}, {"content-length", "2"},
    {"content-type", "x"},   {"Server", "x"},         {"server", "x"},
    {"te", "trailers"},      {"upgrade", "x"},        {"x", "y\r"},
    {"date", "now"},         {"host", "a b"},         {"x", "y"}};

TEST(Http2MessageCheck, AgreesWithNghttp2OnWhatChanceMakes) {
  Rng rng(9);
  int accepted = 0;
  constexpr int messages = 30'000;
  for (int i = 0; i < messages; ++i) {
    Message message;
    message.what = rng.below(2) == 0 ? Receives::request : Receives::response;
    const bool request = message.what == Receives::request;
    if (!request) message.method = static_cast<RequestMethod>(rng.below(3));
    const Pairs& pool = request ? some_request_fields : some_response_fields;
    const auto any = [&] { return pool[rng.below(static_cast<std::uint32_t>(pool.size()))]; };
    const auto frames = 1 + rng.below(4);
    for (std::uint64_t at = 0; at < frames; ++at) {
      Frame frame{.last = at + 1 == frames && rng.below(4) != 0};
      if (at > 0 && rng.below(2) == 0) {
        frame.size = rng.below(3);
      } else {
        if (request && at == 0 && rng.below(3) != 0) frame.fields = get;
        if (!request && rng.below(3) != 0) frame.fields = {{":status", at == 0 ? "100" : "200"}};
        const auto extra = rng.below(4) + (frame.fields.empty() ? 1 : 0);
        for (std::uint64_t n = 0; n < extra; ++n) frame.fields.push_back(any());
      }
      message.frames.push_back(std::move(frame));
    }
    accepted += compare(message) ? 1 : 0;
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(accepted, messages / 50);
}

TEST(Http2MessageCheck, IgnoresALengthThatMeansNothing) {
  const auto length_in = [](RequestMethod method, const char* status, const char* length) {
    Http2MessageCheck check(Receives::response);
    check.answers(method);
    check.field(":status", field_id(":status"), status);
    return check.field("content-length", FieldId::content_length, length);
  };
  using Finding = Http2MessageCheck::Finding;
  EXPECT_EQ(length_in(RequestMethod::connect, "200", "7"), Finding::ignored);
  EXPECT_EQ(length_in(RequestMethod::connect, "403", "7"), Finding::fine);
  EXPECT_EQ(length_in(RequestMethod::other, "204", "0"), Finding::ignored);
  EXPECT_EQ(length_in(RequestMethod::other, "204", "7"), Finding::malformed);
  EXPECT_EQ(length_in(RequestMethod::other, "200", "7"), Finding::fine);
}

}  // namespace
}  // namespace evenkeel
