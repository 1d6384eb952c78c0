// Rules on streams: how they end, how many there are, and what else the server answers.
#include <fmt/format.h>

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "epp/checker_rules.h"

namespace evenkeel {
namespace {

/// Sends some requests, one after the other; empty: all were answered.
Task<std::string> health_problem(CheckSession& session) {
  constexpr int times = 3;
  for (int i = 0; i < times; ++i) {
    ProxiedRequest request = session.request();
    auto answer = co_await session.exchange(std::move(request));
    if (!answer.picked() || !answer.failure.empty()) co_return answer.summary();
  }
  co_return std::string();
}

/// Reads the pick of one stream and ends it, since a picker may hold others until then; empty: it
/// came.
Task<std::string> pick_problem(CheckSession& session, CheckStream& stream,
                               const ProxiedRequest& request) {
  PickerAnswer answer;
  co_await session.collect(stream, request, answer);
  const bool well = answer.picked() && answer.failure.empty();
  std::string problem = well ? "" : answer.summary();
  co_await session.finish(stream, answer);
  co_return problem;
}

enum class CancelPhase : std::uint8_t { head, body, response };

/// Drops a stream in that phase, when the picker has what was sent.
Task<void> cancel_in(CheckSession& session, CancelPhase phase) {
  constexpr Duration transit = std::chrono::milliseconds(50);
  const auto stream = session.open();
  ProxiedRequest request = session.request();
  session.send_head(*stream, request);
  PickerAnswer answer;
  if (phase == CancelPhase::body) {
    ext_proc::ProcessingRequest part;
    part.mutable_request_body()->set_body(request.chunks.front().substr(0, 100));
    stream->send(part);
  } else if (phase == CancelPhase::response) {
    session.send_body(*stream, request);
    co_await session.collect(*stream, request, answer);
    ext_proc::ProcessingRequest head;
    head.mutable_response_headers();
    stream->send(head);
  }
  co_await session.loop().sleep_for(transit);
}

std::string name_of(CancelPhase phase) {
  constexpr std::array names = {"after the head", "in the body", "in the response"};
  return names[static_cast<std::size_t>(phase)];
}

Task<Finding> check_cancel_in(CheckSession& session, CancelPhase phase) {
  co_await cancel_in(session, phase);
  auto problem = co_await health_problem(session);
  if (problem.empty()) co_return holds("");
  co_return fails(fmt::format("after a cancel {}: {}", name_of(phase), problem));
}

}  // namespace

Task<Finding> check_half_close(CheckSession& session) {
  ProxiedRequest request = session.request();
  auto answer = co_await session.exchange(std::move(request));
  if (answer.end) co_return holds(fmt::format("status {}", static_cast<int>(*answer.end)));
  co_return fails(answer.failure.empty() ? "the stream stays open" : answer.failure);
}

Task<Finding> check_early_half_close(CheckSession& session) {
  const auto stream = session.open();
  session.send_head(*stream, session.request());
  PickerAnswer answer;
  co_await session.finish(*stream, answer);
  if (!answer.end && answer.failure.empty()) co_return fails("the stream stays open");
  auto problem = co_await health_problem(session);
  if (!problem.empty()) co_return fails("after it: " + problem);
  co_return holds(answer.summary());
}

Task<Finding> check_streams(CheckSession& session) {
  const unsigned count = session.options().streams;
  const ProxiedRequest request = session.request();
  std::vector<std::unique_ptr<CheckStream>> streams;
  for (unsigned i = 0; i < count; ++i) {
    streams.push_back(session.open());
    session.send_head(*streams.back(), request);
  }
  for (const auto& stream : streams) session.send_body(*stream, request);
  std::vector<Task<std::string>> answers;
  for (const auto& stream : streams) answers.push_back(pick_problem(session, *stream, request));
  std::string first;
  for (unsigned i = 0; i < count; ++i) {
    auto answer = std::move(answers[i]);
    auto problem = co_await answer;
    if (!problem.empty() && first.empty()) {
      first = fmt::format("stream {} of {}: {}", i + 1, count, problem);
    }
  }
  co_return first.empty() ? holds(fmt::format("{} at once", count)) : fails(first);
}

Task<Finding> check_cancel(CheckSession& session) {
  constexpr std::array phases = {CancelPhase::head, CancelPhase::body, CancelPhase::response};
  for (const CancelPhase phase : phases) {
    auto finding = co_await check_cancel_in(session, phase);
    if (finding.verdict != RuleVerdict::ok) co_return finding;
  }
  co_return holds("later requests are answered");
}

Task<Finding> check_unknown_method(CheckSession& session) {
  GrpcCall call{.path = "/envoy.service.ext_proc.v3.ExternalProcessor/Nothing"};
  auto reply = co_await session.client().call(std::move(call), session.deadline());
  if (!reply) co_return fails(reply.error().detail);
  const auto seen = fmt::format("status {}", static_cast<int>(reply->status));
  co_return reply->status == GrpcStatus::unimplemented ? holds(seen) : fails(seen);
}

Task<Finding> check_health(CheckSession& session) {
  constexpr std::array<std::string_view, 4> services = {
      "", "liveness", "readiness", "envoy.service.ext_proc.v3.ExternalProcessor"};
  std::string seen;
  bool all = true;
  for (const std::string_view service : services) {
    GrpcCall call{.path = "/grpc.health.v1.Health/Check"};
    if (!service.empty()) {
      call.message = std::string("\x0a") + static_cast<char>(service.size());
      call.message += service;
    }
    auto reply = co_await session.client().call(std::move(call), session.deadline());
    const bool serving = reply && reply->message == std::string_view("\x08\x01");
    const std::string state = serving  ? "SERVING"
                              : !reply ? reply.error().detail
                              : reply->status != GrpcStatus::ok
                                  ? fmt::format("status {}", static_cast<int>(reply->status))
                                  : "not SERVING";
    all = all && serving;
    seen += fmt::format("{}'{}' {}", seen.empty() ? "" : ", ", service, state);
  }
  co_return all ? holds(seen) : fails(seen);
}

}  // namespace evenkeel
