#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "epp/checker_rules.h"
#include "epp/checker_session.h"

namespace evenkeel {
namespace {

TEST(EndpointList, IsOneOrMoreAddressesWithPorts) {
  EXPECT_EQ(endpoint_list_problem("10.0.0.1:80"), "");
  EXPECT_EQ(endpoint_list_problem("10.0.0.1:80,[2001:db8::1]:8000"), "");
}

TEST(EndpointList, HasNoNamesNoBareIpv6AndNoGaps) {
  for (const char* list : {"", "10.0.0.1", "10.0.0.1:0", "2001:db8::1:80", "server:80",
                           "10.0.0.1:80, 10.0.0.2:80", "10.0.0.1:80,,10.0.0.2:80"}) {
    EXPECT_NE(endpoint_list_problem(list), "") << list;
  }
}

TEST(Chunks, AreTheWholeBodyInOrder) {
  const std::string body(100'000, 'x');
  for (const bool irregular : {false, true}) {
    const auto chunks = chunks_of(body, 7'000, irregular);
    EXPECT_GT(chunks.size(), 14u);
    EXPECT_EQ(std::accumulate(chunks.begin(), chunks.end(), std::string()), body);
  }
}

TEST(PickerAnswer, TakesTheEndpointFromTheHeadAndItsMetadata) {
  StreamEvent event{.kind = StreamEvent::Kind::message};
  auto& header = *event.message.mutable_request_headers()
                      ->mutable_response()
                      ->mutable_header_mutation()
                      ->add_set_headers()
                      ->mutable_header();
  header.set_key("x-gateway-destination-endpoint");
  header.set_raw_value("10.0.0.1:80,10.0.0.2:80");
  PickerAnswer answer;
  answer.add(event);

  EXPECT_EQ(answer.header, "10.0.0.1:80,10.0.0.2:80");
  EXPECT_FALSE(answer.metadata);
  EXPECT_THAT(answer.endpoints(), testing::ElementsAre("10.0.0.1:80", "10.0.0.2:80"));
}

TEST(PickerAnswer, CountsWhatComesAfterTheEndOfTheBody) {
  PickerAnswer answer;
  for (const char* bytes : {"one", "two", "three"}) {
    StreamEvent event{.kind = StreamEvent::Kind::message};
    auto& piece = *event.message.mutable_request_body()
                       ->mutable_response()
                       ->mutable_body_mutation()
                       ->mutable_streamed_response();
    piece.set_body(bytes);
    piece.set_end_of_stream(std::string_view(bytes) == "two");
    answer.add(event);
  }

  EXPECT_EQ(answer.body.bytes, "onetwothree");
  EXPECT_EQ(answer.body.ends, 1u);
  EXPECT_EQ(answer.body.after_end, 1u);
}

}  // namespace
}  // namespace evenkeel
