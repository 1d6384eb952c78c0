#include "evenkeel/stats/sheet.h"

namespace evenkeel {

StatusCounters::~StatusCounters() {
  for (auto& hundred : hundreds_) delete hundred.load(std::memory_order_relaxed);
}

std::uint64_t StatusCounters::value(int status) const {
  const auto hundred = static_cast<unsigned>(status) / 100 - 1;
  if (hundred >= hundreds_.size()) return other_.value();
  const Hundred* block = hundreds_[hundred].load(std::memory_order_acquire);
  return block == nullptr ? 0 : (*block)[static_cast<unsigned>(status) % 100].value();
}

bool StatusCounters::used() const {
  for (const auto& hundred : hundreds_) {
    if (hundred.load(std::memory_order_relaxed) != nullptr) return true;
  }
  return other_.value() != 0;
}

StatusCounters::Hundred* StatusCounters::make(std::size_t hundred) {
  auto made = std::make_unique<Hundred>();
  // Release: a reader that finds the block finds its counters made.
  hundreds_[hundred].store(made.get(), std::memory_order_release);
  return made.release();
}

void Sheet::count(const RequestTally& request) {
  requests(request.route, request.pool).count(request.status);
  if (request.grpc_status) grpc(request.route, request.pool).count(*request.grpc_status);
  request_bytes_.add(request.request_bytes);
  response_bytes_.add(request.response_bytes);
  if (request.overhead) overhead_.observe(*request.overhead);

  PoolCells& cells = pools_.at(request.pool);
  cells.duration.observe(request.duration);
  if (request.first_byte) cells.first_byte.observe(*request.first_byte);
  if (request.pool != 0) cells.wait.observe(request.waited);
}

Sheets::Sheets(unsigned workers) {
  sheets_.reserve(workers);
  for (unsigned i = 0; i < workers; ++i) sheets_.push_back(std::make_unique<Sheet>());
}

BackendTotals Sheets::backend_totals(std::uint32_t index) const {
  BackendTotals totals;
  Histogram<request_bounds>().add_to(totals.latency);  // its shape, where no worker has any
  for (const auto& sheet : sheets_) {
    const BackendCells* cells = sheet->find_backend(index);
    if (cells == nullptr) continue;
    totals.links_busy += cells->links_busy.value();
    totals.links_idle += cells->links_idle.value();
    cells->latency.add_to(totals.latency);
  }
  return totals;
}

std::int64_t Sheets::in_flight(std::uint32_t pool) const {
  std::int64_t sum = 0;
  for (const auto& sheet : sheets_) {
    if (const PoolCells* cells = sheet->find_pool(pool)) sum += cells->in_flight.value();
  }
  return sum;
}

std::int64_t Sheets::waiting(std::uint32_t pool) const {
  std::int64_t sum = 0;
  for (const auto& sheet : sheets_) {
    if (const PoolCells* cells = sheet->find_pool(pool)) sum += cells->waiting.value();
  }
  return sum;
}

std::int64_t Sheets::connections(std::uint32_t listener) const {
  std::int64_t sum = 0;
  for (const auto& sheet : sheets_) {
    const ListenerCells* cells = sheet->find_listener(listener);
    if (cells == nullptr) continue;
    const auto closed = static_cast<std::int64_t>(cells->closed.value());
    sum += static_cast<std::int64_t>(cells->opened.value()) - closed;
  }
  return sum;
}

}  // namespace evenkeel
