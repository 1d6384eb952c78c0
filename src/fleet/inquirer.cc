#include "evenkeel/fleet/inquirer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "evenkeel/base/deadline.h"
#include "evenkeel/inference/grpc_message.h"

namespace evenkeel {
namespace {

Error misspoken(const char* what) {
  return {.fault = Fault::backend_protocol, .side = Side::backend, .detail = what};
}

Request request_to(const ServerAccess& access, std::string_view method, std::string_view path) {
  Request request{.method = method,
                  .scheme = access.links.connector.tls == nullptr ? "http" : "https",
                  .authority = access.authority,
                  .path = path};
  request.fields.add("user-agent", "evenkeel");
  if (!access.authorization.empty()) request.fields.add("authorization", access.authorization);
  return request;
}

LinkPoolOptions links_of(const ServerAccess& access) {
  LinkPoolOptions links = access.links;
  if (!access.keeps_links) links.max_idle = 0;
  return links;
}

}  // namespace

/// What has come of a question so far; outlives its task.
struct Inquirer::Exchange {
  std::size_t most_bytes = 0;
  bool connected = false;
  Fetched fetched;
  std::string grpc_status;  // as it came, from the head or from the trailers
  std::string grpc_message;

  void note_status(const Fields& fields) {
    if (const auto status = fields.value("grpc-status")) grpc_status = *status;
    if (const auto text = fields.value("grpc-message")) grpc_message = decode_grpc_message(*text);
  }
};

Inquirer::Inquirer(Loop& loop, ServerAccess access)
    : loop_(loop),
      access_(std::move(access)),
      links_(loop_, access_.addresses, links_of(access_), cells_),
      connector_(loop_, access_.addresses, access_.links.connector) {}

Task<Result<Done>> Inquirer::exchange(Request& request, LinkPool::Want want, Exchange& heard) {
  bool again = false;
  while (true) {
    auto link = co_await links_.acquire(want);
    if (!link) co_return std::move(link.error());
    heard.connected = true;
    auto response = co_await (*link)->send(request);
    if (!response) {
      Error& error = response.error();
      const bool resendable = request.body == nullptr || request.body->rewind();
      if (!(error.crossed || error.replayable) || again || !resendable) co_return std::move(error);
      again = true;
      want = LinkPool::Want::fresh;
      continue;
    }

    Fetched& fetched = heard.fetched;
    fetched.status = response->status;
    fetched.server = response->fields.value(FieldId::server).value_or("");
    heard.note_status(response->fields);
    const BodyPtr body = std::move(response->body);
    for (bool last = body == nullptr; !last;) {
      auto chunk = co_await body->read();
      if (!chunk) co_return std::move(chunk.error());
      const std::size_t room = heard.most_bytes - fetched.body.size();
      fetched.body += chunk->bytes.substr(0, room);
      fetched.whole = chunk->bytes.size() <= room;
      if (chunk->trailers != nullptr) heard.note_status(*chunk->trailers);
      last = chunk->last || !fetched.whole;
    }
    co_return Done{};
  }
}

Task<Result<Done>> Inquirer::exchange_by(Request& request, LinkPool::Want want, Exchange& heard,
                                         Instant deadline) {
  auto asked = exchange(request, want, heard);
  co_await UntilDoneOrDeadline(asked, loop_, deadline);
  if (asked.ready()) co_return asked.take();
  co_return Error{.fault = heard.connected ? Fault::first_byte_timeout : Fault::connect_timeout,
                  .side = Side::backend,
                  .detail = heard.connected ? "no answer in time" : "the connection took too long"};
}

Task<Result<Fetched>> Inquirer::ask(Inquiry inquiry, Instant deadline) {
  Request request = request_to(access_, inquiry.method, inquiry.path);
  request.fields.add("accept", "*/*");
  if (!inquiry.json.empty()) {
    request.fields.add("content-type", "application/json");
    request.body = make_body(std::move(inquiry.json));
  }
  Exchange heard{.most_bytes = inquiry.most_bytes};
  auto done = co_await exchange_by(request, inquiry.want, heard, deadline);
  if (!done) co_return std::move(done.error());
  if (!heard.grpc_status.empty()) co_return misspoken("it answers in gRPC");
  co_return std::move(heard.fetched);
}

Task<Result<GrpcReply>> Inquirer::call(GrpcCall call, Instant deadline) {
  constexpr std::size_t most_bytes = 64 * 1024;  // of a message that we ask for
  Request request = request_to(access_, "POST", call.path);
  request.wants_trailers = true;
  request.fields.add("content-type", "application/grpc");
  GrpcTimeoutText timeout;
  request.fields.add("grpc-timeout", request.fields.keep(write_grpc_timeout(
                                         std::max(deadline - loop_.now(), Duration(1)), timeout)));
  std::string framed;
  append_grpc_frame(framed, call.message);
  request.body = make_body(std::move(framed));

  Exchange heard{.most_bytes = most_bytes};
  auto done = co_await exchange_by(request, call.want, heard, deadline);
  if (!done) co_return std::move(done.error());
  GrpcReply reply;
  if (heard.grpc_status.empty()) {
    if (heard.fetched.status == 200) co_return misspoken("an answer without a grpc-status");
    reply.grpc = false;
    reply.status = grpc_status_of_http(heard.fetched.status);
    reply.text = "HTTP status " + std::to_string(heard.fetched.status);
    co_return reply;
  }
  reply.status = parse_grpc_status(heard.grpc_status).value_or(GrpcStatus::unknown);
  reply.text = std::move(heard.grpc_message);
  if (reply.status != GrpcStatus::ok) co_return reply;
  GrpcMessageReader reader(most_bytes);
  std::string_view bytes = heard.fetched.body;
  const auto step = reader.read(bytes);
  if (step != GrpcMessageReader::Step::message || reader.compressed()) {
    co_return misspoken("no message in the answer");
  }
  reply.message = reader.message();
  co_return reply;
}

Task<Result<Done>> Inquirer::connect(Instant deadline) {
  auto connecting = connector_.connect();
  co_await UntilDoneOrDeadline(connecting, loop_, deadline);
  if (!connecting.ready()) {
    co_return Error{.fault = Fault::connect_timeout,
                    .side = Side::backend,
                    .detail = "the connection took too long"};
  }
  auto socket = connecting.take();
  if (!socket) co_return std::move(socket.error());
  co_return Done{};
}

}  // namespace evenkeel
