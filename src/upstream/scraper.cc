#include "upstream/scraper.h"

#include <algorithm>
#include <utility>

#include "evenkeel/base/deadline.h"

namespace evenkeel {
namespace {

/// Twenty times the largest that was ever seen (Ray's).
constexpr std::size_t max_bytes = std::size_t{16} << 20;

/// Some milliseconds' work.
constexpr std::size_t max_bytes_per_turn = std::size_t{256} << 10;

}  // namespace

Scraper::Scraper(Loop& loop, ScrapeTarget target, NameResolver resolve)
    : loop_(loop), target_(std::move(target)), resolve_(std::move(resolve)) {
  // Whatever its pool does with those of its requests.
  target_.access.links.max_idle = target_.access.keeps_links ? 1 : 0;
}

Task<Result<Scraped>> Scraper::read(ScrapeObserver& observer, Instant deadline) {
  auto asked = scrape(observer);
  co_await UntilDoneOrDeadline(asked, loop_, deadline);
  if (asked.ready()) co_return asked.take();
  co_return Error{
      .fault = Fault::first_byte_timeout, .side = Side::backend, .detail = "no answer in time"};
}

/// Makes sure that there are addresses to connect to.
Task<Result<Done>> Scraper::ensure_addresses() {
  if (links_) co_return Done{};
  std::vector<Endpoint> addresses = target_.access.addresses;
  if (addresses.empty()) {
    auto resolved = co_await resolve_(target_.host, target_.port);
    if (!resolved) co_return std::move(resolved.error());
    addresses = std::move(*resolved);
  }
  links_.emplace(loop_, std::move(addresses), target_.access.links, metrics_);
  co_return Done{};
}

Task<Result<LinkLease>> Scraper::connect(LinkPool::LinkChoice link_choice) {
  auto found = co_await ensure_addresses();
  if (!found) co_return std::move(found.error());
  const bool dials = links_->idle() == 0 || link_choice == LinkPool::LinkChoice::fresh;
  const Instant began = loop_.read_clock();
  auto link = co_await links_->acquire(link_choice);
  if (!link) {
    if (target_.access.addresses.empty()) links_.reset();  // its name may have moved
    co_return std::move(link.error());
  }
  if (dials && target_.access.links.connector.tls == nullptr) {
    const Duration took = loop_.read_clock() - began;
    round_trip_ = std::min(round_trip_.value_or(took), took);
  }
  co_return std::move(*link);
}

Task<Result<Scraped>> Scraper::scrape(ScrapeObserver& observer) {
  auto link_choice = LinkPool::LinkChoice::any;
  while (true) {
    auto link = co_await connect(link_choice);
    if (!link) co_return std::move(link.error());
    observer.asked();
    const Instant asked = loop_.read_clock();
    Request request{.method = "GET",
                    .scheme = target_.access.links.connector.tls == nullptr ? "http" : "https",
                    .authority = target_.access.authority,
                    .path = target_.short_path.empty() ? target_.path : target_.short_path};
    request.fields.add("user-agent", "evenkeel");
    request.fields.add("accept", "text/plain;version=0.0.4;q=1,*/*;q=0.1");
    if (!target_.access.authorization.empty()) {
      request.fields.add("authorization", target_.access.authorization);
    }
    auto response = co_await (*link)->send(request);
    if (!response) {
      Error& error = response.error();
      const bool safe_to_resend = error.idle_close_race || error.not_processed;
      if (!safe_to_resend || link_choice == LinkPool::LinkChoice::fresh) co_return std::move(error);
      link_choice = LinkPool::LinkChoice::fresh;  // the server had closed the one that was kept
      continue;
    }

    Scraped scraped{.status = response->status};
    scraped.open_metrics =
        response->fields.value("content-type").value_or("").starts_with("application/openmetrics");
    const BodyPtr body = std::move(response->body);
    scraped.has_length = body == nullptr || body->length().has_value();
    std::size_t size = 0;
    std::size_t in_turn = 0;
    for (bool last = body == nullptr; !last;) {
      auto chunk = co_await body->read();
      if (!chunk) co_return std::move(chunk.error());
      size += chunk->bytes.size();
      if (size > max_bytes) {
        co_return Error{.fault = Fault::backend_protocol,
                        .side = Side::backend,
                        .detail = "an exposition without end"};
      }
      if (scraped.status == 200) observer.take(chunk->bytes);
      last = chunk->last;
      in_turn += chunk->bytes.size();
      if (in_turn > max_bytes_per_turn && !last) {  // others have questions under way, too
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
