#include "evenkeel/http/status.h"

#include <string>

#include "evenkeel/json/writer.h"

namespace evenkeel {
namespace {

constexpr std::uint32_t default_retry_after_ms = 1000;

/// OpenAI's error `type`.
std::string_view openai_type(const Error& error) {
  switch (error.fault) {
    case Fault::rate_limited: return error.counts_tokens ? "tokens" : "requests";
    case Fault::quota_exceeded: return "insufficient_quota";
    default: break;
  }
  const int status = status_of(error.fault);
  switch (status) {
    case 400:
    case 401:
    case 404:
    case 405:
    case 408:
    case 413:
    case 414:
    case 417:
    case 431:
    case 501:
    case 505: return "invalid_request_error";
    case 403: return "permission_error";
    case 429: return "overloaded";
    case 503: return "service_unavailable";
    case 502:
    case 504: return "upstream_error";
    default: return "server_error";
  }
}

/// OpenAI's error `code`: its own word for a fault that it has, too.
std::string_view openai_code(Fault fault) {
  switch (fault) {
    case Fault::unauthorized: return "invalid_api_key";
    case Fault::rate_limited: return "rate_limit_exceeded";
    case Fault::quota_exceeded: return "insufficient_quota";
    default: return to_string(fault);
  }
}

/// Anthropic's error `type` for a status (its API reference, "Errors").
std::string_view anthropic_type(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 413: return "request_too_large";
    case 429: return "rate_limit_error";
    case 503: return "overloaded_error";
    case 408:
    case 504: return "timeout_error";
    default: return status < 500 ? "invalid_request_error" : "api_error";
  }
}

/// True if `path`, which may have a query, is `prefix` or below it.
bool is_below(std::string_view path, std::string_view prefix) {
  if (!path.starts_with(prefix)) return false;
  return path.size() == prefix.size() || path[prefix.size()] == '/' || path[prefix.size()] == '?';
}

}  // namespace

int status_of(Fault fault) {
  switch (fault) {
    case Fault::bad_request: return 400;
    case Fault::unauthorized: return 401;
    case Fault::model_not_allowed:
    case Fault::tenant_not_allowed: return 403;
    case Fault::no_route:
    case Fault::model_not_found:
    case Fault::session_lost: return 404;
    case Fault::method_not_allowed: return 405;
    case Fault::header_timeout:
    case Fault::body_timeout: return 408;
    case Fault::body_too_large: return 413;
    case Fault::uri_too_long: return 414;
    case Fault::expectation_failed: return 417;
    case Fault::rate_limited:
    case Fault::quota_exceeded:
    case Fault::flood:
    case Fault::queue_full: return 429;
    case Fault::header_too_large: return 431;
    case Fault::client_gone:
    case Fault::write_timeout: return 499;
    case Fault::not_implemented: return 501;
    case Fault::connect_failed:
    case Fault::tls_failed:
    case Fault::backend_closed:
    case Fault::backend_protocol:
    case Fault::stream_error:
    case Fault::server_error: return 502;
    case Fault::no_backend:
    case Fault::over_budget:
    case Fault::overloaded:
    case Fault::queue_timeout:
    case Fault::draining:
    case Fault::out_of_memory: return 503;
    case Fault::connect_timeout:
    case Fault::first_byte_timeout:
    case Fault::idle_timeout:
    case Fault::deadline_exceeded: return 504;
    case Fault::version_not_supported: return 505;
    case Fault::internal: return 500;
  }
  return 500;
}

GrpcStatus grpc_status_of(Fault fault) {
  switch (fault) {
    case Fault::client_gone:
    case Fault::write_timeout: return GrpcStatus::cancelled;
    case Fault::deadline_exceeded: return GrpcStatus::deadline_exceeded;
    case Fault::rate_limited:
    case Fault::quota_exceeded:
    case Fault::flood:
    case Fault::uri_too_long:
    case Fault::header_too_large:
    case Fault::body_too_large: return GrpcStatus::resource_exhausted;  // as gRPC's own limits
    case Fault::no_route:
    case Fault::not_implemented:
    case Fault::method_not_allowed: return GrpcStatus::unimplemented;
    case Fault::model_not_found:  // as Triton
    case Fault::session_lost: return GrpcStatus::not_found;
    case Fault::internal: return GrpcStatus::internal;
    // Not INTERNAL, which gRPC makes of a 400 and which says that the server is broken.
    case Fault::bad_request: return GrpcStatus::invalid_argument;
    // queue_full too becomes UNAVAILABLE, which gRPC makes of a 429 and which retry policies name.
    // RESOURCE_EXHAUSTED reads as a quota, which no library retries by itself.
    default: return grpc_status_of_http(status_of(fault));
  }
}

GrpcStatus grpc_status_of(const Error& error) {
  return error.reset_code ? grpc_status_of_reset(*error.reset_code) : grpc_status_of(error.fault);
}

std::string_view phrase_of(int status) {
  switch (status) {
    case 100: return "Continue";
    case 101: return "Switching Protocols";
    case 103: return "Early Hints";
    case 200: return "OK";
    case 201: return "Created";
    case 202: return "Accepted";
    case 204: return "No Content";
    case 205: return "Reset Content";
    case 206: return "Partial Content";
    case 301: return "Moved Permanently";
    case 302: return "Found";
    case 303: return "See Other";
    case 304: return "Not Modified";
    case 307: return "Temporary Redirect";
    case 308: return "Permanent Redirect";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 402: return "Payment Required";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 406: return "Not Acceptable";
    case 407: return "Proxy Authentication Required";
    case 408: return "Request Timeout";
    case 409: return "Conflict";
    case 410: return "Gone";
    case 411: return "Length Required";
    case 412: return "Precondition Failed";
    case 413: return "Content Too Large";
    case 414: return "URI Too Long";
    case 415: return "Unsupported Media Type";
    case 416: return "Range Not Satisfiable";
    case 417: return "Expectation Failed";
    case 421: return "Misdirected Request";
    case 422: return "Unprocessable Content";
    case 423: return "Locked";
    case 424: return "Failed Dependency";
    case 425: return "Too Early";
    case 426: return "Upgrade Required";
    case 428: return "Precondition Required";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 451: return "Unavailable For Legal Reasons";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 502: return "Bad Gateway";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    case 505: return "HTTP Version Not Supported";
    case 507: return "Insufficient Storage";
    default: return "";
  }
}

ErrorFormat error_format_of(std::string_view path) {
  path = path.substr(0, path.find('?'));
  ErrorFormat format = ErrorFormat::plain;
  for (std::string_view rest = path; !rest.empty();) {
    rest.remove_prefix(1);
    const std::string_view segment = rest.substr(0, rest.find('/'));
    rest.remove_prefix(segment.size());
    if (segment == "v1" && is_below(rest, "/messages")) return ErrorFormat::anthropic;
    if (segment == "v1" || segment == "v3") return ErrorFormat::openai;
    if (segment == "v2") return ErrorFormat::kserve;
    if (segment == "api") format = ErrorFormat::ollama;  // or a prefix of another API
  }
  for (const std::string_view unversioned : {"/completions", "/embeddings", "/responses"}) {
    if (path.ends_with(unversioned) && format == ErrorFormat::plain) return ErrorFormat::openai;
  }
  return format;
}

ErrorFormat error_format_of(const Request& request) {
  const bool grpc = is_grpc(request) && !request.is_extended_connect;
  if (grpc) return ErrorFormat::grpc;
  const ErrorFormat format = error_format_of(request.path);
  const bool anthropic = format == ErrorFormat::openai && is_below(request.path, "/v1/models") &&
                         request.fields.value("anthropic-version").has_value();
  return anthropic ? ErrorFormat::anthropic : format;
}

Response grpc_trailers_only(GrpcStatus status, std::string_view message) {
  Response response{.status = 200};
  response.fields.add("content-type", "application/grpc");
  response.fields.add("grpc-status", grpc_status_digits(status));
  if (message.empty()) return response;
  std::string escaped;
  append_grpc_message(escaped, message);
  response.fields.add("grpc-message", response.fields.keep(escaped));
  return response;
}

namespace {

/// Names the backend whose fault it is: the texts of system calls do not.
std::string detail_of(const Error& error, int status) {
  if (error.detail.empty()) return std::string(phrase_of(status));
  const bool is_named =
      error.side != Side::backend || error.detail.find("backend") != std::string::npos;
  if (is_named) return error.detail;
  switch (error.fault) {
    case Fault::connect_failed:
    case Fault::connect_timeout: return "cannot connect to the backend: " + error.detail;
    case Fault::tls_failed: return "no TLS with the backend: " + error.detail;
    default: return "the backend failed: " + error.detail;
  }
}

/// The JSON object of a format that has one; `kserve` is the plainest.
std::string error_object(const Error& error, ErrorFormat format) {
  const int status = status_of(error.fault);
  std::string object;
  switch (format) {
    case ErrorFormat::openai:
      object = R"({"error":{"message":)";
      append_json_string(object, detail_of(error, status));
      object += R"(,"type":")";
      object += openai_type(error);
      object += error.fault == Fault::model_not_found || error.fault == Fault::model_not_allowed
                    ? R"(","param":"model","code":")"
                    : R"(","param":null,"code":")";
      object += openai_code(error.fault);
      object += "\"}}";
      break;
    case ErrorFormat::anthropic:
      object = R"({"type":"error","error":{"type":")";
      object += anthropic_type(status);
      object += R"(","message":)";
      append_json_string(object, detail_of(error, status));
      object += "}}";
      break;
    case ErrorFormat::kserve:
    case ErrorFormat::ollama:
    case ErrorFormat::grpc:
    case ErrorFormat::plain:
      object = R"({"error":)";
      append_json_string(object, detail_of(error, status));
      object += '}';
      break;
  }
  return object;
}

}  // namespace

std::string error_event(const Error& error, ErrorFormat format) {
  std::string event = format == ErrorFormat::anthropic ? "event: error\ndata: " : "data: ";
  return event.append(error_object(error, format)).append("\n\n");
}

std::string error_line(const Error& error) {
  return error_object(error, ErrorFormat::plain) + '\n';
}

Response error_response(const Error& error, ErrorFormat format) {
  const int status = status_of(error.fault);
  const std::string_view word = to_string(error.fault);
  const std::string detail = detail_of(error, status);
  const bool says_when = status == 429 || status == 503;
  const bool is_final = error.retry_after_ms == Error::never;
  const bool retryable = says_when && !is_final && error.fault != Fault::quota_exceeded;
  const std::uint32_t retry_after_ms =
      error.retry_after_ms > 0 ? error.retry_after_ms : default_retry_after_ms;

  if (format == ErrorFormat::grpc) {
    Response response = grpc_trailers_only(grpc_status_of(error), detail);
    response.fields.add("x-evenkeel-reason", word);
    if (retryable) {
      response.fields.add("grpc-retry-pushback-ms",
                          response.fields.keep(std::to_string(retry_after_ms)));
    }
    return response;
  }

  Response response{.status = status};
  std::string body;
  std::string_view type = "application/json";
  if (format == ErrorFormat::plain) {
    body = detail;
    body += '\n';
    type = "text/plain; charset=utf-8";
  } else {
    body = error_object(error, format);
  }
  response.fields.add("content-type", type);
  response.fields.add("x-evenkeel-reason", word);
  if (status == 401) response.fields.add("www-authenticate", "Bearer");
  if (says_when) {
    if (!is_final) {
      const std::uint32_t seconds = retry_after_ms / 1000 + (retry_after_ms % 1000 != 0 ? 1 : 0);
      response.fields.add("retry-after", response.fields.keep(std::to_string(seconds)));
      response.fields.add("retry-after-ms", response.fields.keep(std::to_string(retry_after_ms)));
    }
    response.fields.add("x-should-retry", retryable ? "true" : "false");
  }
  response.body = make_body(std::move(body));
  return response;
}

}  // namespace evenkeel
