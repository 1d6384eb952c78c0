// The heads of requests and responses as ext_proc has them, and what it is told of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "epp/messages.h"
#include "evenkeel/base/result.h"
#include "evenkeel/config/config.h"
#include "evenkeel/http/message.h"

namespace evenkeel {

// Names of the Endpoint Picker Protocol: of fields of heads, and of metadata.
inline constexpr std::string_view endpoint_field = "x-gateway-destination-endpoint";
inline constexpr std::string_view subset_field = "x-gateway-destination-endpoint-subset";
inline constexpr std::string_view served_field = "x-gateway-destination-endpoint-served";

/// The value of the first header of that name, which is in lower case.
std::optional<std::string_view> find_header(const ext_proc::HeaderMap& head, std::string_view name);
/// The length that the head announces.
std::optional<std::uint64_t> content_length_of(const ext_proc::HeaderMap& head);

/// True if the head has more fields or bytes.
bool is_larger(const ext_proc::HeaderMap& head, std::size_t fields, std::size_t bytes);

/// Fills in the head of a request with views of the message, which outlives it. An error: it is the
/// head of none, or has fields that no message may have.
Result<Done> read_request_head(const ext_proc::HeaderMap& head, Request& request);
/// The same for a response. `status` 0: the head has none.
Response read_response_head(const ext_proc::HeaderMap& head);

/// Reads the fields that llm-d and gateways have names of their own for as those that evenkeel
/// reads, and removes those that only pickers set. `trusted`: the data plane is one of the
/// listener's trusted proxies; otherwise what only gateways set is removed, too.
void read_gateway_fields(Request& request, bool trusted);
/// True if the address is of one of the listener's trusted proxies.
bool is_trusted(const ListenerConfig& listener, std::string_view address);

/// Which differences a data plane is told.
enum class Changes : std::uint8_t {
  all,
  of_head,  ///< only those that say nothing of the body
};
/// Writes what has become of the fields of a head, but for those that belong to the data plane.
void write_changes(const ext_proc::HeaderMap& before, const Fields& now, Changes which,
                   ext_proc::HeaderMutation& changes);
/// Writes what has become of the announced length; `now` nothing: it is not known.
void write_length(const ext_proc::HeaderMap& before, std::optional<std::uint64_t> now,
                  ext_proc::HeaderMutation& changes);
/// Replaces a header.
void set_header(ext_proc::HeaderMutation& changes, std::string_view name, std::string_view value);

/// A text of metadata, or the texts of a list with commas between them.
std::optional<std::string> find_metadata(const ext_proc::Metadata& metadata, const char* space,
                                         std::string_view name);
/// Metadata with one text.
void set_metadata(ext_proc::Struct& metadata, const char* space, std::string_view name,
                  std::string_view value);

}  // namespace evenkeel
