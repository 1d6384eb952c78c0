// The forms of texts: free ones, words, addresses and networks.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>

#include "config/forms.h"
#include "config/text.h"
#include "evenkeel/config/spelling.h"

namespace evenkeel::config_file {

void TextForm::read(const Node& node, Value& value) const {
  auto scalar = node.scalar(what);
  if (!scalar) return;
  const bool is_text = node.is_quoted() || scalar->from_environment ||
                       type_of_plain(scalar->text) == PlainType::text;
  if (!is_text) {
    node.fail_expected(what, "a text that looks like this needs quotes");
    return;
  }
  value = scalar->text;
  if (!check) return;
  if (auto problem = check(value)) {
    node.fail(std::move(problem->message), std::move(problem->help));
  }
  node.hide(value);  // as normalised
}

void SecretForm::read(const Node& node, Value& value) const {
  node.hide_secret();
  TextForm::read(node, value);
}

SecretFileForm::SecretFileForm() : SecretForm("the path of a file", check_not_empty) {}

KeyHashForm::KeyHashForm() : TextForm("a SHA-256", check_sha256, sha256_pattern) {}

void KeyHashForm::read(const Node& node, Value& value) const {
  TextForm::read(node, value);
  std::string hash = value;
  if (check_sha256(hash)) node.hide_secret();
}

Tree TextForm::schema() const {
  if (!pattern.empty()) return text_schema(std::string{pattern});
  Tree schema = Tree::map({{"type", Tree::text("string")}});
  if (check) schema.put("minLength", Tree::raw("1"));
  return schema;
}

std::optional<std::size_t> Words::read(const Node& node) const {
  const std::string expected = fmt::format("one of {}", fmt::join(names, ", "));
  const auto scalar = node.scalar(expected);
  if (!scalar) return std::nullopt;
  const auto found = std::ranges::find(names, scalar->text);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());

  auto unknown = unknown_word(what, scalar->text, names);
  node.fail(std::move(unknown.message), std::move(unknown.help));
  return std::nullopt;
}

Tree Words::schema() const {
  return or_environment(Tree::map({{"enum", Tree::list_of_text({names.begin(), names.end()})}}));
}

std::string Words::range() const { return fmt::format("`{}`", fmt::join(names, "`, `")); }

AddressForm listen_address() {
  return {{}, parse_address, "an address such as 0.0.0.0:8080", "0.0.0.0:", ":8080"};
}

AddressForm backend_address() {
  return {{},
          parse_backend_address,
          "an address such as 127.0.0.1:8000 or http://gpu1:8000",
          "127.0.0.1:",
          ":8000"};
}

AddressForm name_server_address() {
  return {{}, parse_name_server, "an address such as 10.0.0.2:53", "127.0.0.1:", ":53"};
}

void AddressForm::read(const Node& node, Value& value) const {
  const auto scalar = node.scalar(what);
  if (!scalar) return;
  node.hide_password();
  std::string why;
  if (auto address = parse(scalar->text, why)) {
    node.hide(address->host);
    node.hide(to_string(*address));
    value = std::move(*address);
    return;
  }
  node.fail(fmt::format("'{}' is not {}: {}", scalar->text, what, why), help_for(scalar->text));
}

std::string AddressForm::help_for(const std::string& text) const {
  const bool only_a_port = !text.empty() && text.size() <= 5 &&
                           text.find_first_not_of("0123456789") == std::string::npos;
  if (only_a_port) return did_you_mean(std::string{example} + text);
  const auto is_right = [this](const std::string& address) {
    std::string why;
    return parse(address, why).has_value();
  };
  const std::string with_port = text + std::string{port};
  if (is_right(with_port)) return fmt::format("add the port, such as in '{}'", with_port);
  const std::size_t scheme = text.find("://");
  if (scheme == std::string::npos) return {};
  const std::string without_path = text.substr(0, text.find('/', scheme + 3));
  if (is_right(without_path)) return did_you_mean(without_path);
  const std::string bare = without_path.substr(scheme + 3);
  return is_right(bare) ? did_you_mean(bare) : "";
}

Tree AddressForm::schema() const { return text_schema(":|^http://"); }

void NetworkForm::read(const Node& node, Value& value) const {
  const auto scalar = node.scalar("a network such as 10.0.0.0/8");
  if (!scalar) return;
  std::string why;
  if (auto network = parse_network(scalar->text, why)) {
    node.hide(network->text);
    value = std::move(*network);
  } else {
    node.fail(fmt::format("'{}' is not a network such as 10.0.0.0/8: {}", scalar->text, why));
  }
}

Tree NetworkForm::schema() const {
  return Tree::map({{"type", Tree::text("string")}, {"minLength", Tree::raw("1")}});
}

}  // namespace evenkeel::config_file
