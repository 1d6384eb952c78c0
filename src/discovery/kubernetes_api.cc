#include "discovery/kubernetes_api.h"

#include <fmt/format.h>

#include <utility>

#include "evenkeel/base/deadline.h"
#include "evenkeel/base/host.h"
#include "evenkeel/config/named_files.h"

namespace evenkeel {
namespace {

constexpr std::string_view account_folder = "/var/run/secrets/kubernetes.io/serviceaccount/";
/// How long a list, or the head of a watch, may take.
constexpr Duration max_answer_time = std::chrono::seconds(30);
/// How long a watch may bring nothing: longer than the server lets it last.
constexpr Duration max_silence = std::chrono::minutes(7);
/// The most bytes of a list: some thousand pods.
constexpr std::size_t max_list_bytes = std::size_t{64} << 20;

/// The URL of the API server that a pod is told of; empty: this is no pod.
std::string cluster_api(const DiscoveryEnvironment& environment) {
  const auto host = environment.variable("KUBERNETES_SERVICE_HOST");
  const auto port = environment.variable("KUBERNETES_SERVICE_PORT");
  if (!host || host->empty()) return {};
  const bool v6 = host->find(':') != host->npos;
  return fmt::format("https://{}{}{}:{}", v6 ? "[" : "", *host, v6 ? "]" : "",
                     port && !port->empty() ? *port : "443");
}

std::string problem_of_status(int status) {
  switch (status) {
    case 401: return "answers 401: it does not accept the token";
    case 403: return "answers 403: give its service account a Role that may list and watch";
    case 404: return "answers 404: it does not have this kind of object";
    default: return fmt::format("answers {}", status);
  }
}

Error failed(std::string why) {
  return {.fault = Fault::connect_failed, .side = Side::backend, .detail = std::move(why)};
}

WatchEnd failed_watch(std::string why) {
  return {.kind = WatchEnd::Kind::failed, .problem = std::move(why)};
}

}  // namespace

bool WatchLines::add(std::string_view bytes) {
  text_.erase(0, begin_);
  searched_ -= begin_;
  begin_ = 0;
  text_ += bytes;
  return text_.size() <= max_line || text_.find('\n', searched_) != text_.npos;
}

std::optional<std::string_view> WatchLines::next() {
  const std::size_t end = text_.find('\n', searched_);
  if (end == text_.npos) {
    searched_ = text_.size();
    return std::nullopt;
  }
  const std::string_view line = std::string_view(text_).substr(begin_, end - begin_);
  begin_ = searched_ = end + 1;
  return line;
}

KubernetesApi::KubernetesApi(Loop& loop, const DiscoveryEnvironment& environment,
                             const KubernetesConfig& config)
    : loop_(loop), token_file_(config.token_file) {
  std::string ca = config.ca;
  std::string url = config.api;
  const bool in_pod = environment.variable("KUBERNETES_SERVICE_HOST").has_value();
  if (url.empty()) url = cluster_api(environment);
  // A server in the clear, such as `kubectl proxy`, gets no token that it was not meant to get.
  if (in_pod && url.starts_with("https://")) {
    if (token_file_.empty()) token_file_ = std::string(account_folder) + "token";
    if (ca.empty()) ca = std::string(account_folder) + "ca.crt";
  }
  if (url.empty()) return;
  while (url.ends_with('/')) url.pop_back();
  const LinkOptions options{.first_byte_timeout = max_silence, .idle_timeout = max_silence};
  server_ = std::make_unique<SourceServer>(loop, environment.resolve, url, ca, options);
}

Result<FieldList> KubernetesApi::credentials() const {
  FieldList fields{{"accept", "application/json"}};
  if (token_file_.empty()) return fields;
  auto token = read_api_key(token_file_);
  if (!token) return failed("the token '" + token_file_ + "' " + token.error().detail);
  fields.emplace_back("authorization", "Bearer " + *token);
  return fields;
}

Task<Result<JsonValue>> KubernetesApi::get(std::string path) {
  if (server_ == nullptr) {
    co_return failed(
        "there is no API server: KUBERNETES_SERVICE_HOST is not set, as it is in a pod; give "
        "`kubernetes.api`");
  }
  const std::string name = "the API server " + server_->url() + " ";
  auto fields = credentials();
  if (!fields) co_return std::move(fields.error());
  const Instant deadline = loop_.read_clock() + max_answer_time;
  auto client = co_await server_->connect();
  if (!client) co_return failed(name + "cannot be reached: " + client.error().detail);
  BackendClientRequest request{.path = std::move(path), .max_bytes = max_list_bytes};
  if (server_->path() != "/") request.path = server_->path() + request.path;
  request.fields = std::move(*fields);
  auto fetched = co_await (*client)->fetch(std::move(request), deadline);
  if (!fetched) co_return failed(name + "does not answer: " + fetched.error().detail);
  if (fetched->status != 200) co_return failed(name + problem_of_status(fetched->status));
  if (!fetched->complete) co_return failed(name + "answers with too long a list");
  auto document = parse_json(fetched->body);
  if (!document) co_return failed(name + "answers with what is no JSON");
  co_return std::move(*document);
}

Task<WatchEnd> KubernetesApi::watch(std::string path, OnEvent on_event) {
  const std::string name = "the API server " + server_->url() + " ";
  auto fields = credentials();
  if (!fields) co_return failed_watch(fields.error().detail);
  auto connected = co_await server_->connect();
  if (!connected) co_return failed_watch(name + "cannot be reached: " + connected.error().detail);
  const std::shared_ptr<BackendClient> client = std::move(*connected);
  const ServerAccess access = server_->access();
  if (server_->path() != "/") path = server_->path() + path;
  Request request = access.request("GET", path);
  for (const auto& [field, value] : *fields) request.fields.add(field, value, field_id(field));
  auto opening = client->open(request, LinkPool::LinkChoice::any, nullptr);
  co_await UntilDoneOrDeadline(opening, loop_, loop_.read_clock() + max_answer_time);
  if (!opening.ready()) co_return failed_watch(name + "does not answer in time");
  auto opened = opening.take();
  if (!opened) co_return failed_watch(name + "does not answer: " + opened.error().detail);
  const int status = opened->response.status;
  if (status == 410) co_return WatchEnd{.kind = WatchEnd::Kind::expired};
  if (status != 200) co_return failed_watch(name + problem_of_status(status));
  if (opened->response.body == nullptr) co_return WatchEnd{};
  WatchEnd end = co_await read_events(*opened->response.body, on_event);
  if (end.kind == WatchEnd::Kind::failed) end.problem = name + end.problem;
  co_return end;
}

Task<WatchEnd> KubernetesApi::read_events(Body& body, const OnEvent& on_event) {
  WatchLines lines;
  for (bool last = false; !last;) {
    auto chunk = co_await body.read();
    if (!chunk) co_return failed_watch("has ended the watch: " + chunk.error().detail);
    last = chunk->last;
    if (!lines.add(chunk->bytes)) co_return failed_watch("sends too large an event");
    for (auto line = lines.next(); line; line = lines.next()) {
      if (line->find_first_not_of(" \r") == line->npos) continue;
      auto event = parse_json(*line);
      if (!event) co_return failed_watch("sends an event that is no JSON");
      auto end = on_event(*event);
      if (end) co_return std::move(*end);
    }
  }
  co_return WatchEnd{};
}

}  // namespace evenkeel
