// A configuration from that of another proxy, as far as it can be read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/config/config.h"

namespace evenkeel {

enum class ImportFormat : std::uint8_t { nginx, haproxy, litellm };

/// Something of the file that the configuration lacks, or has in another way.
struct ImportNote {
  int line = 0;        ///< of the file; 0: of no line in particular
  std::string text;    ///< printable; without values that may be secrets
  bool opens = false;  ///< a protection of the file is lost
};

struct Import {
  std::optional<Config> config;   ///< nothing: the file could not be used
  std::vector<ImportNote> notes;  ///< in the order of the lines
  ImportNote error;               ///< why not; only without a config
};

/// Reads a file of that program. Does not throw, whatever the text contains, and reads no file that
/// it names. `listen`: the only address of the file that counts; empty: all, which must then lead
/// to the same routes.
Import import_config(ImportFormat format, std::string_view text, std::string_view listen = {});

}  // namespace evenkeel
