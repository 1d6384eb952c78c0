#include "upstream/scraper.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "evenkeel/base/deadline.h"
#include "evenkeel/http/media_type.h"

namespace evenkeel {
namespace {

/// Twenty times the largest page seen so far (Ray's).
constexpr std::size_t max_bytes = std::size_t{16} << 20;

/// The bytes parsed per turn of the loop: some milliseconds.
constexpr std::size_t max_bytes_per_turn = std::size_t{256} << 10;

}  // namespace

Scraper::Scraper(Loop& loop, ScrapeTarget target, NameResolver resolve)
    : loop_(loop), target_(std::move(target)), resolve_(std::move(resolve)) {
  // Independent of how many links the pool keeps for traffic.
  target_.access.links.keep_alive.max_idle = target_.access.keeps_links ? 1 : 0;
}

Task<Result<Scraped>> Scraper::read(ScrapeObserver& observer, Instant deadline) {
  auto pending = scrape(observer);
  co_await UntilDoneOrDeadline(pending, loop_, deadline);
  if (pending.ready()) co_return pending.take();
  co_return Error{
      .fault = Fault::first_byte_timeout, .side = Side::backend, .detail = "no response in time"};
}

/// Resolves the server's name if that is all that is known.
Task<Result<Done>> Scraper::ensure_client() {
  if (client_) co_return Done{};
  ServerAccess access = target_.access;
  if (access.addresses.empty()) {
    auto resolved = co_await resolve_(target_.host, target_.port);
    if (!resolved) co_return std::move(resolved.error());
    access.addresses = std::move(*resolved);
  }
  client_.emplace(loop_, std::move(access));
  co_return Done{};
}

Task<Result<OpenResponse>> Scraper::open(Request& request, ScrapeObserver& observer) {
  auto ready = co_await ensure_client();
  if (!ready) co_return std::move(ready.error());
  const std::function<void()> on_send = [&observer] { observer.on_request(); };
  auto opened = co_await client_->open(request, LinkPool::LinkChoice::any, on_send);
  if (!opened) {
    if (target_.access.addresses.empty()) client_.reset();  // its name may have another address
    co_return std::move(opened.error());
  }
  if (opened->connect_time && !target_.access.uses_tls()) {
    round_trip_ = std::min(round_trip_.value_or(*opened->connect_time), *opened->connect_time);
  }
  co_return std::move(*opened);
}

Task<Result<Scraped>> Scraper::scrape(ScrapeObserver& observer) {
  Request request = target_.access.request("GET", path());
  request.fields.add("accept", "text/plain;version=0.0.4;q=1,*/*;q=0.1");
  auto opened = co_await open(request, observer);
  if (!opened) co_return std::move(opened.error());
  const Response& response = opened->response;
  const std::string_view type = response.fields.value("content-type").value_or("");
  Scraped scraped{.status = response.status,
                  .location = std::string(response.fields.value("location").value_or("")),
                  .open_metrics = is_media_type(type, "application/openmetrics-text"),
                  .has_length = response.body == nullptr || response.body->length().has_value()};
  auto read = co_await read_body(*opened, observer);
  if (!read) co_return std::move(read.error());
  const Duration took = loop_.read_clock() - opened->sent_at;
  scraped.took = std::max(took - round_trip_.value_or(Duration::zero()), Duration::zero());
  co_return scraped;
}

/// Yields to other tasks of the loop while a long body is parsed.
Task<Result<Done>> Scraper::read_body(OpenResponse& opened, ScrapeObserver& observer) {
  const BodyPtr body = std::move(opened.response.body);
  const bool wanted = opened.response.status == 200;
  std::size_t size = 0;
  std::size_t in_turn = 0;
  for (bool last = body == nullptr; !last;) {
    auto chunk = co_await body->read();
    if (!chunk) co_return std::move(chunk.error());
    size += chunk->bytes.size();
    if (size > max_bytes) {
      co_return Error{.fault = Fault::backend_protocol,
                      .side = Side::backend,
                      .detail = "the metrics page exceeds 16 MiB"};
    }
    if (wanted) observer.on_data(chunk->bytes);
    last = chunk->last;
    in_turn += chunk->bytes.size();
    if (in_turn > max_bytes_per_turn && !last) {
      co_await loop_.yield();
      in_turn = 0;
    }
  }
  co_return Done{};
}

}  // namespace evenkeel
