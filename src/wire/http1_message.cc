#include "http1_message.h"

#include <algorithm>
#include <array>

#include "chunked.h"
#include "evenkeel/base/decimal.h"
#include "evenkeel/base/host.h"
#include "evenkeel/http/credentials.h"
#include "evenkeel/http/status.h"
#include "message_rules.h"

namespace evenkeel {
namespace {

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

/// Calls `use(item)` for every item of a comma-separated list; stops when it returns false.
template <class Use>
bool each_item(std::string_view list, Use use) {
  while (!list.empty()) {
    const auto comma = list.find(',');
    const std::string_view item = trim(list.substr(0, comma));
    if (!item.empty() && !use(item)) return false;
    if (comma == std::string_view::npos) break;
    list.remove_prefix(comma + 1);
  }
  return true;
}

/// The options in the `connection` fields of a message.
class ConnectionOptions {
 public:
  static constexpr std::size_t max_nominated = 16;
  bool close = false;
  bool keep_alive = false;
  bool upgrade = false;
  std::size_t nominated_count = 0;

  void nominate(std::string_view name) {
    nominated_[nominated_count++] = {name.data(), name.size()};
  }
  bool nominates(std::string_view name) const {
    for (std::size_t i = 0; i < nominated_count; ++i) {
      if (equals_ignore_case({nominated_[i].begin, nominated_[i].size}, name)) return true;
    }
    return false;
  }

 private:
  /// A name that, unlike a std::string_view, is not initialised: most messages nominate nothing.
  struct Name {
    const char* begin;
    std::size_t size;
  };
  std::array<Name, max_nominated> nominated_;
};

/// Fields that must not be nominated: without them the message would change its meaning.
bool may_be_nominated(std::string_view name) {
  switch (field_id(name)) {
    case FieldId::authorization:
    case FieldId::content_length:
    case FieldId::content_type:
    case FieldId::cookie:
    case FieldId::expect:
    case FieldId::forwarded:
    case FieldId::host:
    case FieldId::transfer_encoding:
    case FieldId::x_forwarded_for:
    case FieldId::x_forwarded_host:
    case FieldId::x_forwarded_proto:
    case FieldId::x_request_id: return false;
    case FieldId::other: return !names_credential(name);
    default: return true;
  }
}

std::optional<HeadError> read_connection_options(const Fields& fields, Fault fault,
                                                 ConnectionOptions& options) {
  if (!fields.has(FieldId::connection)) return std::nullopt;
  const char* problem = nullptr;
  for (const Field& field : fields) {
    if (field.id != FieldId::connection) continue;
    each_item(field.value(), [&](std::string_view item) {
      if (equals_ignore_case(item, "close")) {
        options.close = true;
      } else if (equals_ignore_case(item, "keep-alive")) {
        options.keep_alive = true;
      } else if (equals_ignore_case(item, "upgrade")) {
        options.upgrade = true;
      } else if (!may_be_nominated(item)) {
        problem = "the connection field names an end-to-end field";
      } else if (options.nominated_count == ConnectionOptions::max_nominated) {
        problem = "the connection field names too many fields";
      } else {
        options.nominate(item);
      }
      return problem == nullptr;
    });
  }
  if (problem != nullptr) return HeadError{fault, problem};
  return std::nullopt;
}

/// Reads the framing fields, by the same rules for both directions. `other_coding` is the fault for
/// an unknown coding.
std::optional<HeadError> read_framing(const Head& head, Fault fault, Fault other_coding,
                                      Framing& framing) {
  const Fields& fields = head.fields;
  const bool coded = fields.has(FieldId::transfer_encoding);
  const bool sized = fields.has(FieldId::content_length);
  if (coded) {
    if (sized) return HeadError{fault, "both content-length and transfer-encoding"};
    if (head.minor_version == 0) return HeadError{fault, "transfer-encoding in HTTP/1.0"};
    if (fields.count(FieldId::transfer_encoding) != 1) {
      return HeadError{fault, "multiple transfer-encoding fields"};
    }
    const std::string_view coding = fields.find(FieldId::transfer_encoding)->value();
    if (!equals_ignore_case(coding, "chunked")) {
      const bool plain_token = is_token(coding) && !equals_ignore_case(coding, "identity");
      return HeadError{plain_token ? other_coding : fault, "the transfer coding is not chunked"};
    }
    framing.kind = Framing::Kind::chunked;
  } else if (sized) {
    if (fields.count(FieldId::content_length) != 1) {
      return HeadError{fault, "multiple content-length fields"};
    }
    const auto length = parse_length(fields.find(FieldId::content_length)->value());
    if (!length) return HeadError{fault, "invalid content-length"};
    framing = {Framing::Kind::length, *length};
  }
  return std::nullopt;
}

/// Reads what a head says of its message and its connection.
std::optional<HeadError> read_connection(const Head& head, Fault fault, Fault other_coding,
                                         ConnectionOptions& options,
                                         Http1MessageInfo& message_info) {
  if (auto problem = read_framing(head, fault, other_coding, message_info.framing)) return problem;
  if (auto problem = read_connection_options(head.fields, fault, options)) return problem;
  message_info.keep_alive = !options.close && (head.minor_version == 1 || options.keep_alive);
  return std::nullopt;
}

/// True if a field concerns the framing or this connection only.
bool is_of_connection(FieldId id) {
  switch (id) {
    case FieldId::connection:
    case FieldId::content_length:
    case FieldId::keep_alive:
    case FieldId::proxy_connection:
    case FieldId::trailer:
    case FieldId::transfer_encoding: return true;
    default: return false;
  }
}

/// Splits the target into authority and path; origin-form, absolute-form and `OPTIONS *`.
std::optional<HeadError> read_target(const Head& head, Request& request) {
  const std::string_view target = head.target;
  const Field* host = head.fields.find(FieldId::host);
  const std::size_t hosts = head.fields.count(FieldId::host);
  if (hosts > 1) return HeadError{Fault::bad_request, "multiple host fields"};
  if (hosts == 0 && head.minor_version == 1) {
    return HeadError{Fault::bad_request, "missing host field"};
  }
  if (host != nullptr) {
    if (!is_authority(host->value())) return HeadError{Fault::bad_request, "invalid host field"};
    request.authority = host->value();
  }
  if (target.front() == '/') {
    request.path = target;
    return std::nullopt;
  }
  if (target == "*" && head.method == "OPTIONS") {
    request.path = target;
    return std::nullopt;
  }
  std::string_view rest = target;
  bool secure = false;
  if (rest.size() > 7 && starts_with_ignore_case(rest, "http://")) {
    rest.remove_prefix(7);
  } else if (rest.size() > 8 && starts_with_ignore_case(rest, "https://")) {
    secure = true;
    rest.remove_prefix(8);
  } else {
    return HeadError{Fault::bad_request, "the request target is not a path"};
  }
  const auto slash = rest.find_first_of("/?");
  const std::string_view authority = rest.substr(0, slash);
  if (!is_authority(authority))
    return HeadError{Fault::bad_request, "invalid authority in the request target"};
  if (host != nullptr &&
      normal_authority(host->value(), secure) != normal_authority(authority, secure)) {
    return HeadError{Fault::bad_request, "the host field differs from the request target"};
  }
  request.authority = authority;
  request.path = slash == std::string_view::npos ? std::string_view("/") : rest.substr(slash);
  if (request.path.front() == '?') {
    return HeadError{Fault::bad_request, "the request target has no path"};
  }
  return std::nullopt;
}

/// Drops the upgrade of a request without a key, whose answer could not be told from one that opens
/// a tunnel by mistake (RFC 6455, 4.1). Of several keys the backend and we could use different
/// ones.
std::optional<HeadError> check_websocket_key(Request& request) {
  const auto keys = std::count_if(
      request.fields.begin(), request.fields.end(),
      [](const Field& field) { return equals_ignore_case(field.name(), "sec-websocket-key"); });
  if (keys == 0) request.upgrade = {};
  if (keys > 1) return HeadError{Fault::bad_request, "multiple sec-websocket-key fields"};
  return std::nullopt;
}

/// Removes the fields that concern only this connection from `request`, and keeps what they say.
std::optional<HeadError> take_connection_fields(const ConnectionOptions& options, int minor_version,
                                                Request& request, Http1MessageInfo& message_info) {
  const char* problem = nullptr;
  Fault fault = Fault::bad_request;
  const bool bodiless = message_info.framing.is_empty();
  request.fields.remove_if([&](const Field& field) {
    if (is_of_connection(field.id)) return true;
    switch (field.id) {
      case FieldId::host:
      case FieldId::http2_settings: return true;
      case FieldId::te:
        each_item(field.value(), [&](std::string_view item) {
          if (equals_ignore_case(item, "trailers")) request.wants_trailers = true;
          return true;
        });
        return true;
      case FieldId::upgrade:
        if (options.upgrade && minor_version == 1 && request.method == "GET" && bodiless &&
            equals_ignore_case(field.value(), "websocket")) {
          request.upgrade = "websocket";
        }
        return true;
      case FieldId::expect:
        if (equals_ignore_case(field.value(), "100-continue")) {
          message_info.expects_continue = minor_version == 1;
        } else {
          problem = "only 100-continue is supported in expect";
          fault = Fault::expectation_failed;
        }
        return true;
      case FieldId::other:
        return options.nominates(field.name()) || is_underscore_alias(field.name());
      default: return options.nominates(field.name());
    }
  });
  if (problem != nullptr) return HeadError{fault, problem};
  if (!request.upgrade.empty()) [[unlikely]]
    return check_websocket_key(request);
  return std::nullopt;
}

}  // namespace

std::optional<HeadError> accept_request(Head& head, Request& request,
                                        Http1MessageInfo& message_info) {
  if (head.method == "CONNECT" || head.method == "TRACE") {
    return HeadError{Fault::method_not_allowed, "method not supported"};
  }
  if (auto problem = read_target(head, request)) return problem;
  ConnectionOptions options;
  if (auto problem = read_connection(head, Fault::bad_request, Fault::not_implemented, options,
                                     message_info)) {
    return problem;
  }
  request.method = head.method;
  request.fields = std::move(head.fields);
  if (auto problem = take_connection_fields(options, head.minor_version, request, message_info)) {
    return problem;
  }
  if (message_info.framing.is_empty()) message_info.expects_continue = false;
  return std::nullopt;
}

std::optional<HeadError> accept_response(Head& head, std::string_view method, Response& response,
                                         Http1MessageInfo& message_info) {
  constexpr Fault fault = Fault::backend_protocol;
  ConnectionOptions options;
  if (auto problem = read_connection(head, fault, fault, options, message_info)) return problem;
  message_info.upgrades = head.minor_version == 1 && options.upgrade;

  const int status = head.status;
  const bool interim = status < 200;
  if (interim || status == 204) {
    if (message_info.framing.kind == Framing::Kind::chunked) {
      return HeadError{fault, "a response without a body has one"};
    }
    message_info.framing = {};
  } else if (method == "HEAD" || status == 304) {
    if (message_info.framing.kind == Framing::Kind::length)
      response.declared_length = message_info.framing.length;
    message_info.framing = {};
  } else if (message_info.framing.kind == Framing::Kind::none) {
    message_info.framing.kind = Framing::Kind::until_close;
    message_info.keep_alive = false;
  }

  response.status = status;
  response.reason_phrase = head.reason_phrase;
  response.fields = std::move(head.fields);
  response.fields.remove_if([&](const Field& field) {
    if (field.id == FieldId::upgrade) return status != 101 && status != 426;
    return is_of_connection(field.id) || field.id == FieldId::te || options.nominates(field.name());
  });
  return std::nullopt;
}

// ---- writing ----------------------------------------------------------------------------------

HeadWriter& HeadWriter::scratch() {
  thread_local HeadWriter writer;
  writer.at_ = writer.begin_.get();
  return writer;
}

void HeadWriter::grow(std::size_t wanted) {
  const auto used = static_cast<std::size_t>(at_ - begin_.get());
  const std::size_t size = std::max<std::size_t>(4096, 2 * (used + wanted));
  auto larger = std::make_unique<char[]>(size);
  if (used > 0) std::memcpy(larger.get(), begin_.get(), used);
  begin_ = std::move(larger);
  at_ = begin_.get() + used;
  end_ = begin_.get() + size;
}

HeadWriter& HeadWriter::operator<<(std::uint64_t number) {
  make_room(max_decimal_digits);
  at_ = put_number(at_, number);
  return *this;
}

void HeadWriter::chunk_size(std::size_t payload) {
  std::array<char, 18> line;
  *this << std::string_view(line.data(), write_chunk_size(line.data(), payload));
}

namespace {

void write_framing(HeadWriter& out, const Framing& framing) {
  if (framing.kind == Framing::Kind::length) {
    out << "content-length: " << framing.length << "\r\n";
  } else if (framing.kind == Framing::Kind::chunked) {
    out << "transfer-encoding: chunked\r\n";
  }
}

}  // namespace

void write_request_head(HeadWriter& out, const Request& request, const Framing& framing) {
  out << request.method << " " << request.path << " HTTP/1.1\r\n";
  out.field("host", authority_for_backend(request));
  for (const Field& field : request.fields) out.field(field.name(), field.value());
  write_framing(out, framing);
  if (!request.upgrade.empty()) {
    out << "connection: upgrade\r\n";
    out.field("upgrade", request.upgrade);
  } else if (request.wants_trailers) {
    out << "connection: te\r\nte: trailers\r\n";
  }
  out << "\r\n";
}

void write_response_head(HeadWriter& out, const Response& response, const Framing& framing,
                         bool close, int minor_version) {
  out << "HTTP/1.1 " << static_cast<std::uint64_t>(response.status) << " "
      << (response.reason_phrase.empty() ? phrase_of(response.status) : response.reason_phrase)
      << "\r\n";
  for (const Field& field : response.fields) out.field(field.name(), field.value());
  if (response.declared_length) {
    out << "content-length: " << *response.declared_length << "\r\n";
  } else {
    write_framing(out, framing);
  }
  if (response.status == 101) {
    out << "connection: upgrade\r\n";
  } else if (response.fields.has(FieldId::upgrade)) {
    out << (close ? "connection: upgrade, close\r\n" : "connection: upgrade\r\n");
  } else if (close) {
    out << "connection: close\r\n";
  } else if (minor_version == 0) {
    out << "connection: keep-alive\r\n";
  }
  out << "\r\n";
}

std::string_view frame_chunk(HeadWriter& out, const Chunk& chunk, std::string& storage) {
  constexpr std::string_view end_and_last_chunk = "\r\n0\r\n\r\n";
  const bool empty = chunk.bytes.empty();
  if (!empty) out.chunk_size(chunk.bytes.size());
  if (!chunk.last) return empty ? std::string_view() : end_and_last_chunk.substr(0, 2);
  if (chunk.trailers == nullptr) return empty ? end_and_last_chunk.substr(2) : end_and_last_chunk;
  storage = empty ? "0\r\n" : "\r\n0\r\n";
  for (const Field& field : *chunk.trailers) {
    storage.append(field.name()).append(": ").append(field.value()).append("\r\n");
  }
  return storage += "\r\n";
}

}  // namespace evenkeel
