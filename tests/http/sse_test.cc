#include "evenkeel/http/sse.h"

#include <gtest/gtest.h>

#include <string>

namespace evenkeel {
namespace {

using Framing = EventSplitter::Framing;
using Part = EventSplitter::Part;

/// The parts of a stream that comes in two pieces: data as it is, other lines in brackets, "|" for
/// the end of an event; "..." if the stream ends within one.
std::string parts_of(Framing framing, std::string_view stream, std::size_t cut) {
  EventSplitter splitter(framing);
  std::string parts;
  for (std::string_view piece : {stream.substr(0, cut), stream.substr(cut)}) {
    for (Part part = splitter.next(piece); part != Part::more; part = splitter.next(piece)) {
      if (part == Part::event_end) parts += '|';
      if (part == Part::data) parts += splitter.text();
      if (part == Part::field) parts.append("[").append(splitter.text()).append("]");
    }
  }
  return splitter.between_events() ? parts : parts + "...";
}

TEST(EventSplitter, KnowsEveryEndOfALineHoweverItIsCut) {
  for (const std::string_view stream :
       {"data:a\ndata: b\n\nda\n: c\n\ndata:d", "data:a\r\ndata: b\r\n\r\nda\r\n: c\r\n\r\ndata:d",
        "data:a\rdata: b\r\rda\r: c\r\rdata:d", "data:a\r\ndata: b\n\rda\n: c\r\n\ndata:d"}) {
    for (std::size_t cut = 0; cut <= stream.size(); ++cut) {
      EXPECT_EQ(parts_of(Framing::events, stream, cut), "a b|[da][: c]|d...")
          << stream << " cut at " << cut;
    }
  }
}

TEST(EventSplitter, TakesEveryLineOfJsonLinesForAnEvent) {
  const std::string_view stream = "{\"a\":1}\ndata:\n";
  for (std::size_t cut = 0; cut <= stream.size(); ++cut) {
    EXPECT_EQ(parts_of(Framing::json_lines, stream, cut), "{\"a\":1}|data:|") << cut;
  }
}

TEST(EventSplitter, KeepsTheBeginningOfALongField) {
  EXPECT_EQ(parts_of(Framing::events, "event: " + std::string(100, 'x') + "\n\n", 30),
            "[event: " + std::string(EventSplitter::max_field - 7, 'x') + "]|");
}

TEST(EventSplitter, GoesOnBehindWhatWasSkipped) {
  EventSplitter splitter(Framing::events);
  splitter.skip("data: {\"half");
  EXPECT_FALSE(splitter.between_events());

  std::string_view piece = " an event\"}\n\ndata:x";
  EXPECT_EQ(splitter.next(piece), Part::field) << "whose beginning is not known";
  EXPECT_EQ(splitter.next(piece), Part::event_end);
  EXPECT_EQ(splitter.next(piece), Part::data);
  splitter.skip("data: {}\n\n");
  EXPECT_TRUE(splitter.between_events());
}

TEST(EventField, IsWhatFollowsItsName) {
  EXPECT_EQ(event_field("event: error", "event"), "error");
  EXPECT_EQ(event_field("event:error", "event"), "error");
  EXPECT_EQ(event_field("events: error", "event"), "");
  EXPECT_EQ(event_field("id: 7", "event"), "");
}

}  // namespace
}  // namespace evenkeel
