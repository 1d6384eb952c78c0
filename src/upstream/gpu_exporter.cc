#include "upstream/gpu_exporter.h"

#include <algorithm>
#include <utility>

#include "evenkeel/config/address.h"

namespace evenkeel {

namespace {

/// Position of the path in a URL; npos: there is none.
std::size_t path_begin(const std::string& url) {
  const std::size_t scheme_end = url.find("://");
  return url.find('/', scheme_end == url.npos ? 0 : scheme_end + 3);
}

}  // namespace

Result<std::shared_ptr<const TlsClientContext>> SystemTrustStore::client() {
  if (auto known = client_.lock()) return known;
  auto built = TlsClientContext::build(PoolTlsConfig{});
  if (built) client_ = *built;
  return built;
}

std::string path_of(const std::string& url, std::string_view default_path) {
  const std::size_t slash = path_begin(url);
  const bool bare = slash == url.npos || slash + 1 == url.size();
  return bare ? std::string(default_path) : url.substr(slash);
}

Result<ScrapeTarget> parse_scrape_target(const std::string& url, std::string_view default_path,
                                         SystemTrustStore& trust_store) {
  const std::size_t slash = path_begin(url);
  std::string why;
  const auto address = parse_backend_address(std::string_view(url).substr(0, slash), why);
  if (!address) return Error{.fault = Fault::bad_request, .detail = url + ": " + why};
  ScrapeTarget target{.host = address->host, .port = address->port};
  target.access.authority =
      authority_of(normal_host(address->host), address->port, address->secure);
  target.path = path_of(url, default_path);
  if (address->secure) {
    auto tls = trust_store.client();
    if (!tls) return std::move(tls.error());
    target.access.links.connector.tls = std::move(*tls);
    target.access.links.connector.server_name = address->host;
  }
  return target;
}

GpuExporter::GpuExporter(Loop& loop, ScrapeTarget target, NameResolver resolve, std::uint64_t seed)
    : PolledSource(loop, std::move(target), std::move(resolve),
                   {.interval = min_interval, .timeout = min_timeout, .seed = seed}) {
  start();
}

void GpuExporter::add(ValuesObserver& observer, const MetricsConfig& config) {
  users_.push_back({&observer, config.interval, config.timeout});
  apply_fastest_settings();
}

void GpuExporter::remove(ValuesObserver& observer) {
  std::erase_if(users_, [&](const User& user) { return user.observer == &observer; });
  apply_fastest_settings();
}

void GpuExporter::apply_fastest_settings() {
  if (users_.empty()) return;
  const Duration interval = std::ranges::min(users_, {}, &User::interval).interval;
  const Duration timeout = std::ranges::max(users_, {}, &User::timeout).timeout;
  change(std::max(interval, min_interval), std::max(timeout, min_timeout));
}

std::string GpuExporter::finish(const Scraped& scraped) {
  if (is_truncated(scraped, *reader_)) return "the metrics page is incomplete";
  auto gpus = reader_->gpus();
  if (gpus.empty()) return "the page has no GPU";
  gpus_ = std::move(gpus);
  return {};
}

void GpuExporter::notify() {
  for (const User& user : users_) user.observer->on_values_changed();
}

std::shared_ptr<GpuExporter> GpuExporters::at(const std::string& url) {
  std::erase_if(by_url_, [](const auto& known) { return known.second.expired(); });
  if (auto known = by_url_[url].lock()) return known;
  auto target = parse_scrape_target(url, "/metrics", trust_store_);
  if (!target) return nullptr;
  auto made = std::make_shared<GpuExporter>(loop_, std::move(*target), resolve_, random_());
  by_url_[url] = made;
  return made;
}

}  // namespace evenkeel
