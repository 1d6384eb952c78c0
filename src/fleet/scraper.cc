#include "fleet/scraper.h"

#include <algorithm>
#include <utility>

#include "evenkeel/base/deadline.h"

namespace evenkeel {
namespace {

/// Twenty times the largest that was ever seen (Ray's).
constexpr std::size_t most_bytes = std::size_t{16} << 20;

/// Some milliseconds' work.
constexpr std::size_t most_bytes_in_turn = std::size_t{256} << 10;

}  // namespace

Scraper::Scraper(Loop& loop, ScrapePlace place, NameResolver resolve)
    : loop_(loop), place_(std::move(place)), resolve_(std::move(resolve)) {
  // Whatever its pool does with those of its requests.
  place_.access.links.max_idle = place_.access.keeps_links ? 1 : 0;
}

Task<Result<Scraped>> Scraper::read(ScrapeListener& listener, Instant deadline) {
  auto asked = ask(listener);
  co_await UntilDoneOrDeadline(asked, loop_, deadline);
  if (asked.ready()) co_return asked.take();
  co_return Error{
      .fault = Fault::first_byte_timeout, .side = Side::backend, .detail = "no answer in time"};
}

/// Makes sure that there are addresses to connect to.
Task<Result<Done>> Scraper::find() {
  if (links_) co_return Done{};
  std::vector<Endpoint> addresses = place_.access.addresses;
  if (addresses.empty()) {
    auto resolved = co_await resolve_(place_.host, place_.port);
    if (!resolved) co_return std::move(resolved.error());
    addresses = std::move(*resolved);
  }
  links_.emplace(loop_, std::move(addresses), place_.access.links, cells_);
  co_return Done{};
}

Task<Result<LinkLease>> Scraper::connect(LinkPool::Want want) {
  auto found = co_await find();
  if (!found) co_return std::move(found.error());
  const bool dials = links_->idle() == 0 || want == LinkPool::Want::fresh;
  const Instant began = loop_.read_clock();
  auto link = co_await links_->acquire(want);
  if (!link) {
    if (place_.access.addresses.empty()) links_.reset();  // its name may have moved
    co_return std::move(link.error());
  }
  if (dials && place_.access.links.connector.tls == nullptr) {
    const Duration took = loop_.read_clock() - began;
    round_trip_ = std::min(round_trip_.value_or(took), took);
  }
  co_return std::move(*link);
}

Task<Result<Scraped>> Scraper::ask(ScrapeListener& listener) {
  auto want = LinkPool::Want::any;
  while (true) {
    auto link = co_await connect(want);
    if (!link) co_return std::move(link.error());
    listener.asked();
    const Instant asked = loop_.read_clock();
    Request request{.method = "GET",
                    .scheme = place_.access.links.connector.tls == nullptr ? "http" : "https",
                    .authority = place_.access.authority,
                    .path = place_.short_path.empty() ? place_.path : place_.short_path};
    request.fields.add("user-agent", "evenkeel");
    request.fields.add("accept", "text/plain;version=0.0.4;q=1,*/*;q=0.1");
    if (!place_.access.authorization.empty()) {
      request.fields.add("authorization", place_.access.authorization);
    }
    auto response = co_await (*link)->send(request);
    if (!response) {
      Error& error = response.error();
      const bool unseen = error.crossed || error.replayable;
      if (!unseen || want == LinkPool::Want::fresh) co_return std::move(error);
      want = LinkPool::Want::fresh;  // the server had closed the one that was kept
      continue;
    }

    Scraped scraped{.status = response->status};
    scraped.open_metrics =
        response->fields.value("content-type").value_or("").starts_with("application/openmetrics");
    const BodyPtr body = std::move(response->body);
    scraped.measured = body == nullptr || body->length().has_value();
    std::size_t size = 0;
    std::size_t in_turn = 0;
    for (bool last = body == nullptr; !last;) {
      auto chunk = co_await body->read();
      if (!chunk) co_return std::move(chunk.error());
      size += chunk->bytes.size();
      if (size > most_bytes) {
        co_return Error{.fault = Fault::backend_protocol,
                        .side = Side::backend,
                        .detail = "an exposition without end"};
      }
      if (scraped.status == 200) listener.take(chunk->bytes);
      last = chunk->last;
      in_turn += chunk->bytes.size();
      if (in_turn > most_bytes_in_turn && !last) {  // others have questions under way, too
        co_await loop_.yield();
        in_turn = 0;
      }
    }
    const Duration took = loop_.read_clock() - asked;
    scraped.took = std::max(took - round_trip_.value_or(Duration::zero()), Duration::zero());
    co_return scraped;
  }
}

}  // namespace evenkeel
