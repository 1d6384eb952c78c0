#pragma once

#include <chrono>
#include <string_view>

#include "config/compound_forms.h"
#include "config/forms.h"
#include "config/listener_fields.h"
#include "config/pool_fields.h"

// The field table: every key of the file, with its form (type, range), its member (whose
// initialiser in config.h is the default) and its sentence. The readers, the printer, the JSON
// Schema and docs/configuration.md all come from here. The largest structs have files of their own.
namespace evenkeel::config_file {

using namespace std::chrono_literals;

// The price of a million tokens.
inline const RatioForm token_price{0, 100'000};

inline OptionalForm<EnumForm<Priority>> priority_form() {
  return {{"priority", {"interactive", "standard", "batch"}}};
}

void each_key(Of<TokenBounds>, const auto& visit) {
  visit(Key{"min", "The least number of tokens."}, &TokenBounds::min, CountForm{0, 1'000'000'000});
  visit(Key{"max", "The greatest number of tokens; 0: no bound."}, &TokenBounds::max,
        CountForm{0, 1'000'000'000});
}

inline void finish(Of<TokenBounds>, Node& node, TokenBounds& range) {
  if (range.max != 0 && range.max < range.min) node.fail("'max' is below 'min'");
}

void each_condition_on_heads(const auto& visit) {
  using T = RouteMatch;
  visit(Key{"host",
            "Host name of the request, without port: `api.example.com`, or `*.example.com` for "
            "every name below. Letter case and a final dot make no difference.",
            "any"},
        &T::host, TextForm{"a host name", check_host_pattern});
  visit(Key{"path",
            "Path of the request: `*` matches one segment, `**` at the end matches any rest, "
            "including none; without them exactly this path matches. Paths are compared without "
            "dot segments and repeated slashes, and `%7E` is `~`.",
            "any"},
        &T::path, TextForm{"a path", check_path_pattern, "^/"});
  visit(Key{"path_regex",
            "Regular expression of RE2 that matches all of the path, as `path` compares it: "
            "`/v[12]/(chat|embeddings)/.*`.",
            "any"},
        &T::path_regex, TextForm{"a regular expression", check_path_regex});
  visit(
      Key{"header", "Header fields that the request must have, with exactly these values.", "any"},
      &T::header, TextMapForm{"a mapping of header fields to values", check_header_name});
  visit(Key{"query",
            "Parameters that the query must have: `{tier: gold}`. In values `*` stands for any "
            "text, so `{tier: \"*\"}` asks for the parameter alone. Compared decoded.",
            "any"},
        &T::query, TextMapForm{"a mapping of parameters to values", check_not_empty});
  visit(
      Key{"method", "Methods, such as `POST` or `[GET, HEAD]`.", "any"}, &T::method,
      TextOrListForm{{TextForm{"a method", check_method}, "a method or a list of methods", false}});
  visit(Key{"grpc",
            "gRPC calls of a service (`inference.GRPCInferenceService`), of a method "
            "(`grpc.health.v1.Health/Check`), or of a list of these.",
            "any"},
        &T::grpc,
        TextOrListForm{{TextForm{"a gRPC service", check_grpc_name},
                        "a gRPC service or a list of gRPC services", false}});
  visit(Key{"client",
            "Networks or addresses of clients, as the `trusted_proxies` of the listener name them.",
            "any"},
        &T::client, OneOrListForm<NetworkForm>{{{}, "a network or a list of networks", false}});
  visit(Key{"listener", "Listeners that the request came in by, by name.", "any"}, &T::listener,
        TextOrListForm{{TextForm{"the name of a listener", check_not_empty},
                        "a name of a listener or a list of names", false}});
}

// The conditions in `not`.
struct Exclusion;
void each_key(Of<Exclusion>, const auto& visit) { each_condition_on_heads(visit); }

inline void finish(Of<Exclusion>, Node& node, RouteMatch& match) {
  if (match == RouteMatch{}) node.fail("has no condition, so that no request would match");
}

void each_key(Of<RouteMatch>, const auto& visit) {
  using T = RouteMatch;
  each_condition_on_heads(visit);
  visit(
      Key{"not",
          "Requests that do not match: those that meet all of these conditions, or all conditions "
          "of one mapping of a list.",
          "none"},
      &T::none_of,
      MapOrListForm<StructForm<RouteMatch, Exclusion>>{
          {{}, "a mapping of conditions or a list of mappings", false}});
  visit(Key{"model",
            "Names of models, in which `*` stands for any text: `llama-*`, and `\\*` for a star. "
            "This and the following keys are about the body of a request, which is read before the "
            "route is chosen.",
            "any"},
        &T::model,
        TextOrListForm{{TextForm{"the name of a model", check_model_name},
                        "a name of a model or a list of names", false}});
  visit(Key{"task",
            "What the model is to do: `chat`, `completion`, `embedding`, `rerank`, `score`, "
            "`audio` or `infer` (KServe).",
            "any"},
        &T::task,
        TextOrListForm{{TextForm{"a task", check_task}, "a task or a list of tasks", false}});
  visit(Key{"prompt_tokens", "Length of the prompt in tokens, as estimated from its bytes.", "any"},
        &T::prompt_tokens, OptionalForm<StructForm<TokenBounds>>{});
  visit(Key{"max_tokens",
            "How many tokens the request lets the model generate; a request that does not say does "
            "not match.",
            "any"},
        &T::max_tokens, OptionalForm<StructForm<TokenBounds>>{});
}

void each_key(Of<StickyConfig>, const auto& visit) {
  visit(Key{"header", "Header field whose value names the conversation."}, &StickyConfig::header,
        header_name);
}

// Refuses what a client can make nothing of.
void finish(Of<RespondConfig>, Node& node, RespondConfig& response);

void each_key(Of<RespondConfig>, const auto& visit) {
  using T = RespondConfig;
  visit(Key{"status", "Its status."}, &T::status, IntegerForm<int>{200, 599});
  visit(Key{"body", "Its body.", "empty"}, &T::body, TextForm{"a text", check_not_empty});
  visit(Key{"content_type", "The type of the body."}, &T::content_type,
        TextForm{"a media type", check_field_value});
}

void finish(Of<RedirectConfig>, Node& node, RedirectConfig& redirect);

void each_key(Of<RedirectConfig>, const auto& visit) {
  using T = RedirectConfig;
  visit(Key{"to",
            "URL or path that clients are sent to: `https://new.example.org/v2`. At its end, `/**` "
            "stands for what the `/**` of `match.path` matched; `https://$host/**` is the same "
            "host and path over TLS. The query is kept, unless there is one here.",
            required},
        &T::to, TextForm{"a URL or a path", check_redirect, "^(/|https?://)"});
  visit(Key{"status", "301, 302, 303, 307 or 308. With 307 and 308 the method stays."}, &T::status,
        IntegerForm<int>{301, 308});
}

void finish(Of<RewriteConfig>, Node& node, RewriteConfig& rewrite);

void each_key(Of<RewriteConfig>, const auto& visit) {
  using T = RewriteConfig;
  visit(Key{"strip_prefix",
            "Segments removed from the beginning of the path: with `/team-a`, `/team-a/v1/models` "
            "becomes `/v1/models`. Other paths stay.",
            "this, `prefix` or `regex`"},
        &T::strip_prefix, TextForm{"a path", check_path_prefix, "^/"});
  visit(Key{"prefix", "Replaces what `match.path` has before its `/**`.",
            "this, `strip_prefix` or `regex`"},
        &T::prefix, TextForm{"a path", check_path_prefix, "^/"});
  visit(Key{"regex",
            "Regular expression of RE2: the first part of the path that it matches is replaced by "
            "`to`.",
            "this, `prefix` or `strip_prefix`"},
        &T::regex, TextForm{"a regular expression", check_regex});
  visit(Key{"to",
            "What `regex` is replaced by: `\\1` to `\\9` for its groups, `\\0` for all that it "
            "matches.",
            "required with `regex`"},
        &T::to, TextForm{"a path", check_rewrite_target});
}

// The keys of FieldEdits, in requests and in responses.
struct RequestEdits;
struct ResponseEdits;

void each_edit(TextForm::Check check_value, const auto& visit) {
  using T = FieldEdits;
  visit(Key{"set", "Fields and their values, in place of those that are there.", "none"}, &T::set,
        TextMapForm{"a mapping of header fields to values", check_edited_field, check_value});
  visit(Key{"add", "Fields and their values, beside those that are there.", "none"}, &T::add,
        TextMapForm{"a mapping of header fields to values", check_edited_field, check_value});
  visit(Key{"remove", "Names of fields.", "none"}, &T::remove,
        TextOrListForm{{TextForm{"the name of a header field", check_edited_field},
                        "a name or a list of names", false}});
}
void each_key(Of<RequestEdits>, const auto& visit) { each_edit(check_request_value, visit); }
void each_key(Of<ResponseEdits>, const auto& visit) { each_edit(check_response_value, visit); }

void finish(Of<CorsConfig>, Node& node, CorsConfig& cors);

void each_key(Of<CorsConfig>, const auto& visit) {
  using T = CorsConfig;
  visit(Key{"origins",
            "Origins of the pages: `https://chat.example.org`, `https://*.example.org` for all "
            "below it, or `\"*\"` for any.",
            required},
        &T::origins,
        TextOrListForm{
            {TextForm{"an origin", check_origin}, "an origin or a list of origins", false}});
  visit(
      Key{"methods", "Methods that pages may use.", "any"}, &T::methods,
      TextOrListForm{{TextForm{"a method", check_method}, "a method or a list of methods", false}});
  visit(Key{"headers", "Header fields that pages may set.", "any"}, &T::headers,
        TextOrListForm{{header_name, "a name or a list of names", false}});
  visit(Key{"credentials",
            "Whether pages may send cookies and client certificates. `authorization` that a script "
            "sets needs none of this."},
        &T::credentials, FlagForm{});
  visit(Key{"max_age", "How long browsers may keep the answer to a preflight. 0s: as they like."},
        &T::max_age, DurationForm{0ms, 24h});
}

void finish(Of<CanaryConfig>, Node& node, CanaryConfig& canary);

void each_key(Of<CanaryConfig>, const auto& visit) {
  using T = CanaryConfig;
  visit(Key{"target", "The target, as `split` names it.", required}, &T::target,
        TextForm{"the name of a target", check_not_empty});
  visit(Key{"error_rate",
            "The most of its requests that may fail: with a status of 5xx, without an answer or in "
            "the middle of one, or taken by the `fallback` of its pool.",
            "any share; this or `ttft` is required"},
        &T::error_rate, PercentForm{0.001, 1});
  visit(Key{"ttft",
            "Within what time 95 % of its first tokens must come; where bodies are not inspected, "
            "of its first bytes.",
            "any time"},
        &T::ttft, DurationForm{1ms, 1h});
  visit(Key{"window", "The time that is looked back over."}, &T::window, DurationForm{1s, 1h});
  visit(Key{"min_requests", "How many requests must have ended within it before it is judged."},
        &T::min_requests, CountForm{1, 10'000});
}

void each_key(Of<RouteTimeouts>, const auto& visit) {
  using T = RouteTimeouts;
  visit(Key{"first_byte",
            "From the end of a request to the first byte of its response. 0s: as in the "
            "pool.",
            "the pool's"},
        &T::first_byte, DurationForm{0ms, 24h});
  visit(Key{"idle", "Between two reads of a response. 0s: as in the pool.", "the pool's"}, &T::idle,
        DurationForm{0ms, 24h});
}

void each_key(Of<CompressionConfig>, const auto& visit) {
  using T = CompressionConfig;
  visit(Key{"codings",
            "`zstd` and `gzip`: of those that a client likes equally, it gets the first here.",
            "`[zstd, gzip]`"},
        &T::codings,
        OneOrListForm<EnumForm<ContentCoding>>{
            {{"coding", {"zstd", "gzip"}}, "a coding or a list of codings", false}});
  visit(Key{"types", "Media types of the responses: `application/json`, or `text/*` for a family.",
            "`[application/json, text/*]`"},
        &T::types,
        TextOrListForm{{TextForm{"a media type", check_compressed_type},
                        "a media type or a list of media types", false}});
  visit(Key{"min_size", "The least size of a response. One whose size is not known is compressed."},
        &T::min_bytes, SizeForm{0, std::uint64_t{1} << 30});
}

void each_key(Of<ErrorPageConfig>, const auto& visit) {
  using T = ErrorPageConfig;
  visit(Key{"status", "Statuses of the errors: `503`, or `[502, 503, 504]`.", required}, &T::status,
        OneOrListForm<IntegerForm<int>>{{{400, 599}, "a status or a list of statuses", false}});
  visit(Key{"file",
            "The file that clients get as it is, of 64 KiB at most. It is read at the start and at "
            "each reload.",
            required},
        &T::file, file_path);
  visit(Key{"content_type",
            "Its type. Clients get the page whose `accept` names the type, or its family, with a "
            "greater weight than that of the error."},
        &T::content_type, TextForm{"a media type", check_content_type});
}

void each_key(Of<MirrorConfig>, const auto& visit) {
  using T = MirrorConfig;
  visit(Key{"pool", "The pool that gets the copies.", required}, &T::pool, pool_name);
  visit(Key{"share", "The share of the requests that are copied: all of a conversation or none."},
        &T::share, PercentForm{0, 1});
}

// The default name of a route: "api.example.com/v1/**", or "api.example.com/package.Service/*" if
// it matches only gRPC.
std::string name_of(const RouteMatch& match);

// What a route answers itself, and what it changes.
void each_answer_and_change(const auto& visit) {
  using T = RouteConfig;
  visit(Key{"redirect",
            "Where evenkeel sends clients, such as `{to: \"https://new.example.org/**\"}`; no pool "
            "gets the requests.",
            "this, `pool`, `split` or `respond`"},
        &T::redirect, OptionalForm<StructForm<RedirectConfig>>{});
  visit(
      Key{"rewrite",
          "Another path for backends than the client's. Routes match the client's path; the query "
          "stays.",
          "none"},
      &T::rewrite, OptionalForm<StructForm<RewriteConfig>>{});
  visit(Key{"body",
            "What is changed in the JSON bodies of requests for text, before the `body` of the "
            "pool.",
            "nothing"},
        &T::body, StructForm<BodyConfig>{});
  visit(Key{"request_headers",
            "What is changed in the header fields that backends get. Values may have `$client`, "
            "`$tenant`, `$route` and the like.",
            "nothing"},
        &T::request_headers, StructForm<FieldEdits, RequestEdits>{});
  visit(Key{"response_headers",
            "What is changed in the header fields that clients get, from backends and from "
            "evenkeel itself.",
            "nothing"},
        &T::response_headers, StructForm<FieldEdits, ResponseEdits>{});
  visit(Key{"cors",
            "Which pages of other origins may use the route. evenkeel answers their preflights; "
            "backends' own answers to them are replaced.",
            "pages of any origin may read evenkeel's own answers"},
        &T::cors, OptionalForm<StructForm<CorsConfig>>{});
  visit(Key{"compression",
            "Which responses are compressed for clients that accept it: `{}` for all defaults. "
            "Event streams, lines of JSON, gRPC, and responses that backends have compressed never "
            "are.",
            "none"},
        &T::compression, OptionalForm<StructForm<CompressionConfig>>{});
  visit(Key{"error_pages",
            "Pages that people get instead of errors that evenkeel itself makes, such as "
            "`[{status: 503, file: /etc/evenkeel/sorry.html}]`. The first that has the status "
            "counts. Clients of APIs keep errors in their dialect.",
            "none"},
        &T::error_pages, ListForm<StructForm<ErrorPageConfig>>{{}, "a list of error pages"});
}

// Which of several pools gets a request, and which one a copy.
void each_choice_of_pools(const auto& visit) {
  using T = RouteConfig;
  visit(Key{"sticky",
            "What tells the conversation of a request to `split`: a header field, else, in an "
            "inspected body, the session that it names or the beginning of the prompt. Requests "
            "without any of these are spread at random."},
        &T::sticky, StructForm<StickyConfig>{});
  visit(Key{"canary",
            "The target of `split` that is on trial, such as `{target: v8, error_rate: 5%, ttft: "
            "2s}`. Once its answers leave these bounds, the other targets get its requests, until "
            "the split or this changes, or an operator begins again.",
            "none"},
        &T::canary, OptionalForm<StructForm<CanaryConfig>>{});
  visit(Key{"mirror",
            "The pool that gets copies of the requests, and whose answers are dropped: its name, "
            "or `{pool: NAME, share: 10%}`. It neither delays nor fails the requests themselves.",
            "none"},
        &T::mirror,
        MirrorForm{{{}, pool_name, "the name of a pool, or a mapping such as {pool: NAME}"}});
}

void each_key(Of<RouteConfig>, const auto& visit) {
  using T = RouteConfig;
  visit(Key{"name", "Its name in logs and metrics.", "host and path"}, &T::name,
        TextForm{"a name", check_not_empty});
  visit(
      Key{"match", "Conditions on the request; an absent condition matches every request.", "all"},
      &T::match, StructForm<RouteMatch>{});
  visit(Key{"pool", "The pool that gets the requests.", "this, `split`, `respond` or `redirect`"},
        &T::targets, SingleTargetForm{});
  visit(Key{"split",
            "Pools with their shares: `{stable: 95, canary: 5}`. With `pool`: backends of that "
            "pool, by their labels: `{version=v7: 95, version=v8: 5}`. The shares need not add up "
            "to 100. A conversation stays in its pool or version (`sticky`).",
            "this, `pool`, `respond` or `redirect`"},
        &T::targets, SplitForm{});
  visit(Key{"respond",
            "The response that evenkeel itself gives, such as `{status: 503, body: soon}`; no pool "
            "gets the requests.",
            "this, `pool`, `split` or `redirect`"},
        &T::respond, OptionalForm<StructForm<RespondConfig>>{});
  each_answer_and_change(visit);
  each_choice_of_pools(visit);
  visit(Key{"timeouts", "Instead of the pool's `timeouts`, for requests of this route.",
            "the pool's"},
        &T::timeouts, StructForm<RouteTimeouts>{});
  visit(Key{"slo", "Instead of the pool's `slo`, for requests of this route.", "the pool's"},
        &T::slo, StructForm<SloConfig>{});
  visit(Key{"priority",
            "How urgent the requests are when they wait for a slot: requests may name a lower "
            "priority in their header field `x-priority`, not a higher one.",
            "`x-priority` of the request, else `standard`"},
        &T::priority, priority_form());
  visit(Key{"auth",
            "Whether requests need a credential: `required`; `optional`: one that is sent must "
            "count; `off`: none is looked at. Needs `auth` in the file.",
            "`required`"},
        &T::auth, OptionalForm<EnumForm<AuthRule>>{{"rule", {"off", "optional", "required"}}});
  visit(Key{"retry",
            "Instead of the pool's `retry`, for requests of this route; absent keys have their "
            "defaults. The budget stays the pool's.",
            "the pool's"},
        &T::retry, OptionalForm<StructForm<RetryRules>>{});
  visit(Key{"model_list",
            "What answers `GET /v1/models` and `GET /v1/models/ID` of this route. `merged`: "
            "evenkeel, with the models of all pools that requests of the same host and fields can "
            "reach. `forward`: a backend. `auto`: `merged` if there are several such pools, else "
            "`forward`."},
        &T::model_list, EnumForm<ModelListRule>{"model list", {"auto", "merged", "forward"}});
}

void finish(Of<RouteConfig>, Node& node, RouteConfig& route);
inline void derive(Of<RouteConfig>, RouteConfig& defaults, const RouteConfig& route) {
  defaults.name = name_of(route.match);
}
void extend_schema(Of<RouteConfig>, Tree& schema);

void each_key(Of<AccessLogConfig>, const auto& visit) {
  using T = AccessLogConfig;
  visit(Key{"path",
            "`stdout`, `stderr`, `off`, a file, which SIGUSR1 reopens, or `syslog`: the local "
            "syslog or journal at `/dev/log`; `syslog:PATH`: at another socket."},
        &T::path, TextForm{"stdout, stderr, syslog, off or a file", check_access_log_path});
  visit(Key{"format",
            "The format of a line: `json`, `logfmt`, `combined` (that of Apache and nginx), or a "
            "template with `$FIELD`, such as `$client \"$request\" $status`; `$${FIELD}` where a "
            "letter follows."},
        &T::format,
        TextForm{"json, logfmt, combined or a template", check_access_log_format,
                 "^(json|logfmt|combined)$|\\$"});
  visit(Key{"fields",
            "The fields of a line of `json` or `logfmt`, in this order. `user_agent`, `referer`, "
            "`request`, `time_local` and `key` are only written where they are named.",
            "all but those five"},
        &T::fields,
        ListForm<TextForm>{TextForm{"the name of a field", check_access_log_field},
                           "a list of fields"});
  visit(Key{"sample",
            "Share of the requests that are logged, of those that neither failed nor were slow. "
            "Status 400 or more, a reason, a retry or a gRPC error is a failure."},
        &T::sample, PercentForm{0, 1});
  visit(Key{"slow",
            "A request whose response begins later than this is slow, and logged whatever `sample` "
            "is; of a stream, its first bytes count. 0s: none is."},
        &T::slow, DurationForm{0ms, 24h});
}

void finish(Of<AccessLogConfig>, Node& node, AccessLogConfig& log);
void extend_schema(Of<AccessLogConfig>, Tree& schema);

void each_key(Of<ModelPrice>, const auto& visit) {
  using T = ModelPrice;
  visit(Key{"input", "A million tokens of prompts."}, &T::input, token_price);
  visit(Key{"output", "A million tokens of output."}, &T::output, token_price);
  visit(Key{"cached_input", "A million tokens of prompts that the engine found in its cache.",
            "`input`"},
        &T::cached_input, OptionalForm<RatioForm>{token_price});
}

void finish(Of<ModelPrice>, Node& node, ModelPrice& price);

// Prices by the names of models, in the order of the file.
struct ModelPricesForm {
  using Value = std::vector<ModelPrice>;
  static constexpr Shape shape = Shape::map;

  void read(const Node& node, Value& value) const;
  Tree tree(const Value& value, const Value* omit) const;
  Tree schema() const;
  std::string type() const { return "mapping of models to prices"; }
  std::string range() const { return {}; }
  void add_reference_rows(ReferenceRows& rows, const std::string& path) const {
    StructForm<ModelPrice>{}.add_reference_rows(rows, path + ".MODEL");
  }
};

void each_key(Of<UsageHttpConfig>, const auto& visit) {
  using T = UsageHttpConfig;
  visit(Key{"url", "Where they are posted. Redirects are not followed.", required}, &T::url, url);
  visit(Key{"token_file",
            "File with a token that is sent as `authorization: Bearer TOKEN`, read for each "
            "request. Needs https://, but for this machine.",
            "none"},
        &T::token_file, SecretFileForm{});
  visit(Key{"ca", "File with the authorities that the collector is verified by, in PEM.",
            "the system's"},
        &T::ca, file_path);
  visit(Key{"batch", "The most records of a request."}, &T::batch, CountForm{1, 1'000});
  visit(Key{"timeout", "How long the answer is waited for."}, &T::timeout,
        DurationForm{100ms, 5min});
}

void finish(Of<UsageHttpConfig>, Node& node, UsageHttpConfig& http);

void each_key(Of<UsageConfig>, const auto& visit) {
  using T = UsageConfig;
  visit(Key{"path",
            "The file, to which records are appended; SIGUSR1 reopens it. Requests and responses "
            "of all pools are inspected then.",
            "none"},
        &T::path, TextForm{"the path of a file", check_records_path});
  visit(Key{"source", "What records have as their `source`.", "`evenkeel/` and the host's name"},
        &T::source, TextForm{"a text", check_not_empty});
  visit(Key{"prices",
            "What models cost, by their names, in which `*` stands for any text: `{llama-*: "
            "{input: 0.6, output: 1.8}}`. The first that matches the name that the backend got "
            "counts, else the first that matches the name that the client gave. Records have no "
            "cost without one, and limits of `cost` do not count the model.",
            "none"},
        &T::prices, ModelPricesForm{});
  visit(Key{"http",
            "A collector that the records are sent to from the file, as batches of CloudEvents "
            "(`application/cloudevents-batch+json`). How far it got is in the file `PATH.sent`.",
            "none"},
        &T::http, OptionalForm<StructForm<UsageHttpConfig>>{});
}

void finish(Of<UsageConfig>, Node& node, UsageConfig& usage);

void each_key(Of<AuditConfig>, const auto& visit) {
  using T = AuditConfig;
  visit(Key{"path",
            "The file, to which records are appended. One that is moved is followed by a new one, "
            "which continues its chain; SIGUSR1 does that at once.",
            "none"},
        &T::path, TextForm{"the path of a file", check_records_path});
  visit(Key{"key_file",
            "File with a secret of 16 to 4096 bytes for the hashes of records (HMAC-SHA-256), "
            "without which none can be made. Read at the start.",
            "none: hashes are SHA-256, which anyone can make"},
        &T::key_file, file_path);
}

void finish(Of<AuditConfig>, Node& node, AuditConfig& audit);

void each_key(Of<LogConfig>, const auto& visit) {
  using T = LogConfig;
  visit(Key{"level",
            "The least important lines that are written; `evenkeel ctl log` changes it until the "
            "next reload."},
        &T::level, level_form());
  visit(Key{"levels",
            "Levels of subsystems that are to have another one: `{health: debug, dns: error}`.",
            "none"},
        &T::levels, LogLevelsForm{});
  visit(Key{"format",
            "`text`, or one JSON object per line: `time`, `level`, `subsystem`, `message`."},
        &T::format, EnumForm<LogFormat>{"format", {"text", "json"}});
}

void each_key(Of<TracingConfig>, const auto& visit) {
  using T = TracingConfig;
  visit(Key{"otlp",
            "URL of a collector that takes OTLP over HTTP, as JSON. Without a path it gets "
            "`/v1/traces`. `off`: requests are not traced, and their `traceparent` is passed on "
            "as it is. Where the key is absent, the variables of OpenTelemetry count, such as "
            "`OTEL_EXPORTER_OTLP_ENDPOINT`."},
        &T::otlp, TextForm{"a URL or off", check_collector, "^off$|^https?://"});
  visit(Key{"sample",
            "Share of the traces that begin here whose spans are exported. A client with a valid "
            "`traceparent` decides for its own. Requests that fail or are slow are exported "
            "always."},
        &T::sample, PercentForm{0, 1});
  visit(Key{"slow",
            "A request is slow if its response begins later than this; for a stream, its first "
            "bytes. 0s: none is."},
        &T::slow, DurationForm{0ms, 24h});
  visit(Key{"gen_ai",
            "Whether models and tokens have OpenTelemetry's attributes, `gen_ai.request.model` and "
            "the like, which may still change, in place of `evenkeel.model` and the like."},
        &T::gen_ai, FlagForm{});
}

void each_key(Of<ShutdownConfig>, const auto& visit) {
  using T = ShutdownConfig;
  visit(Key{"drain",
            "Maximum time for requests in flight to finish after SIGTERM; then the rest is cut off "
            "and the exit code is 3."},
        &T::drain, DurationForm{0ms, 24h});
  visit(Key{"delay",
            "How long /readyz answers 503 before the listeners close, so that a load balancer in "
            "front can react."},
        &T::delay, DurationForm{0ms, 1h});
}

void each_key(Of<DnsConfig>, const auto& visit) {
  using T = DnsConfig;
  visit(Key{"servers", "Name servers, as `host:port` with an IP address.", "the system's"},
        &T::servers, ListForm<AddressForm>{name_server_address(), "a list of addresses"});
  visit(Key{"min_ttl", "Minimum time to cache an answer, whatever its TTL."}, &T::min_ttl,
        DurationForm{100ms, 1h});
  visit(Key{"max_ttl", "Maximum time to cache an answer, whatever its TTL."}, &T::max_ttl,
        DurationForm{100ms, 24h});
}

inline void finish(Of<DnsConfig>, Node& node, DnsConfig& dns) {
  if (dns.max_ttl >= dns.min_ttl) return;
  const bool is_default = !node.has("max_ttl") || !node.has("min_ttl");
  node.fail("'max_ttl' is below 'min_ttl'",
            is_default ? "give both: one of them has its default" : "");
}

void each_key(Of<ProcessLimits>, const auto& visit) {
  visit(Key{"memory",
            "How much memory the process may use. `auto`: the limit of its cgroup, if it has one. "
            "A percentage is that of the cgroup's limit, or else of the machine's memory. At 90 % "
            "of it, idle connections are closed and new ones wait; at 95 %, requests get 503."},
        &ProcessLimits::memory, MemoryLimitForm{});
  visit(Key{"inspected_body",
            "How much of a request's body is awaited before a backend is picked. The rest of a "
            "longer body is passed on as it arrives, unless what decides where it goes, such as "
            "the name of the model, is still to come: then it is awaited too, and held."},
        &ProcessLimits::inspected_body_bytes, SizeForm{KiB, 1024 * MiB});
  visit(Key{"held_bodies",
            "How much each worker may hold of request bodies, for inspection and for retries; "
            "bodies of more than 64 KiB share half of it. Beyond it, requests are not retried, and "
            "uploads that have to be held to be placed wait for room; a body larger than that half "
            "gets 413 then."},
        &ProcessLimits::held_bodies_bytes, SizeForm{0, TiB});
}

void each_limit_key(const auto& visit) {
  using T = LimitsConfig;
  visit(Key{"requests",
            "The most requests in a period, such as `600/min`, or several such rates. Periods are "
            "`s`, `min`, `hour`, `day` and `month`; a day and a month begin at midnight UTC.",
            "any number"},
        &T::requests, rates);
  visit(Key{"tokens",
            "The most tokens of prompts and outputs together. While a request runs, an estimate "
            "counts: of its prompt, and of its output as long as all but one in 20 of its model, "
            "or `max_tokens`; then what the engine has counted.",
            "any number"},
        &T::tokens, rates);
  visit(Key{"input_tokens", "The most tokens of prompts.", "any number"}, &T::input_tokens, rates);
  visit(Key{"output_tokens", "The most tokens of outputs.", "any number"}, &T::output_tokens,
        rates);
  visit(Key{"cost",
            "The most that requests may cost by `usage.prices`, such as `500/month`. Estimated "
            "first and settled then, as `tokens`; a model without a price costs nothing.",
            "any amount"},
        &T::cost, rates_of_money);
  visit(Key{"concurrent", "The most requests at a time; 0 is any number."}, &T::concurrent,
        CountForm{0, million});
  visit(Key{"burst",
            "How much of the amount of a second, minute or hour may come at once; after a pause, "
            "a period may get this much more than its amount."},
        &T::burst, PercentForm{0.001, 1});
  visit(Key{"over",
            "What happens to requests beyond a limit: `refuse` answers 429, and `batch` serves "
            "them with the priority `batch`."},
        &T::over, EnumForm<OverLimit>{"action", {"refuse", "batch"}});
}

void each_key(Of<LimitsConfig>, const auto& visit) { each_limit_key(visit); }

void each_key(Of<RateLimitConfig>, const auto& visit) {
  using T = RateLimitConfig;
  visit(Key{"by",
            "What each has limits of its own: `tenant`, `key`, `model`, `address` (of a client; of "
            "IPv6 "
            "the network of 64 bits), `header:NAME`, or each combination of several. A request "
            "that lacks one of them is not limited.",
            required},
        &T::by,
        TextOrListForm{{TextForm{"what tells clients apart", check_limit_subject},
                        "a list of what tells clients apart", false}});
  visit(Key{"models", "Globs of model names: only requests for these are limited.", "all requests"},
        &T::models,
        ListForm<TextForm>{TextForm{"the name of a model", check_model_name},
                           "a list of model names"});
  visit(Key{"routes",
            "Names of routes: only their requests to pools are limited, as nginx does it in a "
            "`location`.",
            "all requests"},
        &T::routes,
        TextOrListForm{{TextForm{"the name of a route", check_not_empty},
                        "a name of a route or a list of names", false}});
  each_limit_key(visit);
}
void finish(Of<RateLimitConfig>, Node& node, RateLimitConfig& config);

void each_key(Of<SharedStateConfig>, const auto& visit) {
  using T = SharedStateConfig;
  visit(Key{"redis",
            "The Redis or Valkey server that the replicas of evenkeel share, and perhaps its "
            "database: `redis://HOST[:PORT][/DATABASE]`, with TLS `rediss://`.",
            required},
        &T::redis, RedisAddressForm{});
  visit(Key{"user", "The user of the server (ACL).", "the default user"}, &T::user,
        TextForm{"a user", check_not_empty});
  visit(Key{"password_file", "File with the user's password.", "none"}, &T::password_file,
        SecretFileForm{});
  visit(Key{"tls", "TLS to the server; `{}` for all defaults.", "only for rediss://"}, &T::tls,
        OptionalForm<StructForm<PoolTlsConfig>>{});
  visit(Key{"timeout", "The longest that a request waits for the server's answer."}, &T::timeout,
        DurationForm{1ms, 1s, "ms"});
  visit(Key{"on_failure",
            "What limits do while the server does not answer in time: `local`: each replica grants "
            "its share of each, the amount divided by `replicas`; `open`: they do not hold; "
            "`closed`: requests with limits get 503."},
        &T::on_failure, EnumForm<StoreFailure>{"action", {"local", "open", "closed"}});
  visit(Key{"replicas",
            "How many replicas share the server, for `on_failure: local` and for `concurrent`, of "
            "which each replica grants its share at all times."},
        &T::replicas, CountForm{1, 1000});
}

// What a tenant may use.
void each_scope_key(const auto& visit) {
  using T = TenantConfig;
  visit(Key{"models",
            "Names of the models that it may use, in which `*` stands for any text: `llama-*`. "
            "Needs `auth`. Requests to other models get 403, and so do those that name none.",
            "all"},
        &T::models,
        TextOrListForm{{TextForm{"the name of a model", check_model_name},
                        "a name of a model or a list of names", false}});
  visit(Key{"routes",
            "Routes that it may use, by name. Needs `auth`. Requests of other routes get 403.",
            "all"},
        &T::routes,
        TextOrListForm{{TextForm{"the name of a route", check_not_empty},
                        "a name of a route or a list of names", false}});
  visit(
      Key{"methods", "Methods that it may use. Needs `auth`. Others get 403.", "all"}, &T::methods,
      TextOrListForm{{TextForm{"a method", check_method}, "a method or a list of methods", false}});
}

void each_key(Of<TenantConfig>, const auto& visit) {
  using T = TenantConfig;
  visit(Key{"name", "Its name in logs and metrics, and in the `tenant_header` of listeners.",
            required},
        &T::name, plain_name);
  visit(Key{"keys_sha256",
            "SHA-256 of each of its API keys in hexadecimal, as `printf %s KEY | sha256sum` prints "
            "it. Clients send the key as `authorization: Bearer KEY`, `x-api-key` or `api-key`.",
            "none"},
        &T::keys_sha256, ListForm<KeyHashForm>{KeyHashForm{}, "a list of hashes"});
  visit(Key{"certificates",
            "Names in its client certificates, on listeners with `tls.client_ca`: of the Subject "
            "Alternative Name a URI, such as a SPIFFE ID, which may end in `/*`, or a DNS name. A "
            "key or token in a request goes before its certificate.",
            "none"},
        &T::certificates,
        TextOrListForm{{TextForm{"a name in a certificate", check_certificate_name},
                        "a list of names in certificates", false}});
  each_scope_key(visit);
  visit(Key{"weight",
            "Its share of the engines' time while several tenants wait, in pools with `picker: "
            "expected-time`; a tenant of weight 2 gets twice as much as one of weight 1."},
        &T::weight, RatioForm{0.01, 1000});
  visit(Key{"priority",
            "How urgent its requests are when they wait for a slot: requests may name a lower "
            "priority in their header field `x-priority`, not a higher one, and a route's "
            "`priority` may lower it.",
            "`x-priority` of the request, else `standard`"},
        &T::priority, priority_form());
  visit(Key{"max_tokens",
            "The most tokens of output that one of its requests may ask for; more gets 400, and a "
            "request that names no number gets this one. 0: any number."},
        &T::max_tokens, CountForm{0, 100 * million});
  visit(Key{"cache_salt",
            "A secret text, other than those of the other tenants, that its requests for text have "
            "as `cache_salt`, in place of their own, so that engines with such salts (vLLM, in "
            "OpenAI's APIs) share no cached prefix of it with other tenants. `openssl rand -hex "
            "16` makes one. Hosted services do not get it.",
            "as requests have it"},
        &T::cache_salt, SecretForm{"a text", check_cache_salt});
  visit(Key{"session",
            "The session of its requests that name none by the `affinity.by` of their pool, so "
            "that they stay on one backend, whose cache has their prefixes; with `mode: soft` "
            "until that is too busy. For clients that cannot name sessions themselves.",
            "none"},
        &T::session, TextForm{"a name", check_not_empty});
  visit(Key{"limits", "How much it may use."}, &T::limits, StructForm<LimitsConfig>{});
}

void each_key(Of<KeysConfig>, const auto& visit) {
  visit(Key{"file",
            "File with keys that may change while the daemon runs, without a reload; `evenkeel "
            "key` edits it. A line is `sha256:HEX tenant=NAME [name=TEXT] [models=GLOB,GLOB] "
            "[expires=RFC3339]`, and `#` begins a comment.",
            "none: keys are those of `tenants[].keys_sha256`"},
        &KeysConfig::file, file_path);
}

void each_key(Of<TokenIssuerConfig>, const auto& visit) {
  using T = TokenIssuerConfig;
  visit(Key{"issuer", "What its tokens have as `iss`.", required}, &T::issuer,
        TextForm{"an issuer", check_not_empty});
  visit(Key{"audience", "Names of this service: the `aud` of tokens has one of them.", required},
        &T::audience,
        TextOrListForm{{TextForm{"an audience", check_not_empty}, "a list of audiences", false}});
  visit(
      Key{"jwks",
          "The public keys of the issuer (a JSON Web Key Set): a file, read at the start and with "
          "each reload, or an `https://` URL, fetched every `refresh`.",
          required},
      &T::jwks, TextForm{"the path of a file or a URL", check_key_set});
  visit(Key{"ca", "File with the authorities that the server of that URL is verified by, in PEM.",
            "the system's"},
        &T::ca, file_path);
  visit(Key{"refresh",
            "How often the URL is fetched, and how long a key counts that it has no more. A token "
            "with an unknown key has it fetched at once, but at most every 30 s."},
        &T::refresh, DurationForm{1s, 24h});
  visit(Key{"tenant_claim",
            "The claim that names the tenant, or lists several of which the first one in the file "
            "counts; a dot leads into an object, as in `realm_access.team`."},
        &T::tenant_claim, TextForm{"a claim", check_not_empty});
  visit(Key{"tenants",
            "The tenants that its tokens may name: one that names others only is refused, as one "
            "that names none.",
            "all"},
        &T::tenants,
        TextOrListForm{{TextForm{"a tenant", check_not_empty}, "a list of tenants", false}});
  visit(Key{"models_claim",
            "The claim that says which models its holder may use: a list of names and globs, or "
            "words with blanks between them. Tokens without it may use what their tenant may.",
            "none"},
        &T::models_claim, TextForm{"a claim", check_not_empty});
  visit(Key{"type",
            "What the header of tokens has as `typ`, such as `at+jwt`, so that those for other "
            "uses do not count.",
            "any"},
        &T::type, TextForm{"a type", check_not_empty});
  visit(Key{"leeway", "By how much the issuer's clock may differ."}, &T::leeway,
        DurationForm{0ms, 10min});
}

inline void finish(Of<TokenIssuerConfig>, Node& node, TokenIssuerConfig& issuer) {
  if (issuer.ca.empty() || issuer.jwks.empty() || issuer.fetches_keys()) return;
  node.fail("'ca' is for a URL, and 'jwks' is a file", "remove 'ca', or name a URL in 'jwks'");
}

void each_key(Of<AuthConfig>, const auto& visit) {
  visit(Key{"keys", "Where API keys are kept, besides `tenants[].keys_sha256`."}, &AuthConfig::keys,
        StructForm<KeysConfig>{});
  visit(Key{"jwt",
            "Issuers of signed tokens (JWT), which clients send as `authorization: Bearer TOKEN`.",
            "none"},
        &AuthConfig::jwt, ListForm<StructForm<TokenIssuerConfig>>{{}, "a list of issuers"});
}

// The keys of the file that say whose requests are served, and how many.
void each_tenancy_key(const auto& visit) {
  using T = Config;
  visit(Key{"tenants",
            "Whose requests they are, for the log, the metrics and the queue. Without `auth`, "
            "requests of no tenant are served too: a backend decides which keys it accepts.",
            "none"},
        &T::tenants, ListForm<StructForm<TenantConfig>>{{}, "a list of tenants"});
  visit(Key{"rate_limits", "Limits of others than tenants, such as each address of a client.",
            "none"},
        &T::rate_limits, ListForm<StructForm<RateLimitConfig>>{{}, "a list of limits"});
  visit(Key{"shared_state",
            "Where several replicas of evenkeel keep what is used of limits, so that these hold "
            "for all together.",
            "none: each process on its own"},
        &T::shared_state, OptionalForm<StructForm<SharedStateConfig>>{});
  visit(Key{"auth",
            "Present, also as `{}`: requests need an API key or a token of a tenant, or a trusted "
            "proxy that names one, unless their route says otherwise (`routes[].auth`).",
            "none: requests without a key are served too"},
        &T::auth, OptionalForm<StructForm<AuthConfig>>{});
}

void each_key(Of<Config>, const auto& visit) {
  using T = Config;
  visit(Key{"version", "The version of the file format."}, &T::version, IntegerForm<int>{1, 1});
  visit(Key{"listeners", "Addresses that clients connect to.", "one, `public` on `0.0.0.0:8080`"},
        &T::listeners, ListForm<StructForm<ListenerConfig>>{{}, "a list of listeners", false});
  visit(Key{"admin", "The admin listener, for operators and monitoring."}, &T::admin,
        StructForm<AdminConfig>{});
  visit(
      Key{"workers",
          "Number of threads that proxy requests. `auto` is one per CPU that the process may use: "
          "those of its affinity mask, but no more than the CPU quota of its cgroup, rounded up."},
      &T::workers, WorkersForm{});
  visit(Key{"busy_polling",
            "Whether a thread that expects its next event within microseconds looks for it for up "
            "to 20 us before it sleeps, which saves latency. `false` where others need the "
            "processor meanwhile: on shared cores. Without effect where the CPU quota of the "
            "cgroup is below the number of workers."},
        &T::busy_polling, FlagForm{});
  visit(Key{"pools", "Groups of interchangeable servers.", "none: then every route has `respond`"},
        &T::pools, ListForm<StructForm<PoolConfig>>{{}, "a list of pools"});
  visit(Key{"routes",
            "Rules that assign requests to pools; the first one that matches applies. Requests "
            "without a match get 404. A file with one pool needs no routes.",
            "everything to the only pool"},
        &T::routes, ListForm<StructForm<RouteConfig>>{{}, "a list of routes"});
  each_tenancy_key(visit);
  visit(Key{"access_log", "One log line per request."}, &T::access_log,
        StructForm<AccessLogConfig>{});
  visit(Key{"usage",
            "One record per request that reached a model, for billing: a CloudEvent as a line of "
            "JSON."},
        &T::usage, StructForm<UsageConfig>{});
  visit(Key{"audit",
            "What operators change, and what becomes of clients' credentials: a chain of records, "
            "which shows where one was changed or removed."},
        &T::audit, StructForm<AuditConfig>{});
  visit(Key{"log", "The daemon's own log, on stderr."}, &T::log, StructForm<LogConfig>{});
  visit(Key{"tracing", "Spans of requests, for a collector of traces."}, &T::tracing,
        StructForm<TracingConfig>{});
  visit(Key{"dns",
            "DNS resolution of backends. A name with several addresses becomes several backends; "
            "it is resolved again when its answer expires."},
        &T::dns, StructForm<DnsConfig>{});
  visit(Key{"kubernetes", "The API server that `discover.kubernetes` asks."}, &T::kubernetes,
        StructForm<KubernetesConfig>{});
  visit(Key{"limits", "Limits of the process."}, &T::limits, StructForm<ProcessLimits>{});
  visit(Key{"shutdown", "How the daemon stops."}, &T::shutdown, StructForm<ShutdownConfig>{});
  visit(Key{"state_file",
            "File in which the daemon keeps what the next one continues with: drains and weights "
            "that operators have set, and what it has learned of its backends. Written every "
            "minute and at the end, read at the start.",
            "none"},
        &T::state_file, file_path);
}

inline std::vector<RouteConfig> implied_routes(const Config& config) {
  if (config.pools.size() != 1) return {};
  return {RouteConfig{.name = "default", .match = {}, .targets = {{config.pools[0].name, 1}}}};
}

void finish(Of<Config>, Node& node, Config& config);
void extend_schema(Of<Config>, Tree& schema);
inline void derive(Of<Config>, Config& defaults, const Config& config) {
  defaults.routes = implied_routes(config);
}

}  // namespace evenkeel::config_file
