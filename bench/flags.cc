#include "bench/flags.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>

namespace evenkeel::bench {
namespace {

template <class Number>
Number parse(std::string_view name, std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    exit_with_usage_error(std::string(name) + ": not a number: " + std::string(text));
  }
  return value;
}

}  // namespace

void exit_with_usage_error(std::string_view what) {
  std::fprintf(stderr, "usage error: %.*s\n", static_cast<int>(what.size()), what.data());
  std::exit(2);
}

Flags::Flags(int argument_count, char** arguments) {
  for (int i = 1; i < argument_count; i += 2) {
    const std::string_view name = arguments[i];
    if (!name.starts_with("--"))
      exit_with_usage_error("expected a --flag, found " + std::string(name));
    if (i + 1 >= argument_count) exit_with_usage_error(std::string(name) + " needs a value");
    values_.emplace(name, arguments[i + 1]);
  }
}

std::string Flags::text(std::string_view name, std::string_view fallback) {
  queried_.emplace(name);
  const auto found = values_.find(name);
  return found == values_.end() ? std::string(fallback) : found->second;
}

std::uint64_t Flags::number(std::string_view name, std::uint64_t fallback) {
  const std::string value = text(name, "");
  return value.empty() ? fallback : parse<std::uint64_t>(name, value);
}

double Flags::real(std::string_view name, double fallback) {
  const std::string value = text(name, "");
  return value.empty() ? fallback : parse<double>(name, value);
}

std::vector<std::string> Flags::all(std::string_view name) {
  queried_.emplace(name);
  std::vector<std::string> found;
  const auto [first, last] = values_.equal_range(name);
  for (auto at = first; at != last; ++at) found.push_back(at->second);
  return found;
}

void Flags::reject_unknown() const {
  for (const auto& [name, value] : values_) {
    if (!queried_.contains(name)) exit_with_usage_error("unknown flag " + name);
  }
}

}  // namespace evenkeel::bench
