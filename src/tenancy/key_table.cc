#include "evenkeel/tenancy/key_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "evenkeel/config/spelling.h"

namespace evenkeel {
namespace {

constexpr std::size_t max_problems = 100;

/// A key, and the line that it is in; 0: it is in the configuration.
struct Placed {
  KeyTable::Key key;
  int line;
};

/// Where the first of two keys with the same hash is.
std::string place_of(const Placed& first, const std::vector<std::string>& tenant_names) {
  if (first.line > 0) return fmt::format("line {}", first.line);
  return fmt::format("keys_sha256 of tenant '{}'", tenant_names[first.key.tenant]);
}

}  // namespace

KeyTable::Built KeyTable::build(const std::vector<TenantConfig>& tenants,
                                std::string_view file_text) {
  KeyFileText read = read_keys(file_text);
  Built built{.table = nullptr, .problems = std::move(read.problems)};
  auto table = std::make_shared<KeyTable>();
  std::map<std::string_view, std::uint32_t> numbers;
  std::vector<Placed> all;
  for (const TenantConfig& tenant : tenants) {
    const auto number = static_cast<std::uint32_t>(table->tenant_names_.size());
    table->tenant_names_.push_back(tenant.name);
    numbers.emplace(tenant.name, number);
    for (const std::string& text : tenant.keys_sha256) {
      const auto hash = key_hash_of(text);
      if (!hash) continue;
      all.push_back({{{.id = key_id_of(*hash), .name = {}, .models = {}}, *hash, number, {}}, 0});
    }
  }
  for (KeyLine& line : read.keys) {
    const auto tenant = numbers.find(line.tenant);
    if (tenant == numbers.end()) {
      if (built.problems.size() >= max_problems) break;
      const auto meant = nearest_word(line.tenant, table->tenant_names_);
      built.problems.push_back({line.number, line.tenant_column,
                                "the configuration has no such tenant",
                                meant ? fmt::format("did you mean '{}'?", *meant)
                                      : std::string("add it to `tenants`, or remove the line")});
      continue;
    }
    all.push_back({{{.id = key_id_of(line.hash),
                     .name = std::move(line.name),
                     .models = std::move(line.models)},
                    line.hash,
                    tenant->second,
                    line.expires},
                   line.number});
  }
  std::ranges::sort(all, {}, [](const Placed& each) { return std::tie(each.key.hash, each.line); });
  table->keys_.reserve(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i > 0 && all[i - 1].key.hash == all[i].key.hash) {
      if (all[i].line > 0 && built.problems.size() < max_problems) {
        built.problems.push_back({all[i].line, 1,
                                  fmt::format("this key is given twice, first in {}",
                                              place_of(all[i - 1], table->tenant_names_)),
                                  "remove one of them"});
      }
      // The one before it is looked at again for a third.
      all[i].line = all[i - 1].line;
      continue;
    }
    table->limits_models_ |= !all[i].key.models.empty();
    table->keys_.push_back(std::move(all[i].key));
  }
  std::ranges::sort(built.problems, {}, &FileProblem::line);
  if (built.problems.empty()) built.table = std::move(table);
  return built;
}

const KeyTable::Key* KeyTable::find(const KeyHash& hash) const {
  const auto found = std::ranges::lower_bound(keys_, hash, {}, &Key::hash);
  return found == keys_.end() || found->hash != hash ? nullptr : &*found;
}

}  // namespace evenkeel
