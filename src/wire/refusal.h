// Requests that are refused before they reach a handler.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "evenkeel/http/status.h"
#include "evenkeel/wire/frontend.h"
#include "message_limit.h"

namespace evenkeel {

/// Names a limit of the listener with its value and its key, such as "the request head exceeds 32
/// KiB (limits.header)". REQUIRES: not `none`.
std::string describe_limit(MessageLimit limit, const ListenerConfig& config);

/// The path of a request target in origin or absolute form, with its query.
std::string_view path_of_target(std::string_view target);

/// The response to a refused request. It carries an x-request-id: the client's from `fields` if it
/// is valid, else a new one. Sets the id, status and fault of `info`; the id is a view into the
/// response.
Response refusal_response(const Error& error, ErrorFormat format, const Fields& fields,
                          RequestInfo& info);

/// The response to a request in place of one that has failed before its first byte. Sets the fault.
Response failure_response(const Error& error, Request& request);

/// Reports a refused request when it is dropped: its response is written, or its connection is
/// given up. What happens to the request meanwhile changes neither its fault nor its status.
///
/// REQUIRES: what it is given outlives it; `refusal_response` has set `info`.
class RefusalReport {
 public:
  RefusalReport(FrontendCallbacks& callbacks, const Error& error, std::string_view method,
                std::string_view host, std::string_view path, RequestInfo& info)
      : callbacks_(callbacks),
        error_(error),
        status_(info.outcome.status),
        method_(method),
        host_(host),
        path_(path),
        info_(info) {}
  RefusalReport(const RefusalReport&) = delete;
  RefusalReport& operator=(const RefusalReport&) = delete;
  ~RefusalReport();

 private:
  FrontendCallbacks& callbacks_;
  const Error& error_;
  int status_;
  std::string_view method_;
  std::string_view host_;
  std::string_view path_;
  RequestInfo& info_;
};

}  // namespace evenkeel
