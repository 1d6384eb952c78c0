#include "proxy/load_reports.h"

#include <optional>
#include <string_view>

#include "evenkeel/http/grpc.h"
#include "evenkeel/inference/load_report.h"

namespace evenkeel {
namespace {

constexpr std::string_view format_name = "endpoint-load-metrics-format";
constexpr std::string_view report_name = "endpoint-load-metrics";
constexpr std::string_view binary_report_name = "endpoint-load-metrics-bin";

/// The format in lower case, as Triton wants it. A request whose field has this very value, not an
/// equal one, has it from us.
constexpr char own_format[] = "text";

/// True if the client did not ask for a report, but evenkeel did.
bool asks_for_own_report(const Request& request) {
  const Field* const format = request.fields.find(format_name);
  return format != nullptr && format->value_begin == own_format;
}

/// True if there was a report.
bool read_load_reports(const Fields& fields, const Backend& backend, Instant now) {
  const auto text = fields.value(report_name);
  const auto binary = fields.value(binary_report_name);
  for (const auto& report : {text ? read_load_report(*text) : std::nullopt,
                             binary ? read_binary_load_report(*binary) : std::nullopt}) {
    SharedBackend& shared = backend.shared();
    if (report) shared.signals.report(*report, now, shared.slots.in_flight());
  }
  return text || binary;
}

void remove_load_reports(Fields& fields) {
  fields.remove(report_name);
  fields.remove(binary_report_name);
}

}  // namespace

void ask_for_load_report(Request& request) {
  if (request.fields.find(format_name) == nullptr) request.fields.add(format_name, own_format);
}

void take_load_report(Loop& loop, const Backend& backend, const Request& request,
                      Response& response) {
  const bool removes = asks_for_own_report(request);
  const bool reports = read_load_reports(response.fields, backend, loop.now());
  if (reports && removes) remove_load_reports(response.fields);
  if (response.body == nullptr || !is_grpc(request)) return;
  response.body =
      std::make_unique<LoadReportBody>(loop, backend, std::move(response.body), removes);
}

Task<Result<Chunk>> LoadReportBody::read() {
  auto next = body_->read();
  if (!next.ready()) return wait(std::move(next));
  return check(next.take());
}

Task<Result<Chunk>> LoadReportBody::wait(Task<Result<Chunk>> next) {
  auto chunk = co_await next;
  co_return check(std::move(chunk));
}

Result<Chunk> LoadReportBody::check(Result<Chunk> chunk) {
  if (!chunk || chunk->trailers == nullptr) return chunk;
  const bool reports = read_load_reports(*chunk->trailers, backend_, loop_.now());
  if (!reports || !removes_) return chunk;
  for (const Field& field : *chunk->trailers) {
    trailers_.add(field);
  }
  remove_load_reports(trailers_);
  chunk->trailers = &trailers_;
  return chunk;
}

}  // namespace evenkeel
