#include "server/key_file.h"

#include <string_view>
#include <utility>
#include <variant>

#include "evenkeel/base/file.h"

namespace evenkeel {

KeyTable::Built read_api_keys(const std::vector<TenantConfig>& tenants, const std::string& file) {
  if (file.empty()) return KeyTable::build(tenants, {});
  auto read = read_file(file, max_key_file_bytes);
  if (const auto* failure = std::get_if<FileError>(&read)) {
    return {.table = nullptr,
            .problems = {{.message = "cannot be read: " + failure->why,
                          .help = "create it with `evenkeel key create`, and let this user read "
                                  "it"}}};
  }
  return KeyTable::build(tenants, std::get<std::string>(read));
}

KeyTable::Built read_api_keys(const Config& config) {
  return read_api_keys(config.tenants, config.auth ? config.auth->keys.file : std::string());
}

}  // namespace evenkeel
