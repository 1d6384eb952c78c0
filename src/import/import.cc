#include "evenkeel/import/import.h"

#include "evenkeel/base/utf8.h"
#include "import/haproxy.h"
#include "import/litellm.h"
#include "import/nginx.h"

namespace evenkeel {
namespace {

Import import_as(ImportFormat format, std::string_view text, std::string_view listen) {
  switch (format) {
    case ImportFormat::nginx: return import::import_nginx(text, listen);
    case ImportFormat::haproxy: return import::import_haproxy(text, listen);
    case ImportFormat::litellm: return import::import_litellm(text);
  }
  return {};
}

}  // namespace

Import import_config(ImportFormat format, std::string_view text, std::string_view listen) {
  constexpr std::size_t max_error = 400;
  Import result = import_as(format, text, listen);
  result.error.text = printable_utf8(result.error.text.substr(0, max_error));
  return result;
}

}  // namespace evenkeel
