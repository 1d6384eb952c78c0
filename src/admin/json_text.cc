#include "admin/json_text.h"

#include <string_view>

#include "evenkeel/json/writer.h"

namespace evenkeel {
namespace {

void write(JsonWriter& json, const boost::json::value& value) {
  switch (value.kind()) {
    case boost::json::kind::null: json.null(); return;
    case boost::json::kind::bool_: json.value(value.get_bool()); return;
    case boost::json::kind::int64: json.value(std::int64_t{value.get_int64()}); return;
    case boost::json::kind::uint64: json.value(std::uint64_t{value.get_uint64()}); return;
    case boost::json::kind::double_: json.value(value.get_double()); return;
    case boost::json::kind::string: {
      const boost::json::string& text = value.get_string();
      json.value(std::string_view(text.data(), text.size()));
      return;
    }
    case boost::json::kind::array:
      json.begin_list();
      for (const boost::json::value& item : value.get_array()) write(json, item);
      json.end_list();
      return;
    case boost::json::kind::object:
      json.begin_object();
      for (const auto& [name, item] : value.get_object()) {
        json.key(std::string_view(name.data(), name.size()));
        write(json, item);
      }
      json.end_object();
      return;
  }
}

}  // namespace

std::string to_text(const boost::json::value& value) {
  JsonWriter json;
  write(json, value);
  return json.take();
}

}  // namespace evenkeel
