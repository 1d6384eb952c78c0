// The API keys of all tenants.
#pragma once

#include <array>
#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/api_key.h"
#include "evenkeel/config/config.h"
#include "evenkeel/config/load.h"

namespace evenkeel {

/// The SHA-256 of an API key: what is known of it.
using KeyHash = std::array<std::uint8_t, 32>;

/// Reads 64 hexadecimal digits. Nothing: it is another text.
std::optional<KeyHash> key_hash_of(std::string_view hexadecimal);
std::string hexadecimal(const KeyHash& hash);
/// The id of a key: the first 8 hexadecimal digits of its hash.
std::string key_id_of(const KeyHash& hash);

/// A line of a file of keys:
///
///     sha256:HEX tenant=NAME [name=TEXT] [models=GLOB,GLOB] [expires=RFC3339]
struct KeyLine {
  KeyHash hash{};
  std::string tenant;
  std::string name;
  std::vector<std::string> models;
  std::optional<std::chrono::sys_seconds> expires;
  int number = 0;         ///< of the line, from 1
  int tenant_column = 0;  ///< from 1
};

/// The longest name of a key, and the most that a file of keys may hold.
inline constexpr std::size_t max_key_name_bytes = 64;
inline constexpr std::size_t max_keys = 500'000;
inline constexpr std::size_t max_key_file_bytes = std::size_t{64} << 20;

/// What a file of keys says, and what is wrong with it; only the first problems are listed.
struct KeyFileText {
  std::vector<KeyLine> keys;
  std::vector<FileProblem> problems;
};

/// Reads the text of a file of keys. '#' begins a comment; blank lines count for nothing.
KeyFileText read_keys(std::string_view text);

/// The line of a key, without a line end.
std::string key_line_text(const KeyLine& key);

/// Finds the tenant of a key by its hash. Immutable; any thread.
class KeyTable {
 public:
  struct Key : ApiKey {
    KeyHash hash{};
    std::uint32_t tenant = 0;  ///< number of `tenant_names`
    std::optional<std::chrono::sys_seconds> expires;

    /// True if the key counts no longer.
    bool has_expired(std::chrono::system_clock::time_point now) const {
      return expires && now >= *expires;
    }
  };

  /// A table, or what is wrong with the file of keys.
  struct Built {
    std::shared_ptr<const KeyTable> table;  ///< null: there are problems
    std::vector<FileProblem> problems;
  };

  /// The keys that the configuration has itself, and those of the text of its file of keys.
  static Built build(const std::vector<TenantConfig>& tenants, std::string_view file_text);

  /// Finds a key; null if no tenant has it. How long it takes depends on the hash, and so tells
  /// nothing of the key.
  const Key* find(const KeyHash& hash) const;

  std::size_t size() const { return keys_.size(); }
  const std::vector<std::string>& tenant_names() const { return tenant_names_; }
  /// True if some key may use only some models.
  bool limits_models() const { return limits_models_; }

 private:
  std::vector<Key> keys_;  // by hash
  std::vector<std::string> tenant_names_;
  bool limits_models_ = false;
};

}  // namespace evenkeel
