#include "proxy/answer_key.h"

#include <algorithm>
#include <limits>

#include "evenkeel/base/decimal.h"
#include "evenkeel/base/path.h"
#include "evenkeel/http/credentials.h"
#include "evenkeel/http/media_type.h"
#include "evenkeel/inference/api_paths.h"
#include "proxy/mirror.h"

namespace evenkeel {
namespace {

/// Fields besides credentials by which servers choose the form of an answer. An answer that varies
/// by others is not kept.
constexpr std::string_view selecting_fields[] = {
    "origin",         "accept-encoding",     "accept-language",
    "anthropic-beta", "anthropic-version",   "openai-beta",
    "openai-project", "openai-organization", "inference-header-content-length"};

bool is_selecting(std::string_view name) {
  return std::ranges::any_of(selecting_fields, [name](std::string_view each) {
    return each.size() == name.size() && equals_ignore_case(each, name);
  });
}

/// True if the value of the field is part of the key.
bool is_of_key(const Field& field) {
  switch (field.id) {
    case FieldId::accept:
    case FieldId::content_encoding:
    case FieldId::content_type:
    case FieldId::cookie:
    case FieldId::x_body_compressed: return true;
    case FieldId::other: return is_selecting(field.name()) || holds_credential(field);
    default: return holds_credential(field);
  }
}

/// Calls `visit` for each item of a list in which commas separate, without blanks around it.
template <class Visit>
void each_item(std::string_view list, const Visit& visit) {
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    std::string_view item = list.substr(0, end);
    list.remove_prefix(std::min(end + 1, list.size()));
    const std::size_t begin = std::min(item.find_first_not_of(" \t"), item.size());
    item.remove_prefix(begin);
    item = item.substr(0, item.find_last_not_of(" \t") + 1);
    if (!item.empty()) visit(item);
  }
}

template <class Visit>
void each_cache_directive(const Fields& fields, const Visit& visit) {
  for (const Field& field : fields) {
    if (field.id == FieldId::other && equals_ignore_case(field.name(), "cache-control"))
      each_item(field.value(), visit);
  }
}

constexpr std::uint32_t max_seconds = std::numeric_limits<std::int32_t>::max();

/// RFC 9111, 1.2.2: more than fits is the most that does. Nothing: it is no number of seconds.
std::optional<std::uint32_t> delta_seconds(std::string_view text) {
  if (text.empty() || text.find_first_not_of("0123456789") != text.npos) return std::nullopt;
  return std::min(max_seconds, parse_number<std::uint32_t>(text).value_or(max_seconds));
}

/// The seconds of a directive such as `max-age=60`, which some write as `max-age="60"`. Values that
/// are no number are 0 (RFC 9111, 4.2.1).
std::optional<std::uint32_t> seconds_of_directive(const Fields& fields, std::string_view name) {
  std::optional<std::uint32_t> seconds;
  each_cache_directive(fields, [&](std::string_view directive) {
    const std::size_t sign = std::min(directive.find('='), directive.size());
    if (!equals_ignore_case(directive.substr(0, sign), name)) return;
    std::string_view value = directive.substr(std::min(sign + 1, directive.size()));
    const bool is_quoted = value.size() > 1 && value.front() == '"' && value.back() == '"';
    if (is_quoted) value = value.substr(1, value.size() - 2);
    seconds = std::min(seconds.value_or(max_seconds), delta_seconds(value).value_or(0));
  });
  return seconds;
}

/// True if the answer depends on no field that is not part of the key.
bool varies_by_key_only(const Fields& fields) {
  bool known = true;
  for (const Field& field : fields) {
    if (!equals_ignore_case(field.name(), "vary")) continue;
    each_item(field.value(), [&](std::string_view name) {
      const Field varied{.name_begin = name.data(),
                         .name_size = static_cast<std::uint16_t>(name.size()),
                         .id = field_id(name)};
      known = known && is_of_key(varied);
    });
  }
  return known;
}

bool is_embedding(const InferenceRequest& asked) {
  return asked.task == InferenceTask::embedding || asked.task == InferenceTask::rerank ||
         asked.task == InferenceTask::score;
}

/// What decides whether a text is the same each time.
struct Sampling {
  bool zero_temperature;
  bool has_seed;
  std::uint32_t choices;  // 0: not known

  /// Applies what the file changes. A default counts where the client may have given no value.
  void apply(const BodyConfig& body) {
    if (const auto found = body.defaults.find("n"); found != body.defaults.end() && choices == 1)
      choices = parse_number<std::uint32_t>(found->second).value_or(0);
    for (const auto& [name, json] : body.set) {
      if (name == "n") choices = parse_number<std::uint32_t>(json).value_or(0);
      if (name == "seed") has_seed = parse_number<std::uint64_t>(json).has_value();
      if (name == "temperature") zero_temperature = json == "0" || json == "0.0";
    }
  }
};

/// True for a text that is the same each time, as far as its engine can make it so.
bool is_deterministic(const InferenceInfo& info, const BodyConfig& of_route,
                      const BodyConfig& of_pool) {
  const InferenceRequest& asked = info.request;
  if (asked.task != InferenceTask::chat && asked.task != InferenceTask::completion) return false;
  Sampling sampling{.zero_temperature = asked.zero_temperature,
                    .has_seed = asked.has_seed,
                    .choices = asked.choices};
  if (!info.places.max_tokens_name.empty()) {  // else its API is none whose bodies are changed
    sampling.apply(of_route);
    sampling.apply(of_pool);
  }
  return sampling.has_seed || (sampling.zero_temperature && sampling.choices == 1);
}

template <class Visit>
bool each_piece_once(Body& body, const Visit& visit) {
  while (true) {
    auto next = body.read();
    if (!next.ready()) return false;
    const auto chunk = next.take();
    if (!chunk || chunk->trailers != nullptr) return false;
    visit(chunk->bytes);
    if (chunk->last) return true;
  }
}

/// Calls `visit` for each piece of the body, which is then at its start again. False: it cannot be
/// read, or is more than its bytes.
template <class Visit>
bool each_piece(Body& body, const Visit& visit) {
  const bool is_whole = each_piece_once(body, visit);
  return body.rewind() && is_whole;
}

template <class Writer>
void write_owner(Writer& key, const RequestIdentity& identity) {
  const RequestTenant& tenant = identity.tenant;
  key.number(tenant.number);
  key.text(tenant.name);
  key.text(tenant.key == nullptr ? std::string_view() : tenant.key->id);
  key.text(tenant.key == nullptr ? std::string_view() : tenant.key->name);
  key.text(identity.certificate_hash);
}

template <class Writer>
void write_rules(Writer& key, const BodyConfig& body) {
  for (const JsonMembers* const members : {&body.defaults, &body.set}) {
    key.number(members->size());
    for (const auto& [name, json] : *members) {
      key.text(name);
      key.text(json);
    }
  }
  key.number(body.max_tokens);
}

/// True for a request whose answer the server keeps for those to come.
bool is_of_responses(std::string_view target) {
  std::string storage;
  const auto path = normalised_path(target, storage);
  if (!path) return true;  // its server may read it as it likes
  std::string decoded;
  const ApiPath* const api = api_path_of(with_decoded_slashes(*path, decoded));
  return api != nullptr && api->api == InferenceApi::openai_responses;
}

}  // namespace

/// Both hashes of a key.
class AnswerKeys::Writer {
 public:
  explicit Writer(const AnswerCache::Seeds& seeds) : first_(seeds[0]), second_(seeds[1]) {}

  void text(std::string_view text) {
    const std::uint64_t size = text.size();
    put({reinterpret_cast<const char*>(&size), sizeof size});
    put(text);
  }
  void number(std::uint64_t number) {
    text({reinterpret_cast<const char*>(&number), sizeof number});
  }
  void body(std::string_view bytes) {
    flush();
    add(bytes);
    body_bytes_ += bytes.size();
  }
  AnswerKey key() {
    flush();
    return {.first = first_.value(), .second = second_.value(), .body_bytes = body_bytes_};
  }

 private:
  /// Gathers short texts: each one that is hashed by itself costs more than its bytes.
  void put(std::string_view bytes) {
    if (bytes.size() > gathered_.size() - size_) flush();
    if (bytes.size() > gathered_.size()) return add(bytes);
    std::copy(bytes.begin(), bytes.end(), gathered_.begin() + static_cast<std::ptrdiff_t>(size_));
    size_ += bytes.size();
  }
  void flush() { add({gathered_.data(), std::exchange(size_, 0)}); }
  void add(std::string_view bytes) {
    first_.add(bytes);
    second_.add(bytes);
  }

  WideHasher first_;
  WideHasher second_;
  std::array<char, 1024> gathered_;  // NOLINT(*-member-init): written before it is read
  std::size_t size_ = 0;             // of what is gathered
  std::uint64_t body_bytes_ = 0;
};

ReuseRules::ReuseRules(const PoolConfig& pool) : coalesce(pool.coalesce), body(pool.body) {
  if (!pool.cache) return;
  for (const CachedRequests each : pool.cache->requests) {
    keeps_embeddings |= each == CachedRequests::embeddings;
    keeps_deterministic |= each == CachedRequests::deterministic;
  }
}

bool ReuseRules::may_keep(const InferenceInfo& info, const BodyConfig& of_route) const {
  return (keeps_embeddings && is_embedding(info.request)) ||
         (keeps_deterministic && is_deterministic(info, of_route, body));
}

bool ReuseRules::may_coalesce(const InferenceInfo& info, const BodyConfig& of_route) const {
  switch (coalesce) {
    case CoalesceRule::off: return false;
    case CoalesceRule::deterministic:
      return is_embedding(info.request) || is_deterministic(info, of_route, body);
    case CoalesceRule::all: return info.request.task != InferenceTask::other;
  }
  return false;
}

bool is_repeatable(const Request& request) {
  const RequestInfo& info = request.info;
  if (info.inference == nullptr || request.body == nullptr || request.method != "POST")
    return false;
  const InferenceRequest& asked = info.inference->request;
  const bool is_plain = request.upgrade.empty() && !info.outcome.grpc_status &&
                        !info.identity.is_streaming && info.identity.asker == Asker::none;
  const bool is_whole = asked.complete && request.body->rewindable();
  // The server keeps what such an answer stands for, or changes by such a request.
  const bool goes_on = !asked.previous_response.empty() || !asked.conversation_id.empty() ||
                       asked.starts_sequence ||
                       (asked.task == InferenceTask::infer && !asked.session.empty());
  return is_plain && is_whole && !goes_on && !is_of_responses(request.path);
}

std::string_view AnswerKeys::served_model(std::string_view asked) const {
  if (pool_.model_names.empty()) return pool_.model;
  const auto found = pool_.model_names.find(std::string(asked));
  return found == pool_.model_names.end() ? pool_.model : found->second;
}

void AnswerKeys::write_head(Writer& key, const Request& request, const BodyConfig& of_route) const {
  const RequestIdentity& identity = request.info.identity;
  write_owner(key, identity);
  key.text(pool_.name);
  key.text(served_model(request.info.inference->request.model));
  write_rules(key, pool_.body);
  key.text(identity.route);
  write_rules(key, of_route);
  key.number(identity.tenant.max_tokens);
  key.text(identity.subset == 0 ? std::string_view() : subsets_[identity.subset - 1]);
  key.text(request.method);
  key.text(request.authority);
  key.text(request.path);
  for (const Field& field : request.fields) {
    if (!is_of_key(field)) continue;
    key.text(field.name());
    key.text(field.value());
  }
  key.text({});
}

std::optional<AnswerKey> AnswerKeys::key_of(Request& request, const BodyConfig& of_route) const {
  Writer key(seeds_);
  write_head(key, request, of_route);
  if (!each_piece(*request.body, [&](std::string_view bytes) { key.body(bytes); }))
    return std::nullopt;
  return key.key();
}

AnswerKey AnswerKeys::key_of(const Request& request, const BodyConfig& of_route,
                             const BatchBody& body) const {
  Writer key(seeds_);
  write_head(key, request, of_route);
  key.number(static_cast<std::uint64_t>(request.info.identity.priority));
  const Field* const mark = request.fields.find(MirrorFilter::mark);
  key.text(mark == nullptr ? std::string_view() : mark->value());
  body.each_common_part([&](std::string_view part) { key.text(part); });
  return key.key();
}

std::vector<std::string> subset_names(const PoolState& pool) {
  std::vector<std::string> names;
  for (const Subset& subset : pool.backend_set().subsets()) names.push_back(subset.name());
  return names;
}

std::optional<std::string> read_whole(Body& body) {
  std::string bytes;
  bytes.reserve(body.length().value_or(0));
  if (!each_piece(body, [&](std::string_view piece) { bytes += piece; })) return std::nullopt;
  return bytes;
}

bool has_cache_directive(const Fields& fields, std::string_view directive) {
  bool found = false;
  each_cache_directive(fields, [&](std::string_view each) {
    found = found || equals_ignore_case(each.substr(0, each.find('=')), directive);
  });
  return found;
}

std::optional<Lifetime> lifetime_of(const Response& response, const CacheConfig& cache) {
  const Fields& fields = response.fields;
  const bool is_for_one = has_cache_directive(fields, "no-store") ||
                          has_cache_directive(fields, "private") ||
                          fields.find("set-cookie") != nullptr;
  // Servers send it with every stream of events.
  const bool is_for_once =
      has_cache_directive(fields, "no-cache") &&
      !is_media_type(fields.value(FieldId::content_type).value_or(""), "text/event-stream");
  if (response.status != 200 || response.body == nullptr || is_for_one || is_for_once ||
      !varies_by_key_only(fields))
    return std::nullopt;
  const auto shared = seconds_of_directive(fields, "s-maxage");
  const auto seconds = shared ? shared : seconds_of_directive(fields, "max-age");
  const bool ends_on_time = shared || has_cache_directive(fields, "must-revalidate") ||
                            has_cache_directive(fields, "proxy-revalidate");
  const std::chrono::seconds age(delta_seconds(fields.value("age").value_or("")).value_or(0));
  Lifetime lifetime{.fresh = cache.ttl,
                    .stale = ends_on_time ? Duration{} : Duration(cache.stale_if_error),
                    .age = age};
  if (seconds) lifetime.fresh = std::min<Duration>(cache.ttl, std::chrono::seconds(*seconds) - age);
  return lifetime.fresh > Duration{} ? std::optional(lifetime) : std::nullopt;
}

}  // namespace evenkeel
