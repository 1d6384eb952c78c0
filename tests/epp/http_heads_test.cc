#include "epp/http_heads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace evenkeel {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

ext_proc::HeaderMap head_of(const Pairs& headers) {
  ext_proc::HeaderMap head;
  for (const auto& [name, value] : headers) {
    ext_proc::HeaderValue& header = *head.add_headers();
    header.set_key(name);
    header.set_raw_value(value);
  }
  return head;
}

Fields fields_of(const Pairs& pairs) {
  Fields fields;
  for (const auto& [name, value] : pairs) fields.add_copy(name, value);
  return fields;
}

Pairs set_in(const ext_proc::HeaderMutation& changes) {
  Pairs set;
  for (const auto& option : changes.set_headers())
    set.emplace_back(option.header().key(), option.header().raw_value());
  return set;
}

std::vector<std::string> removed_in(const ext_proc::HeaderMutation& changes) {
  return {changes.remove_headers().begin(), changes.remove_headers().end()};
}

ext_proc::HeaderMutation changes_of(const Pairs& before, const Pairs& now,
                                    Changes which = Changes::all) {
  ext_proc::HeaderMutation changes;
  write_changes(head_of(before), fields_of(now), which, changes);
  return changes;
}

TEST(RequestHead, TakesPseudoHeadersAndLeavesOutWhatFramesAMessage) {
  const auto head = head_of({{":method", "POST"},
                             {":path", "/v1/x?y"},
                             {":scheme", "https"},
                             {":authority", "models"},
                             {"content-length", "5"},
                             {"connection", "close"},
                             {"te", "trailers"},
                             {"x-a", "1"}});
  Request request;

  ASSERT_TRUE(read_request_head(head, request));

  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.path, "/v1/x?y");
  EXPECT_EQ(request.scheme, "https");
  EXPECT_EQ(request.authority, "models");
  EXPECT_TRUE(request.wants_trailers);
  ASSERT_EQ(request.fields.size(), 1U);
  EXPECT_EQ(request.fields.value("x-a"), "1");
  EXPECT_EQ(content_length_of(head), 5U);
}

TEST(RequestHead, IsRefusedWhereAnotherHeadCouldHideInIt) {
  for (const Pairs& bad : {Pairs{{"x-a", "1\r\nx-b: 2"}}, Pairs{{"x a", "1"}}, Pairs{{"", "1"}}}) {
    Pairs headers{{":method", "GET"}, {":path", "/"}};
    headers.insert(headers.end(), bad.begin(), bad.end());
    Request request;
    EXPECT_FALSE(read_request_head(head_of(headers), request));
  }
  Request request;
  EXPECT_FALSE(read_request_head(head_of({{":method", "GET"}}), request));
}

TEST(RequestHead, HasTheTextOfEitherMember) {
  ext_proc::HeaderMap head;
  ext_proc::HeaderValue& header = *head.add_headers();
  header.set_key("x-a");
  header.set_value("text");
  EXPECT_EQ(find_header(head, "x-a"), "text");
}

TEST(RequestHead, HasASizeInFieldsAndInBytes) {
  const auto head = head_of({{"x-a", "1"}, {"x-b", "2"}});
  EXPECT_FALSE(is_larger(head, 2, 8));
  EXPECT_TRUE(is_larger(head, 1, 8));
  EXPECT_TRUE(is_larger(head, 2, 7));
}

TEST(ChangesOfAHead, AreNoneWhereNothingHasChanged) {
  const Pairs same{{"accept", "a"}, {"accept", "b"}, {"x-c", "d"}};
  const auto changes = changes_of(same, same);
  EXPECT_THAT(set_in(changes), IsEmpty());
  EXPECT_THAT(removed_in(changes), IsEmpty());
}

TEST(ChangesOfAHead, NameWhatWasSetAddedAndRemoved) {
  const auto changes =
      changes_of({{"x-kept", "1"}, {"x-set", "1"}, {"x-gone", "1"}},
                 {{"x-kept", "1"}, {"X-Set", "2"}, {"x-new", "3"}, {"x-new", "4"}});

  EXPECT_THAT(set_in(changes),
              ElementsAre(Pair("x-set", "2"), Pair("x-new", "3"), Pair("x-new", "4")));
  EXPECT_EQ(changes.set_headers(1).append_action(),
            ext_proc::HeaderValueOption::OVERWRITE_IF_EXISTS_OR_ADD);
  EXPECT_EQ(changes.set_headers(2).append_action(),
            ext_proc::HeaderValueOption::APPEND_IF_EXISTS_OR_ADD);
  EXPECT_THAT(removed_in(changes), ElementsAre("x-gone"));
}

TEST(ChangesOfAHead, LeaveTheDataPlaneItsOwnFields) {
  const auto changes = changes_of({{":path", "/"}, {"x-envoy-a", "1"}, {"x-forwarded-for", "1"}},
                                  {{"via", "2 evenkeel"}, {"x-forwarded-for", "1, 2"}});
  EXPECT_THAT(set_in(changes), IsEmpty());
  EXPECT_THAT(removed_in(changes), IsEmpty());
}

TEST(ChangesOfAHead, SayNothingOfABodyThatStaysAsItIs) {
  const auto changes =
      changes_of({{"etag", "1"}}, {{"content-encoding", "gzip"}, {"x-b", "1"}}, Changes::of_head);
  EXPECT_THAT(set_in(changes), ElementsAre(Pair("x-b", "1")));
  EXPECT_THAT(removed_in(changes), IsEmpty());
}

TEST(LengthOfAHead, ChangesWithTheBody) {
  const auto head = head_of({{"content-length", "5"}});
  ext_proc::HeaderMutation same;
  ext_proc::HeaderMutation other;
  ext_proc::HeaderMutation unknown;
  write_length(head, 5, same);
  write_length(head, 6, other);
  write_length(head, std::nullopt, unknown);

  EXPECT_THAT(set_in(same), IsEmpty());
  EXPECT_THAT(set_in(other), ElementsAre(Pair("content-length", "6")));
  EXPECT_THAT(removed_in(unknown), ElementsAre("content-length"));
}

TEST(GatewayFields, AreReadByTheNamesThatEvenkeelHas) {
  Request request;
  request.fields = fields_of({{"x-llm-d-slo-ttft-ms", "500"},
                              {"x-gateway-inference-objective", "batch"},
                              {"x-llm-d-inference-objective", "of-a-cluster"}});

  read_gateway_fields(request, true);

  EXPECT_EQ(request.fields.value("x-slo-ttft-ms"), "500");
  EXPECT_EQ(request.fields.value("x-priority"), "batch");
  EXPECT_EQ(request.fields.value("x-llm-d-slo-ttft-ms"), "500");
}

TEST(GatewayFields, OfUntrustedClientsDoNotReachServers) {
  Request request;
  request.fields = fields_of({{"x-llm-d-slo-ttft-ms", "500"},
                              {"x-prefiller-host-port", "10.0.0.1:80"},
                              {"x-gateway-destination-endpoint-subset", "10.0.0.1:80"},
                              {"x-llm-d-inference-fairness-id", "blue"}});

  read_gateway_fields(request, false);

  ASSERT_EQ(request.fields.size(), 1U);
  EXPECT_EQ(request.fields.value("x-slo-ttft-ms"), "500");
}

TEST(GatewayFields, ThatNameHostsAreThoseOfPickersAlone) {
  Request request;
  request.fields = fields_of({{"x-prefiller-host-port", "10.0.0.1:80"},
                              {"x-gateway-destination-endpoint", "10.0.0.1:80"},
                              {"x-data-parallel-rank", "1"}});

  read_gateway_fields(request, true);

  ASSERT_EQ(request.fields.size(), 1U);
  EXPECT_EQ(request.fields.value("x-data-parallel-rank"), "1");
}

TEST(Metadata, IsATextOrAListOfTexts) {
  ext_proc::Metadata metadata;
  auto& fields = *(*metadata.mutable_filter_metadata())["envoy.lb"].mutable_fields();
  fields["text"].set_string_value("a,b");
  auto& list = *fields["list"].mutable_list_value();
  list.add_values()->set_string_value("a");
  list.add_values()->set_number_value(1);
  list.add_values()->set_string_value("b");

  EXPECT_EQ(find_metadata(metadata, "envoy.lb", "text"), "a,b");
  EXPECT_EQ(find_metadata(metadata, "envoy.lb", "list"), "a,b");
  EXPECT_EQ(find_metadata(metadata, "envoy.lb", "none"), std::nullopt);
  EXPECT_EQ(find_metadata(metadata, "other", "text"), std::nullopt);
}

}  // namespace
}  // namespace evenkeel
