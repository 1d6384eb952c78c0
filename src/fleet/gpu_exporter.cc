#include "fleet/gpu_exporter.h"

#include <algorithm>
#include <utility>

#include "evenkeel/config/address.h"

namespace evenkeel {

namespace {

/// Where the path of a URL begins; npos: it has none.
std::size_t path_begin(const std::string& url) {
  const std::size_t scheme_end = url.find("://");
  return url.find('/', scheme_end == url.npos ? 0 : scheme_end + 3);
}

}  // namespace

Result<std::shared_ptr<const TlsClient>> SystemTrust::client() {
  if (auto known = client_.lock()) return known;
  auto built = TlsClient::build(PoolTlsConfig{});
  if (built) client_ = *built;
  return built;
}

std::string path_of(const std::string& url, std::string_view otherwise) {
  const std::size_t slash = path_begin(url);
  const bool bare = slash == url.npos || slash + 1 == url.size();
  return bare ? std::string(otherwise) : url.substr(slash);
}

Result<ScrapePlace> scrape_place(const std::string& url, std::string_view otherwise,
                                 SystemTrust& trust) {
  const std::size_t slash = path_begin(url);
  std::string why;
  const auto address = parse_backend_address(std::string_view(url).substr(0, slash), why);
  if (!address) return Error{.fault = Fault::bad_request, .detail = url + ": " + why};
  ScrapePlace place{.host = address->host, .port = address->port};
  place.access.authority = to_string(*address);
  place.path = path_of(url, otherwise);
  if (address->secure) {
    auto tls = trust.client();
    if (!tls) return std::move(tls.error());
    place.access.links.connector.tls = std::move(*tls);
    place.access.links.connector.server_name = address->host;
  }
  return place;
}

GpuExporter::GpuExporter(Loop& loop, ScrapePlace place, NameResolver resolve, std::uint64_t seed)
    : PolledSource(loop, std::move(place), std::move(resolve),
                   {.interval = shortest_interval, .timeout = shortest_timeout, .seed = seed}) {
  start();
}

void GpuExporter::add(GpuListener& listener, const MetricsConfig& config) {
  users_.push_back({&listener, config.interval, config.timeout});
  settle();
}

void GpuExporter::remove(GpuListener& listener) {
  std::erase_if(users_, [&](const User& user) { return user.listener == &listener; });
  settle();
}

void GpuExporter::settle() {
  if (users_.empty()) return;
  const Duration interval = std::ranges::min(users_, {}, &User::interval).interval;
  const Duration timeout = std::ranges::max(users_, {}, &User::timeout).timeout;
  change(std::max(interval, shortest_interval), std::max(timeout, shortest_timeout));
}

std::string GpuExporter::finish(const Scraped& scraped) {
  if (is_cut_short(scraped, *reader_)) return "its exposition is cut short";
  auto gpus = reader_->gpus();
  if (gpus.empty()) return "it tells of no GPU";
  gpus_ = std::move(gpus);
  return {};
}

void GpuExporter::tell() {
  for (const User& user : users_) user.listener->gpus_changed();
}

GpuExporters::GpuExporters(Loop& loop, NameResolver resolve, std::uint64_t seed)
    : state_(new State{.loop = loop, .resolve = std::move(resolve), .random = Rng(seed)}) {}

GpuExporters::~GpuExporters() = default;

std::shared_ptr<GpuExporter> GpuExporters::State::at(const std::string& url) {
  std::erase_if(by_url, [](const auto& known) { return known.second.expired(); });
  if (auto known = by_url[url].lock()) return known;
  auto place = scrape_place(url, "/metrics", trust);
  if (!place) return nullptr;
  auto made = std::make_shared<GpuExporter>(loop, std::move(*place), resolve, random());
  by_url[url] = made;
  return made;
}

}  // namespace evenkeel
