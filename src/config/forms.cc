#include "config/forms.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>

#include "config/text.h"
#include "evenkeel/base/ascii.h"
#include "evenkeel/base/decimal.h"
#include "evenkeel/stats/amount.h"

namespace evenkeel::config_file {

Tree text_schema(std::string pattern) {
  return Tree::map({{"type", Tree::text("string")},
                    {"pattern", Tree::text(pattern.empty() ? R"(\$\{)" : pattern + R"(|\$\{)")}});
}

Tree or_environment(Tree schema) {
  return Tree::map({{"anyOf", Tree::list({std::move(schema), text_schema({})})}});
}

namespace {

template <class Number>
Tree number_schema(const char* type, Number min, Number max) {
  return Tree::map({{"type", Tree::text(type)},
                    {"minimum", Tree::raw(fmt::format("{}", min))},
                    {"maximum", Tree::raw(fmt::format("{}", max))}});
}

struct Unit {
  std::string_view name;
  double factor;
  std::string_view other_names;  // that are not right, in lower case
};

constexpr std::array<Unit, 5> duration_units = {
    {{"ms", 1, "msec msecs millis millisecond milliseconds"},
     {"s", 1000, "sec secs second seconds"},
     {"m", 60'000, "min mins minute minutes"},
     {"h", 3'600'000, "hr hrs hour hours"},
     {"d", 86'400'000, "day days"}}};
constexpr std::array<Unit, 5> size_units = {{{"B", 1, "byte bytes"},
                                             {"KiB", 1024, "k kb ki"},
                                             {"MiB", 1048576, "m mb mi"},
                                             {"GiB", 1073741824, "g gb gi"},
                                             {"TiB", 1099511627776, "t tb ti"}}};

// "30 s": the number as written, and what follows it.
struct Quantity {
  std::string_view number;
  std::string_view unit;
  double value = 0;
};

std::optional<Quantity> split_quantity(std::string_view text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const auto value = parse_number<double>(text.substr(0, digits));
  if (!value) return std::nullopt;
  Quantity quantity{text.substr(0, digits), text.substr(digits), *value};
  while (quantity.unit.starts_with(' ')) quantity.unit.remove_prefix(1);
  return quantity;
}

constexpr std::array<Unit, 4> amount_units = {
    {{"", 1, ""}, {"k", 1e3, ""}, {"M", 1e6, ""}, {"G", 1e9, "b"}}};
constexpr double max_amount = 1e12;
constexpr double max_money = 1e13;  // in millionths
// The periods, in the order of LimitPeriod.
constexpr std::array<Unit, 5> periods = {{{"s", 0, "sec secs second seconds"},
                                          {"min", 0, "m mins minute minutes"},
                                          {"hour", 0, "h hr hrs hours"},
                                          {"day", 0, "d days"},
                                          {"month", 0, "mo mon months"}}};

// How a quantity is to be written.
struct QuantityRule {
  std::span<const Unit> units;
  std::string_view usual_unit;  // what a number without a unit probably means
  std::string_view expected;    // "a duration such as 30s"
  double min;
  double max;
  std::string range;
  std::string_view instead_of_zero{};  // what to write if it is not to happen; empty: nothing

  bool fits(double value) const { return value >= min && value <= max; }
};

// The unit of this name, however it is written; null: none.
const Unit* unit_meant(std::span<const Unit> units, std::string_view name) {
  const auto exact = std::ranges::find(units, name, &Unit::name);
  if (exact != units.end()) return &*exact;
  const std::string word = lower_case(name);
  const auto unit = std::ranges::find_if(units, [&](const Unit& each) {
    return lower_case(each.name) == word || lists_word(each.other_names, word);
  });
  return unit == units.end() ? nullptr : &*unit;
}

// What to write in place of a quantity without a unit, or with another one; empty: unknown.
std::string quantity_meant(const Quantity& quantity, const QuantityRule& rule) {
  const bool has_unit = !quantity.unit.empty();
  const Unit* const unit = unit_meant(rule.units, has_unit ? quantity.unit : rule.usual_unit);
  if (unit == nullptr) return {};
  if (!has_unit && !rule.fits(quantity.value * unit->factor)) return {};
  return did_you_mean(fmt::format("{}{}", quantity.number, unit->name));
}

// Reads a number with its unit, in the smallest unit; reports what is wrong with it.
std::optional<double> read_quantity(const Node& node, const QuantityRule& rule) {
  const auto scalar = node.scalar(rule.expected);
  if (!scalar) return std::nullopt;
  const auto quantity = split_quantity(scalar->text);
  if (!quantity) {
    node.fail_expected(rule.expected);
    return std::nullopt;
  }
  const bool spaced = quantity->number.size() + quantity->unit.size() != scalar->text.size();
  const auto unit = std::ranges::find(rule.units, quantity->unit, &Unit::name);
  if (unit == rule.units.end() || spaced) {
    const std::string meant = quantity_meant(*quantity, rule);
    node.fail_expected(rule.expected, meant.empty() ? std::string(rule.instead_of_zero) : meant);
    return std::nullopt;
  }
  const double value = quantity->value * unit->factor;
  if (rule.fits(value)) return value;
  node.fail_out_of_range(scalar->text, rule.range,
                         value == 0 ? std::string(rule.instead_of_zero) : std::string());
  return std::nullopt;
}

// 80 for "80%".
std::optional<double> percentage(std::string_view text) {
  const auto quantity = split_quantity(text);
  if (!quantity || quantity->unit != "%") return std::nullopt;
  return quantity->value;
}

// Reads a number without a unit; reports what is wrong with it. `one_percent`: what 1% means.
template <class Number>
std::optional<Number> read_number(const Node& node, std::string_view expected, Number min,
                                  Number max, const std::string& range, double one_percent) {
  const auto scalar = node.scalar(expected);
  if (!scalar) return std::nullopt;
  const std::string_view text = scalar->text;
  Number number{};
  const auto [stopped, error] = std::from_chars(text.begin(), text.end(), number);
  const bool is_number = error != std::errc::invalid_argument && stopped == text.end();
  if (!is_number || (node.is_quoted() && !scalar->from_environment)) {
    const auto percent = percentage(text);
    node.fail_expected(expected, is_number ? "remove the quotes"
                                 : percent
                                     ? did_you_mean(fmt::format("{:g}", *percent * one_percent))
                                     : "");
    return std::nullopt;
  }
  if (error == std::errc{} && number >= min && number <= max) return number;
  const double share = static_cast<double>(number) * one_percent;
  const bool is_percentage = max <= 1 && number > 1 && share >= static_cast<double>(min) &&
                             share <= static_cast<double>(max);
  node.fail_out_of_range(text, range,
                         is_percentage ? did_you_mean(fmt::format("{:g}", share)) : "");
  return std::nullopt;
}

std::string format_duration(milliseconds value) {
  constexpr std::int64_t hour = 3'600'000;
  const std::int64_t count = value.count();
  if (count >= hour && count % hour == 0) return fmt::format("{}h", count / hour);
  if (count % 1000 == 0) return fmt::format("{}s", count / 1000);
  return fmt::format("{}ms", count);
}

std::string size_text(std::uint64_t value) {
  std::size_t unit = 0;
  while (value != 0 && value % 1024 == 0 && unit + 1 < size_units.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{}{}", value, size_units[unit].name);
}

}  // namespace

void DurationForm::read(const Node& node, Value& value) const {
  const auto count = read_quantity(node, {.units = duration_units,
                                          .usual_unit = usual_unit,
                                          .expected = "a duration such as 30s or 500ms",
                                          .min = static_cast<double>(min.count()),
                                          .max = static_cast<double>(max.count()),
                                          .range = range(),
                                          .instead_of_zero = instead_of_zero});
  if (!count) return;
  value = milliseconds{std::llround(*count)};
  node.hide(format_duration(value));
}

Tree DurationForm::tree(const Value& value, const Value*) const {
  return Tree::text(format_duration(value));
}

Tree DurationForm::schema() const { return text_schema(R"(^[0-9]+(\.[0-9]+)?(ms|s|m|h|d)$)"); }

std::string DurationForm::range() const {
  return fmt::format("{} to {}", format_duration(min), format_duration(max));
}

void SizeForm::read(const Node& node, Value& value) const {
  const auto count = read_quantity(node, {.units = size_units,
                                          .usual_unit = "B",
                                          .expected = "a size such as 512B, 32KiB or 8MiB",
                                          .min = static_cast<double>(min),
                                          .max = static_cast<double>(max),
                                          .range = range()});
  if (!count) return;
  value = static_cast<std::uint64_t>(std::llround(*count));
  node.hide(size_text(value));
}

Tree SizeForm::tree(const Value& value, const Value*) const { return Tree::text(size_text(value)); }

Tree SizeForm::schema() const { return text_schema(R"(^[0-9]+(\.[0-9]+)?([KMGT]i)?B$)"); }

std::string SizeForm::range() const {
  return fmt::format("{} to {}", size_text(min), size_text(max));
}

std::optional<std::int64_t> WholeNumber::read(const Node& node) const {
  const auto number = read_number(node, "a whole number", min, max, range(), 1);
  if (number) node.hide(std::to_string(*number));
  return number;
}

Tree WholeNumber::schema() const { return or_environment(number_schema("integer", min, max)); }

std::string WholeNumber::range() const {
  return min == max ? std::to_string(min) : fmt::format("{} to {}", min, max);
}

void RatioForm::read(const Node& node, Value& value) const {
  const auto number = read_number(node, "a number such as 1.25", min, max, range(), 0.01);
  if (!number) return;
  value = *number;
  node.hide(tree(value, nullptr).scalar);
}

Tree RatioForm::tree(const Value& value, const Value*) const {
  return Tree::raw(fmt::format("{}", value));
}

Tree RatioForm::schema() const { return or_environment(number_schema("number", min, max)); }

std::string RatioForm::range() const { return fmt::format("{:g} to {:g}", min, max); }

void RedisAddressForm::read(const Node& node, Value& value) const {
  constexpr std::string_view expected = "a URL such as redis://127.0.0.1:6379/0";
  node.hide_password();
  const auto scalar = node.scalar(expected);
  if (!scalar) return;
  std::string why;
  auto address = parse_redis_address(scalar->text, why);
  if (!address) return node.fail_expected(expected, why);
  value = std::move(*address);
  node.hide(tree(value, nullptr).scalar);
}

Tree RedisAddressForm::schema() const { return text_schema("^rediss?://"); }

void RateForm::read(const Node& node, Value& value) const {
  const std::string_view expected = is_money ? "an amount such as 500/month or 2.5/day"
                                             : "a rate such as 600/min, 5M/day or 10/s";
  const auto scalar = node.scalar(expected);
  if (!scalar) return;
  const std::string_view text = scalar->text;
  const std::size_t slash = text.find('/');
  const auto amount = split_quantity(text.substr(0, slash));
  const std::string_view word = slash == std::string_view::npos ? "" : text.substr(slash + 1);
  if (!amount || amount->number.size() + amount->unit.size() != std::min(slash, text.size())) {
    node.fail_expected(expected);
    return;
  }
  const Unit* const unit = unit_meant(amount_units, amount->unit);
  const Unit* const period = unit_meant(periods, word);
  if (unit == nullptr || period == nullptr || unit->name != amount->unit || period->name != word) {
    const bool is_known = unit != nullptr && period != nullptr;
    node.fail_expected(expected, is_known ? did_you_mean(fmt::format("{}{}/{}", amount->number,
                                                                     unit->name, period->name))
                                          : "");
    return;
  }
  const double most = std::round(amount->value * unit->factor * (is_money ? 1e6 : 1));
  if (most < 1 || most > (is_money ? max_money : max_amount)) {
    node.fail_out_of_range(scalar->text, is_money ? "0.000001 to 10M" : "1 to 1000G");
    return;
  }
  value = {.amount = static_cast<std::uint64_t>(most),
           .period = static_cast<LimitPeriod>(period - periods.data())};
  node.hide(tree(value, nullptr).scalar);
}

Tree RateForm::tree(const Value& value, const Value*) const {
  const std::string amount =
      is_money ? Amount::of_millionths(value.amount).text() : std::to_string(value.amount);
  return Tree::text(
      fmt::format("{}/{}", amount, periods[static_cast<std::size_t>(value.period)].name));
}

Tree RateForm::schema() const {
  return text_schema(R"(^[0-9]+(\.[0-9]+)?[kMG]?/(s|min|hour|day|month)$)");
}

void PercentForm::read(const Node& node, Value& value) const {
  constexpr std::string_view expected = "a percentage such as 20%";
  const auto scalar = node.scalar(expected);
  if (!scalar) return;
  const auto quantity = split_quantity(scalar->text);
  const bool is_share = quantity && quantity->unit.empty();
  if (!quantity || (!is_share && quantity->unit != "%")) {
    node.fail_expected(expected);
    return;
  }
  const double share = is_share ? quantity->value : quantity->value / 100;
  if (share < min || share > max) {
    const bool lacks_sign = is_share && share / 100 >= min && share / 100 <= max;
    node.fail_out_of_range(scalar->text, range(),
                           lacks_sign ? did_you_mean(scalar->text + "%") : "");
    return;
  }
  value = share;
  node.hide(tree(value, nullptr).scalar);
}

Tree PercentForm::tree(const Value& value, const Value*) const {
  return Tree::text(fmt::format("{:g}%", value * 100));
}

Tree PercentForm::schema() const {
  return Tree::map({{"anyOf", Tree::list({text_schema(R"(^[0-9]+(\.[0-9]+)?%$)"),
                                          number_schema("number", min, max)})}});
}

std::string PercentForm::range() const {
  return fmt::format("{:g}% to {:g}%", min * 100, max * 100);
}

void BackoffForm::read(const Node& node, Value& value) const {
  constexpr std::string_view expected = "a range of durations such as 25ms..250ms";
  constexpr double most = 60'000;
  const auto scalar = node.scalar(expected);
  if (!scalar) return;
  const auto parsed = [](std::string_view text) -> std::optional<double> {
    const auto quantity = split_quantity(text);
    if (!quantity) return std::nullopt;
    for (const Unit& unit : duration_units) {
      if (unit.name == quantity->unit) return quantity->value * unit.factor;
    }
    return std::nullopt;
  };
  const std::string_view text = scalar->text;
  const std::size_t dots = text.find("..");
  const auto base = parsed(text.substr(0, dots));
  const auto max = dots == std::string_view::npos ? base : parsed(text.substr(dots + 2));
  if (!base || !max || *base > *max) {
    node.fail_expected(expected);
    return;
  }
  if (*max > most) {
    node.fail_out_of_range(text, "at most 60s");
    return;
  }
  value = {milliseconds{std::llround(*base)}, milliseconds{std::llround(*max)}};
  node.hide(tree(value, nullptr).scalar);
}

Tree BackoffForm::tree(const Value& value, const Value*) const {
  return Tree::text(format_duration(value.base) + ".." + format_duration(value.max));
}

Tree BackoffForm::schema() const {
  return text_schema(R"(^[0-9]+(\.[0-9]+)?(ms|s|m)(\.\.[0-9]+(\.[0-9]+)?(ms|s|m))?$)");
}

void FlagForm::read(const Node& node, Value& value) const {
  const auto scalar = node.scalar("true or false");
  if (!scalar) return;
  const bool is_flag = scalar->text == "true" || scalar->text == "false";
  if (is_flag && (!node.is_quoted() || scalar->from_environment)) {
    value = scalar->text == "true";
    return;
  }
  const std::string word = lower_case(scalar->text);
  std::string help;
  if (word == "true" || word == "yes" || word == "on") help = did_you_mean("true");
  if (word == "false" || word == "no" || word == "off") help = did_you_mean("false");
  node.fail_expected("true or false", is_flag ? "remove the quotes" : help);
}

Tree FlagForm::schema() const {
  return or_environment(Tree::map({{"type", Tree::text("boolean")}}));
}

void WorkersForm::read(const Node& node, Value& value) const {
  if (node.is_scalar()) {
    const auto scalar = node.scalar("auto or a whole number");
    if (!scalar) return;
    if (scalar->text == "auto") {
      value = 0;
      return;
    }
    if (type_of_plain(scalar->text) != PlainType::number) {
      node.fail_expected("auto or a whole number");
      return;
    }
  }
  if (const auto count = number.read(node)) value = static_cast<unsigned>(*count);
}

Tree WorkersForm::tree(const Value& value, const Value*) const {
  return value == 0 ? Tree::text("auto") : Tree::raw(std::to_string(value));
}

Tree WorkersForm::schema() const {
  Tree schema = number.schema();
  auto& forms = schema.items[0].items;
  forms.insert(forms.begin(), Tree::map({{"const", Tree::text("auto")}}));
  return schema;
}

void MemoryLimitForm::read(const Node& node, Value& value) const {
  constexpr std::string_view expected = "auto, off, a size such as 512MiB or a percentage";
  const auto scalar = node.scalar(expected);
  if (!scalar) return;
  const std::string text = scalar->text;
  using Kind = MemoryLimit::Kind;
  if (text == "auto" || text == "off") {
    value = {.kind = text == "auto" ? Kind::automatic : Kind::off};
  } else if (text.ends_with('%')) {
    double share = 1;
    PercentForm(0.01, 1).read(node, share);
    value = {.kind = Kind::share, .share = share};
  } else if (const auto quantity = split_quantity(text); quantity && quantity->unit.empty()) {
    const bool is_too_small = quantity->value < static_cast<double>(size.min);
    const char* const unit = quantity->value <= 100 ? "%" : is_too_small ? "MiB" : "B";
    node.fail_expected(expected, did_you_mean(text + unit));
  } else if (quantity) {
    std::uint64_t bytes = size.min;
    size.read(node, bytes);
    value = {.kind = Kind::bytes, .bytes = bytes};
  } else {
    node.fail_expected(expected);
  }
}

Tree MemoryLimitForm::tree(const Value& value, const Value*) const {
  switch (value.kind) {
    case MemoryLimit::Kind::automatic: return Tree::text("auto");
    case MemoryLimit::Kind::off: return Tree::text("off");
    case MemoryLimit::Kind::bytes: return Tree::text(size_text(value.bytes));
    case MemoryLimit::Kind::share: break;
  }
  return Tree::text(fmt::format("{:g}%", value.share * 100));
}

Tree MemoryLimitForm::schema() const {
  return text_schema(R"(^(auto|off|[0-9]+(\.[0-9]+)?(%|([KMGT]i)?B))$)");
}

}  // namespace evenkeel::config_file
