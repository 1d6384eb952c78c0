#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/node.h"
#include "evenkeel/config/config.h"
#include "evenkeel/config/tree.h"

// A form is one way to write a kind of value, e.g. "a duration within these bounds". It knows
//   Value     the type it becomes,
//   shape     what it looks like in YAML,
//   read      how to read it; reports what is wrong and then leaves the value alone,
//   tree      how to write it; given a default, parts that equal it may be left out,
//   schema    its JSON Schema,
//   type      its name in the reference, and `range` its bounds there ("" if none),
//   document  the keys inside it, if it has any.
// Fields (fields.h) put forms to keys; all that is read, checked, printed and documented follows.
// Here are the forms of scalars; compound_forms.h has lists, mappings and structs.
namespace evenkeel::config_file {

// A line of the reference.
struct ReferenceRow {
  std::string path;
  std::string type;
  std::string default_text;
  std::string range;
  std::string doc;
};
using ReferenceRows = std::vector<ReferenceRow>;

// Why a form rejects a value, and what to write instead.
struct ValidationError {
  std::string message;
  std::string help;
};

// The schema of a text that matches the pattern, or that has a ${VARIABLE}.
Tree text_schema(std::string pattern);
// The schema with a text that has a ${VARIABLE}, which a value of another type may come from.
Tree or_environment(Tree schema);

// A form whose values have no keys inside.
struct ScalarForm {
  static constexpr Shape shape = Shape::scalar;
  void add_reference_rows(ReferenceRows&, const std::string&) const {}
  std::string range() const { return {}; }
};

// "30s", "500ms", "1.5h".
struct DurationForm : ScalarForm {
  using Value = milliseconds;
  milliseconds min{1};
  milliseconds max = std::chrono::hours{24};
  std::string_view usual_unit = "s";   // what a number without a unit probably means
  std::string_view instead_of_zero{};  // what to write if it is not to happen; empty: nothing

  DurationForm(milliseconds min_value, milliseconds max_value, std::string_view unit = "s",
               std::string_view zero_help = {})
      : min(min_value), max(max_value), usual_unit(unit), instead_of_zero(zero_help) {}
  DurationForm() = default;

  void read(const Node& node, Value& value) const;
  Tree tree(const Value& value, const Value* omit) const;
  Tree schema() const;
  std::string type() const { return "duration"; }
  std::string range() const;
};

// "512B", "32KiB", "1.5GiB".
struct SizeForm : ScalarForm {
  using Value = std::uint64_t;
  std::uint64_t min;
  std::uint64_t max;

  SizeForm(std::uint64_t min_value, std::uint64_t max_value) : min(min_value), max(max_value) {}

  void read(const Node& node, Value& value) const;
  Tree tree(const Value& value, const Value* omit) const;
  Tree schema() const;
  std::string type() const { return "size"; }
  std::string range() const;
};

// A whole number. Value is any unsigned or signed integer of at most 32 bits.
struct WholeNumber {
  std::int64_t min;
  std::int64_t max;

  std::optional<std::int64_t> read(const Node& node) const;
  Tree schema() const;
  std::string range() const;
};

template <class Integer>
struct IntegerForm : ScalarForm {
  using Value = Integer;
  WholeNumber number;

  IntegerForm(std::int64_t min, std::int64_t max) : number{min, max} {}

  void read(const Node& node, Value& value) const {
    if (const auto read_value = number.read(node)) value = static_cast<Integer>(*read_value);
  }
  Tree tree(const Value& value, const Value*) const { return Tree::raw(std::to_string(value)); }
  Tree schema() const { return number.schema(); }
  std::string type() const { return "whole number"; }
  std::string range() const { return number.range(); }
};

using CountForm = IntegerForm<std::uint32_t>;

// "redis://127.0.0.1:6379/0".
struct RedisAddressForm : ScalarForm {
  using Value = RedisAddress;

  void read(const Node& node, Value& value) const;
  Tree tree(const Value& value, const Value*) const { return Tree::text(to_string(value)); }
  Tree schema() const;
  std::string type() const { return "URL"; }
};

// "600/min", "5M/day"; of money "500/month", "2.5/day".
struct RateForm : ScalarForm {
  using Value = LimitRate;
  bool is_money = false;  // counted in millionths

  void read(const Node& node, Value& value) const;
  Tree tree(const Value& value, const Value*) const;
  Tree schema() const;
  std::string type() const { return "rate"; }
};

struct RatioForm : ScalarForm {
  using Value = double;
  double min;
  double max;

  RatioForm(double min_value, double max_value) : min(min_value), max(max_value) {}

  void read(const Node& node, Value& value) const;
  Tree tree(const Value& value, const Value* omit) const;
  Tree schema() const;
  std::string type() const { return "number"; }
  std::string range() const;
};

// "20%", or 0.2.
struct PercentForm : ScalarForm {
  using Value = double;
  double min;
  double max;

  PercentForm(double min_value, double max_value) : min(min_value), max(max_value) {}

  void read(const Node& node, Value& value) const;
  Tree tree(const Value& value, const Value* omit) const;
  Tree schema() const;
  std::string type() const { return "percentage"; }
  std::string range() const;
};

// "25ms..250ms".
struct BackoffForm : ScalarForm {
  using Value = BackoffRange;

  void read(const Node& node, Value& value) const;
  Tree tree(const Value& value, const Value* omit) const;
  Tree schema() const;
  std::string type() const { return "range of durations"; }
};

struct FlagForm : ScalarForm {
  using Value = bool;

  void read(const Node& node, Value& value) const;
  Tree tree(const Value& value, const Value*) const { return Tree::raw(value ? "true" : "false"); }
  Tree schema() const;
  std::string type() const { return "true or false"; }
};

// Text that `check` may reject or normalise.
struct TextForm : ScalarForm {
  using Value = std::string;
  using Check = std::optional<ValidationError> (*)(std::string& value);

  std::string_view what;       // "a name"
  Check check;                 // may be null
  std::string_view pattern{};  // a regular expression for the schema, no stricter than `check`

  constexpr explicit TextForm(std::string_view what_it_is, Check check_it = nullptr,
                              std::string_view schema_pattern = {})
      : what(what_it_is), check(check_it), pattern(schema_pattern) {}

  void read(const Node& node, Value& value) const;
  // An empty text is the default and is never written.
  Tree tree(const Value& value, const Value*) const {
    return value.empty() ? Tree{} : Tree::text(value);
  }
  Tree schema() const;
  std::string type() const { return "text"; }
};

// Text that no message shows.
struct SecretForm : TextForm {
  using TextForm::TextForm;
  void read(const Node& node, Value& value) const;
};

// The path of a file with a secret, which some write in place of the path.
struct SecretFileForm : SecretForm {
  SecretFileForm();
};

// The SHA-256 of a key, which some write in place of it.
struct KeyHashForm : TextForm {
  KeyHashForm();
  void read(const Node& node, Value& value) const;
};

// A choice of a few words.
struct Words {
  std::string_view what;  // "picker"
  std::vector<std::string_view> names;

  std::optional<std::size_t> read(const Node& node) const;
  Tree schema() const;
  std::string range() const;
};

struct ChoiceForm : ScalarForm {
  using Value = std::string;
  Words words;

  // The texts of `names` outlive the form.
  ChoiceForm(std::string_view what, const std::vector<std::string>& names)
      : words{what, {names.begin(), names.end()}} {}

  void read(const Node& node, Value& value) const {
    if (const auto index = words.read(node)) value = words.names[*index];
  }
  // An empty text is the default and is never written.
  Tree tree(const Value& value, const Value*) const {
    return value.empty() ? Tree{} : Tree::text(value);
  }
  Tree schema() const { return words.schema(); }
  std::string type() const { return "word"; }
  std::string range() const { return words.range(); }
};

// The names of an enumeration's values, in the order of the values.
template <class Enum>
struct EnumForm : ScalarForm {
  using Value = Enum;
  Words words;

  EnumForm(std::string_view what, std::initializer_list<std::string_view> names)
      : words{what, names} {}
  EnumForm(std::string_view what, std::span<const std::string_view> names)
      : words{what, {names.begin(), names.end()}} {}

  void read(const Node& node, Value& value) const {
    if (const auto index = words.read(node)) value = static_cast<Enum>(*index);
  }
  Tree tree(const Value& value, const Value*) const {
    return Tree::text(std::string{words.names[static_cast<std::size_t>(value)]});
  }
  Tree schema() const { return words.schema(); }
  std::string type() const { return "word"; }
  std::string range() const { return words.range(); }
};

// An address to listen on, or of a backend.
struct AddressForm : ScalarForm {
  using Value = Address;
  using Parse = std::optional<Address> (*)(std::string_view text, std::string& why);

  Parse parse;
  std::string_view what;     // "an address such as 0.0.0.0:8080"
  std::string_view example;  // host and ':' to put before a bare port
  std::string_view port;     // ':' and port to put after a bare host

  void read(const Node& node, Value& value) const;
  Tree tree(const Value& value, const Value*) const { return Tree::text(written(value)); }
  Tree schema() const;
  std::string type() const { return "address"; }

  // What was probably meant; empty: unknown.
  std::string help_for(const std::string& text) const;

  static std::string written(const Address& address) {
    std::string text = (address.secure ? "https://" : "") + to_string(address);
    if (address.host.ends_with('.')) text.insert(text.rfind(':'), ".");  // it is resolved with it
    return text;
  }
};

AddressForm listen_address();
AddressForm backend_address();
AddressForm name_server_address();

struct NetworkForm : ScalarForm {
  using Value = Network;

  void read(const Node& node, Value& value) const;
  Tree tree(const Value& value, const Value*) const { return Tree::text(value.text); }
  Tree schema() const;
  std::string type() const { return "network"; }
};

// "auto" (0) or how many.
struct WorkersForm : ScalarForm {
  using Value = unsigned;

  void read(const Node& node, Value& value) const;
  Tree tree(const Value& value, const Value*) const;
  Tree schema() const;
  std::string type() const { return "auto or whole number"; }
  std::string range() const { return number.range(); }

  static constexpr WholeNumber number{1, 1024};
};

// "auto", "off", "512MiB" or "80%".
struct MemoryLimitForm : ScalarForm {
  using Value = MemoryLimit;

  void read(const Node& node, Value& value) const;
  Tree tree(const Value& value, const Value*) const;
  Tree schema() const;
  std::string type() const { return "`auto`, `off`, size or percentage"; }
  std::string range() const { return size.range(); }

  static inline const SizeForm size{std::uint64_t{32} << 20, std::uint64_t{1} << 50};
};

// Units of bounds.
inline constexpr std::uint64_t KiB = 1024;
inline constexpr std::uint64_t MiB = 1024 * KiB;
inline constexpr std::uint64_t TiB = MiB * MiB;
inline constexpr std::int64_t million = 1'000'000;

// Checks for TextForm.
std::optional<ValidationError> check_name(std::string& value);
// Lower-case letters, digits, '.', '_', '-': what a metric label and a URL take unquoted.
inline constexpr std::string_view name_pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$";
std::optional<ValidationError> check_not_empty(std::string& value);
// What a header field may have as its value.
std::optional<ValidationError> check_field_value(std::string& value);
std::optional<ValidationError> check_sha256(std::string& value);
inline constexpr std::string_view sha256_pattern = "^[0-9A-Fa-f]{64}$";
// A name in a certificate: of DNS, or a URI, which may end in `/*`.
std::optional<ValidationError> check_certificate_name(std::string& value);
// What is put into bodies for a tenant. The message does not show it.
std::optional<ValidationError> check_cache_salt(std::string& value);
std::optional<ValidationError> check_header_name(std::string& value);
// A media type without parameters whose responses may be compressed, or `text/*` and the like.
std::optional<ValidationError> check_compressed_type(std::string& value);
// A media type, perhaps with parameters.
std::optional<ValidationError> check_content_type(std::string& value);
// A URL, which gets OTLP's path for traces if it has none; or off.
std::optional<ValidationError> check_collector(std::string& value);
// The field that carries the key of a backend: `authorization` is the empty text.
std::optional<ValidationError> check_key_field(std::string& value);
std::optional<ValidationError> check_method(std::string& value);
// What names a session: agent-session, response-id, header:NAME, cookie, cookie:NAME, session_id or
// sequence_id.
std::optional<ValidationError> check_session_source(std::string& value);
// What backends get as Host: backend, client, or a host and perhaps its port.
std::optional<ValidationError> check_backend_host(std::string& value);
std::optional<ValidationError> check_host_pattern(std::string& value);
std::optional<ValidationError> check_path_pattern(std::string& value);
std::optional<ValidationError> check_path_regex(std::string& value);
std::optional<ValidationError> check_regex(std::string& value);
// A path without wildcards and without a final slash, brought to its normal form.
std::optional<ValidationError> check_path_prefix(std::string& value);
// A URL or a path that clients are sent to; `/**` at its end, and `$host` in it.
std::optional<ValidationError> check_redirect(std::string& value);
// The name of a field that routes may set, add or remove.
std::optional<ValidationError> check_edited_field(std::string& value);
// The value of a field, with $NAME for what is known of a request, or also of its answer.
std::optional<ValidationError> check_request_value(std::string& value);
std::optional<ValidationError> check_response_value(std::string& value);
std::optional<ValidationError> check_origin(std::string& value);
std::optional<ValidationError> check_grpc_name(std::string& value);
std::optional<ValidationError> check_model_name(std::string& value);
// What each has limits of its own: tenant, key, model, address or header:NAME.
std::optional<ValidationError> check_records_path(std::string& value);
// A path and query with \1 for groups.
std::optional<ValidationError> check_rewrite_target(std::string& value);
std::optional<ValidationError> check_key_set(std::string& value);
std::optional<ValidationError> check_limit_subject(std::string& value);
std::optional<ValidationError> check_task(std::string& value);
// The format of lines of the access log, or a template of it.
std::optional<ValidationError> check_access_log_format(std::string& value);
std::optional<ValidationError> check_access_log_path(std::string& value);
std::optional<ValidationError> check_access_log_field(std::string& value);
std::optional<ValidationError> check_plain_path(std::string& value);
std::optional<ValidationError> check_namespaced_name(std::string& value);
std::optional<ValidationError> check_url(std::string& value);

// Texts that several keys hold.
inline constexpr TextForm plain_name{"a name", check_name, name_pattern};
inline constexpr TextForm pool_name{"the name of a pool", check_not_empty};
inline constexpr TextForm file_path{"the path of a file", check_not_empty};
inline constexpr TextForm header_name{"the name of a header field", check_header_name};
inline constexpr TextForm plain_path{"a path", check_plain_path, "^/"};
inline constexpr TextForm namespaced_name{"a namespace and a name", check_namespaced_name,
                                          "^[^/]+/[^/]+$"};
inline constexpr TextForm url{"a URL", check_url, "^https?://|\\$\\{"};

}  // namespace evenkeel::config_file
