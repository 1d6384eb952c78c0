#include "evenkeel/filter/access.h"

#include <utility>

#include "evenkeel/http/status.h"

namespace evenkeel {
namespace {

/// Closes a request's account when it is dropped.
class Account {
 public:
  Account(Ledger& ledger, Request& request) : ledger_(&ledger), request_(&request) {
    ledger.begin(request.about);
  }
  Account(Account&& other) noexcept
      : ledger_(std::exchange(other.ledger_, nullptr)), request_(other.request_) {}
  Account& operator=(Account&&) = delete;
  ~Account() {
    if (ledger_ == nullptr) return;
    if (ledger_->leaving() && !request_->about.fault) request_->about.fault = Fault::draining;
    ledger_->end(request_->method, request_->authority, request_->path, request_->about);
  }

 private:
  Ledger* ledger_;
  Request* request_;
};

/// A response body whose end is the end of the request.
class AccountedBody final : public Body {
 public:
  AccountedBody(BodyPtr body, Account account)
      : account_(std::move(account)), body_(std::move(body)) {}

  Task<Result<Chunk>> read() override {
    if (body_ == nullptr) return Result<Chunk>(Chunk{.last = true});
    return body_->read();
  }
  std::optional<std::uint64_t> length() const override {
    return body_ == nullptr ? std::optional<std::uint64_t>(0) : body_->length();
  }

 private:
  Account account_;  // after the body, which gives back lease and link
  BodyPtr body_;
};

}  // namespace

Task<Result<Response>> AccessFilter::handle(Request& request, Handler& next) {
  Account account(ledger_, request);
  auto result = co_await next.handle(request);
  if (!result) {
    Error& error = result.error();
    request.about.fault = error.fault;
    if (error.fault == Fault::client_gone) co_return std::move(error);
    if (request.about.grpc_status) {
      request.about.grpc_status = static_cast<std::uint8_t>(grpc_status_of(error.fault));
    }
    result = error_response(error, dialect_of(request));
  }
  result->fields.remove(FieldId::x_request_id);  // a server's own would be the second
  result->fields.add("x-request-id", request.about.request_id, FieldId::x_request_id);
  result->body = std::make_unique<AccountedBody>(std::move(result->body), std::move(account));
  co_return result;
}

void Ledger::end(std::string_view method, std::string_view host, std::string_view path,
                 const About& about) {
  const Instant ended = loop_.read_clock();
  const bool gone =
      about.status == 0 || about.fault == Fault::client_gone || about.fault == Fault::write_timeout;
  const int status = gone ? 499 : about.status;

  RequestTally tally{.pool = about.pool_index,
                     .route = about.route_index,
                     .status = status,
                     .grpc_status = about.grpc_status,
                     .duration = ended - about.started,
                     .waited = about.waited,
                     .request_bytes = about.bytes_in,
                     .response_bytes = about.bytes_out};
  if (about.first_byte != Instant{}) tally.first_byte = about.first_byte - about.started;
  if (about.sent != Instant{}) tally.overhead = about.sent - about.received - about.elsewhere;
  sheet_.pool(about.pool_index).in_flight.remove();
  sheet_.count(tally);
  if (about.fault) {
    sheet_.count_error(about.pool_index, *about.fault);
  } else if (gone) {
    sheet_.count_error(about.pool_index, Fault::client_gone);
  }
  write(method, host, path, about, ended, status);
}

void Ledger::refused(std::string_view method, std::string_view path, const About& about) {
  const Instant ended = loop_.read_clock();
  sheet_.count({.status = about.status,
                .grpc_status = about.grpc_status,
                .duration = ended - about.started});
  if (about.fault) sheet_.count_error(0, *about.fault);
  write(method, {}, path, about, ended, about.status);
}

void Ledger::write(std::string_view method, std::string_view host, std::string_view path,
                   const About& about, Instant ended, int status) {
  if (ring_ == nullptr) return;
  AccessEntry entry{.time = wall_time_.at(about.started),
                    .request_id = about.request_id,
                    .client = about.client,
                    .listener = about.listener,
                    .protocol = about.protocol,
                    .method = method,
                    .host = host,
                    .path = path,
                    .route = about.route,
                    .pool = about.pool,
                    .backend = about.backend,
                    .status = status,
                    .grpc_status = about.grpc_status,
                    .attempts = about.attempts,
                    .bytes_in = about.bytes_in,
                    .bytes_out = about.bytes_out,
                    .duration = ended - about.started,
                    .waited = about.waited};
  if (about.fault) {
    entry.reason = word_of(*about.fault);
  } else if (status == 499) {
    entry.reason = word_of(Fault::client_gone);
  }
  if (about.first_byte != Instant{}) entry.first_byte = about.first_byte - about.started;
  if (about.sent != Instant{}) entry.at_backend = ended - about.sent;
  entry.aborted = status == 499 || (about.fault && about.status >= 200 && about.status < 400);
  LineBuffer buffer;
  ring_->append(line_.format(entry, buffer));
}

}  // namespace evenkeel
