#include "evenkeel/filter/trace.h"

#include <memory>
#include <optional>

namespace evenkeel {
namespace {

/// The client's trace; nothing if it hands over none, or one that is not valid.
std::optional<TraceParent> parent_of(const Fields& fields) {
  if (!fields.has(FieldId::traceparent) || fields.count(FieldId::traceparent) > 1)
    return std::nullopt;
  return parse_traceparent(*fields.value(FieldId::traceparent));
}

}  // namespace

TraceFilter::TraceFilter(std::uint64_t seed, const TracingConfig& config)
    : rng_(seed),
      sampler_(config.sample),
      slow_(config.slow.count() == 0 ? Duration::max() : Duration(config.slow)),
      uses_gen_ai_names_(config.gen_ai) {}

Task<Result<Response>> TraceFilter::handle(Request& request, Handler& next) {
  Fields& fields = request.fields;
  const auto parent = parent_of(fields);
  auto trace = parent ? std::make_unique<RequestTrace>(rng_, *parent)
                      : std::make_unique<RequestTrace>(rng_, sampler_);
  trace->slow = slow_;
  trace->uses_gen_ai_names = uses_gen_ai_names_;
  fields.remove(FieldId::traceparent);
  if (!parent) fields.remove(FieldId::tracestate);
  fields.add("traceparent", trace->traceparent(), FieldId::traceparent);
  request.info.trace = std::move(trace);
  return next.handle(request);
}

}  // namespace evenkeel
