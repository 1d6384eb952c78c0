// What is remembered of each backend of a pool, from one version of the pool to the next.
#pragma once

#include <unordered_map>
#include <unordered_set>

#include "evenkeel/backend/backend.h"

namespace evenkeel {

template <class Record>
using BackendRecords = std::unordered_map<const SharedBackend*, Record>;

/// Forgets the backends that are not among these.
template <class Record>
void forget_others(BackendRecords<Record>& records, const Backends& backends) {
  std::unordered_set<const SharedBackend*> present;
  for (const BackendPtr& backend : backends) present.insert(&backend->shared());
  std::erase_if(records, [&](const auto& record) { return !present.contains(record.first); });
}

/// Makes the records those of these backends; `make` returns the record of a new one.
template <class Record, class Make>
void sync_records(BackendRecords<Record>& records, const Backends& backends, Make make) {
  for (const BackendPtr& backend : backends) {
    if (!records.contains(&backend->shared())) records.emplace(&backend->shared(), make(*backend));
  }
  if (records.size() > backends.size()) forget_others(records, backends);
}

}  // namespace evenkeel
