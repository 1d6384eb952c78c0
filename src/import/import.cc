#include "evenkeel/import/import.h"

#include "evenkeel/base/utf8.h"
#include "import/haproxy.h"
#include "import/litellm.h"
#include "import/nginx.h"

namespace evenkeel {
namespace {

Import import_as(ImportFormat format, std::string_view text) {
  switch (format) {
    case ImportFormat::nginx: return import::import_nginx(text);
    case ImportFormat::haproxy: return import::import_haproxy(text);
    case ImportFormat::litellm: return import::import_litellm(text);
  }
  return {};
}

}  // namespace

Import import_config(ImportFormat format, std::string_view text) {
  constexpr std::size_t max_error = 200;
  Import result = import_as(format, text);
  result.error.text = printable_utf8(result.error.text.substr(0, max_error));
  return result;
}

}  // namespace evenkeel
