#include "evenkeel/json/writer.h"

#include "evenkeel/base/utf8.h"

namespace evenkeel {

void append_json_string(std::string& out, std::string_view text) {
  constexpr char digits[] = "0123456789abcdef";
  out += '"';
  while (!text.empty()) {
    const char c = text.front();
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n' || c == '\r' || c == '\t') {
      out += '\\';
      out += c == '\n' ? 'n' : c == '\r' ? 'r' : 't';
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\u00";
      out += digits[byte >> 4];
      out += digits[byte & 15];
    } else {
      const std::size_t length = utf8_length(text);
      if (length == 0) {
        out += "\xef\xbf\xbd";
      } else {
        out += text.substr(0, length);
        text.remove_prefix(length - 1);
      }
    }
    text.remove_prefix(1);
  }
  out += '"';
}

std::string json_string(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

}  // namespace evenkeel
