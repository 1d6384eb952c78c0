// Rules on the response of the backend, after the pick.
#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "epp/checker_rules.h"

namespace evenkeel {
namespace {

struct ResponseExchange {
  PickerAnswer request;
  PickerAnswer response;
};

/// Sends a request, and a response after the pick. A picker may have ended the stream by then.
Task<ResponseExchange> exchange_both(CheckSession& session, ProxiedResponse response) {
  ResponseExchange both;
  const ProxiedRequest request = session.request();
  const auto stream = session.open();
  session.send_head(*stream, request);
  session.send_body(*stream, request);
  co_await session.collect(*stream, request, both.request);
  if (both.request.over()) co_return both;
  co_await session.respond(*stream, response, both.response);
  co_await session.finish(*stream, both.response);
  co_return both;
}

/// What is wrong with the answers to a response; empty: nothing.
std::string response_problem(const PickerAnswer& answer, const std::string& sent, bool trailers) {
  if (!answer.failure.empty()) return answer.failure;
  if (answer.immediate) return answer.summary();
  const std::size_t heads = answer.count(AnswerPart::response_head);
  if (heads != 1) return fmt::format("{} answers to response_headers", heads);
  if (answer.response_body.bytes != sent) {
    return fmt::format("{} bytes sent, {} came back, or in another order", sent.size(),
                       answer.response_body.bytes.size());
  }
  const std::size_t ends = answer.response_body.ends;
  if (ends != (trailers ? 0 : 1)) return fmt::format("{} times end_of_stream", ends);
  if (answer.response_body.after_end > 0) return "pieces after end_of_stream";
  if (trailers && answer.count(AnswerPart::response_trailers) != 1) return "no trailers";
  AnswerPart last = AnswerPart::response_head;
  for (const AnswerPart part : answer.parts) {
    const bool is_of_response =
        part >= AnswerPart::response_head && part <= AnswerPart::response_trailers;
    if (!is_of_response) continue;
    if (part < last) return "not in the order head, body, trailers";
    last = part;
  }
  return "";
}

/// True if the picker ended the stream instead of answering the response, which it may.
bool left_in_order(const PickerAnswer& answer) {
  return answer.end == GrpcStatus::ok && answer.count(AnswerPart::response_head) == 0 &&
         answer.count(AnswerPart::response_body) == 0;
}

Task<Finding> check_answered(CheckSession& session, ProxiedResponse response) {
  std::string sent;
  for (const std::string& chunk : response.chunks) sent += chunk;
  const bool trailers = response.trailers;
  const std::size_t chunks = response.chunks.size();
  auto both = co_await exchange_both(session, std::move(response));
  if (!both.request.failure.empty() || !both.request.picked()) {
    co_return fails(both.request.summary());
  }
  if (left_in_order(both.request) || left_in_order(both.response)) {
    co_return holds("the picker ended the stream with OK after the request");
  }
  if (both.request.over()) co_return fails(both.request.summary());
  const std::string problem = response_problem(both.response, sent, trailers);
  if (!problem.empty()) co_return fails(problem);
  co_return holds(fmt::format("{} chunks came back in order", chunks));
}

std::vector<std::string> events() {
  constexpr int count = 50;
  std::vector<std::string> list;
  for (int i = 0; i < count; ++i) {
    list.push_back(fmt::format("data: {{\"choices\":[{{\"text\":\"{}\"}}]}}\n\n", i));
  }
  list.emplace_back("data: [DONE]\n\n");
  return list;
}

}  // namespace

Task<Finding> check_response(CheckSession& session) {
  ProxiedResponse response;
  response.chunks = events();
  response.served = session.known_endpoint();
  return check_answered(session, std::move(response));
}

Task<Finding> check_response_trailers(CheckSession& session) {
  ProxiedResponse response;
  response.chunks = events();
  response.trailers = true;
  response.served = session.known_endpoint();
  return check_answered(session, std::move(response));
}

Task<Finding> check_served(CheckSession& session) {
  constexpr std::array<std::string_view, 2> names = {"", "203.0.113.1:9"};
  for (const std::string_view served : names) {
    ProxiedResponse response;
    response.chunks = events();
    response.served = served;
    auto finding = co_await check_answered(session, std::move(response));
    if (finding.verdict == RuleVerdict::ok) continue;
    co_return fails(
        fmt::format("served by {}: {}", served.empty() ? "nothing" : served, finding.seen));
  }
  co_return holds("accepted with a known endpoint, an unknown one, and none");
}

}  // namespace evenkeel
