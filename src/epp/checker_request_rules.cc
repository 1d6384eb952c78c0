// Rules on how the parts of a request come back.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "epp/checker_rules.h"
#include "evenkeel/base/decimal.h"

namespace evenkeel {
namespace {

constexpr std::size_t max_piece_bytes = 64 * 1024;
constexpr std::size_t advised_piece_bytes = 62'000;

bool is_refusal(const PickerAnswer& answer) {
  return answer.immediate && answer.immediate->status >= 400 && answer.immediate->status < 500;
}

/// True if the picker may refuse the body: it is no JSON document, or large.
bool may_be_refused(const BodyExchange& exchange) {
  const std::size_t bytes = exchange.request.body_bytes();
  return bytes < 2 || bytes > (std::size_t{1} << 20);
}

/// A rule that holds for each body that came back, or the first finding that says otherwise.
Task<Finding> check_each(CheckSession& session, std::string (*problem_of)(const BodyExchange&),
                         std::string_view good) {
  const auto* exchanges = co_await session.bodies();
  std::size_t checked = 0;
  for (const BodyExchange& each : *exchanges) {
    if (each.answer.immediate || each.answer.body.bytes.empty()) continue;
    ++checked;
    const std::string problem = problem_of(each);
    if (!problem.empty()) co_return fails(fmt::format("{}: {}", each.what, problem));
  }
  if (checked == 0) co_return skips("no body came back");
  co_return holds(fmt::format("{} bodies {}", checked, good));
}

std::string change_of(const BodyExchange& exchange) {
  const PickerAnswer& answer = exchange.answer;
  if (answer.body.unstreamed > 0) {
    return fmt::format("{} answers without streamed_response", answer.body.unstreamed);
  }
  const std::string& came = answer.body.bytes;
  const auto length = parse_number<std::size_t>(answer.content_length.value_or(""));
  if (answer.content_length && length != came.size()) {
    return fmt::format("content-length {}, and {} bytes came", *answer.content_length, came.size());
  }
  const std::string sent = exchange.request.body();
  if (came == sent || answer.content_length || answer.removes_content_length) return "";
  const auto differs = std::ranges::mismatch(came, sent);
  return fmt::format("{} bytes sent, {} came back, the first change at byte {}", sent.size(),
                     came.size(), differs.in1 - came.begin());
}

std::string large_piece_of(const BodyExchange& exchange) {
  const std::size_t largest = exchange.answer.body.largest;
  return largest > max_piece_bytes ? fmt::format("a piece of {} bytes", largest) : "";
}

std::string wrong_end_of(const BodyExchange& exchange) {
  const EchoedBody& body = exchange.answer.body;
  if (body.ends == 0) return "no end_of_stream";
  if (body.ends > 1) return fmt::format("{} times end_of_stream", body.ends);
  if (body.after_end > 0) return fmt::format("{} pieces after end_of_stream", body.after_end);
  return "";
}

std::string disorder_of(const PickerAnswer& answer) {
  const auto rank = [](AnswerPart part) {
    return part == AnswerPart::head ? 0 : part == AnswerPart::body ? 1 : 2;
  };
  const auto is_of_request = [](AnswerPart part) { return part <= AnswerPart::trailers; };
  int last = 0;
  for (const AnswerPart part : answer.parts) {
    if (!is_of_request(part)) continue;
    if (rank(part) < last) {
      return part == AnswerPart::head ? "the head came after the body"
                                      : "a piece of the body came after the trailers";
    }
    last = rank(part);
  }
  return "";
}

}  // namespace

Task<Finding> check_one_head(CheckSession& session) {
  const auto* exchanges = co_await session.bodies();
  for (const BodyExchange& each : *exchanges) {
    const std::size_t heads = each.answer.count(AnswerPart::head);
    if (heads > 1) co_return fails(fmt::format("{}: {} of them", each.what, heads));
  }
  co_return holds("one for each request");
}

Task<Finding> check_order(CheckSession& session) {
  const auto* exchanges = co_await session.bodies();
  for (const BodyExchange& each : *exchanges) {
    const std::string problem = disorder_of(each.answer);
    if (!problem.empty()) co_return fails(fmt::format("{}: {}", each.what, problem));
  }
  co_return holds("the head came first");
}

Task<Finding> check_bodies(CheckSession& session) {
  const auto* exchanges = co_await session.bodies();
  std::string refused;
  for (const BodyExchange& each : *exchanges) {
    const PickerAnswer& answer = each.answer;
    if (is_refusal(answer) && may_be_refused(each)) {
      refused += fmt::format("; {} refused with {}", each.what, answer.immediate->status);
      continue;
    }
    const bool well = answer.failure.empty() && answer.picked() && !answer.immediate;
    if (!well) co_return fails(fmt::format("{}: {}", each.what, answer.summary()));
  }
  co_return holds(fmt::format("{} sizes{}", exchanges->size(), refused));
}

Task<Finding> check_body_whole(CheckSession& session) {
  return check_each(session, change_of, "as they were sent, or as long as content-length says");
}

Task<Finding> check_body_pieces(CheckSession& session) {
  auto finding = co_await check_each(session, large_piece_of, "in small pieces");
  if (finding.verdict != RuleVerdict::ok) co_return finding;
  const auto* exchanges = co_await session.bodies();
  std::size_t largest = 0;
  for (const BodyExchange& each : *exchanges) largest = std::max(largest, each.answer.body.largest);
  co_return holds(
      fmt::format("at most {} bytes{}", largest,
                  largest > advised_piece_bytes ? ", more than the 62 000 advised" : ""));
}

Task<Finding> check_body_end(CheckSession& session) {
  return check_each(session, wrong_end_of, "with one end");
}

Task<Finding> check_bodiless(CheckSession& session) {
  ProxiedRequest request{.method = "GET", .bodiless = true};
  auto answer = co_await session.exchange(request);
  if (answer.body.pieces > 0) co_return fails("a body for a request without one");
  if (!answer.failure.empty() || !answer.picked()) co_return fails(answer.summary());
  co_return holds(answer.summary());
}

Task<Finding> check_trailers(CheckSession& session) {
  ProxiedRequest request = session.request();
  request.trailers = true;
  auto answer = co_await session.exchange(request);
  if (answer.count(AnswerPart::trailers) == 0) {
    co_return fails(answer.failure.empty() ? answer.summary() : "the trailers are not answered");
  }
  if (answer.body.ends > 0) co_return fails("end_of_stream before the trailers");
  if (answer.parts.back() != AnswerPart::trailers) co_return fails("more came after the trailers");
  co_return holds("head, body, trailers");
}

Task<Finding> check_unknown_fields(CheckSession& session) {
  ProxiedRequest request = session.request();
  request.unknown_fields = true;
  auto answer = co_await session.exchange(request);
  if (answer.picked() && answer.failure.empty()) co_return holds(answer.summary());
  co_return fails(answer.summary());
}

Task<Finding> check_garbage(CheckSession& session) {
  constexpr std::array<std::string_view, 4> bodies = {
      "{\"model\":", "[[[[[[[[", std::string_view("\x00\xff\xfe{}", 5), "null"};
  std::string seen;
  for (const std::string_view body : bodies) {
    ProxiedRequest request;
    request.chunks = {std::string(body)};
    auto answer = co_await session.exchange(request);
    const bool well = answer.immediate ? is_refusal(answer) : answer.picked();
    if (!well || !answer.failure.empty()) co_return fails(answer.summary());
    seen = answer.summary();
  }
  co_return holds(seen);
}

/// Sends the body when the head has been answered, as Envoy does in this mode.
Task<Finding> check_buffered(CheckSession& session) {
  ProxiedRequest request = session.request();
  request.mode = ext_proc::ProcessingMode::BUFFERED;
  const auto stream = session.open();
  session.send_head(*stream, request);
  PickerAnswer answer;
  const Duration grace = std::min<Duration>(session.options().timeout, std::chrono::seconds(2));
  auto first = co_await stream->next(session.loop().read_clock() + grace);
  session.send_body(*stream, request);
  if (first.kind == StreamEvent::Kind::timeout) {
    co_await session.finish(*stream, answer);
    co_return skips("not supported: the head is not answered before the body");
  }
  answer.add(first);
  while (!answer.over() && answer.count(AnswerPart::body) == 0) {
    auto event = co_await stream->next(session.deadline());
    answer.add(event);
  }
  PickerAnswer rest;
  co_await session.finish(*stream, rest);
  if (answer.over()) co_return skips("not supported: " + answer.summary());
  if (answer.body.pieces > 0) co_return skips("not supported: the body is answered in pieces");
  const bool picked = answer.picked() || answer.picks_with_body;
  co_return picked ? holds("one answer for the head, one for the body")
                   : skips("not supported: no pick in either answer");
}

}  // namespace evenkeel
