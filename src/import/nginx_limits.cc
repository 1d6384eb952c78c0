#include "import/nginx_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "evenkeel/config/load.h"

namespace evenkeel::import {
namespace {

constexpr std::uint64_t max_rate = 1'000'000;
constexpr std::size_t max_limits = 24;  // of one request; the file may have a few more

std::uint64_t seconds_of(LimitPeriod period) {
  return period == LimitPeriod::second ? 1 : period == LimitPeriod::minute ? 60 : 3600;
}

/// What tells clients apart, for a zone with this key; empty: ours do not know it.
std::string subject_of(std::string_view key) {
  if (key == "$binary_remote_addr" || key == "$remote_addr") return "address";
  constexpr std::string_view field = "$http_";
  if (!key.starts_with(field)) return {};
  std::string name(field_name(key.substr(field.size())).value_or(""));
  std::ranges::replace(name, '_', '-');
  return name.empty() ? "" : "header:" + name;
}

/// "10r/s" or "30r/m".
std::optional<std::pair<std::uint64_t, LimitPeriod>> rate_of(std::string_view text) {
  const bool is_minute = text.ends_with("r/m");
  if (!is_minute && !text.ends_with("r/s")) return std::nullopt;
  const auto count = parse_count(text.substr(0, text.size() - 3));
  if (!count || *count == 0) return std::nullopt;
  return std::pair(std::min<std::uint64_t>(*count, max_rate),
                   is_minute ? LimitPeriod::minute : LimitPeriod::second);
}

std::string name_of(const NginxDirective& directive, std::string_view zone) {
  return directive.name().substr(0, directive.name().find("_zone")) + ' ' + std::string(zone);
}

/// "{by: address, requests: 30/min, burst: 36.7%}".
std::string text_of(const RateLimitConfig& limit) {
  std::string text = fmt::format("{{by: {}", limit.by.front());
  if (limit.concurrent > 0) return text + fmt::format(", concurrent: {}}}", limit.concurrent);
  constexpr const char* periods[] = {"s", "min", "hour"};
  const LimitRate& rate = limit.requests.front();
  text +=
      fmt::format(", requests: {}/{}", rate.amount, periods[static_cast<std::size_t>(rate.period)]);
  return text + (limit.burst < 1 ? fmt::format(", burst: {:g}%}}", limit.burst * 100) : "}");
}

RateLimitConfig limit_of(const std::string& by, std::uint64_t rate, LimitPeriod period,
                         std::uint64_t most) {
  RateLimitConfig limit;
  if (rate > 0) {
    static_cast<LimitsConfig&>(limit) = limit_with_burst(rate, period, most + 1);
  } else {
    limit.concurrent = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(most, 1, max_rate));
  }
  limit.by = {by};
  return limit;
}

}  // namespace

LimitsConfig limit_with_burst(std::uint64_t rate, LimitPeriod period, std::uint64_t at_once) {
  LimitRate each{rate, period};
  const auto longer = [&] {
    const auto next = each.period == LimitPeriod::second ? LimitPeriod::minute : LimitPeriod::hour;
    each.amount *= seconds_of(next) / seconds_of(each.period);
    each.period = next;
  };
  const auto is_whole = [&] {
    constexpr std::uint64_t second = 1'000'000'000;
    return at_once == each.amount && seconds_of(each.period) * second % each.amount == 0;
  };
  while (at_once >= each.amount && !is_whole() && each.period != LimitPeriod::hour) longer();
  LimitsConfig limits{.requests = {each}};
  if (at_once >= each.amount) return limits;
  // A bit more than the share, with as few digits as tell it from that of one request more.
  const double share = 100.0 * static_cast<double>(at_once) / static_cast<double>(each.amount);
  const double more = 100.0 * static_cast<double>(at_once + 1) / static_cast<double>(each.amount);
  for (double digits = 1; digits <= 10'000; digits *= 10) {
    limits.burst = (std::floor(share * digits) + 1) / digits / 100;
    if (limits.burst * 100 < more) break;
  }
  limits.burst = std::clamp(limits.burst, 0.001, 1.0);
  return limits;
}

NginxLimits::NginxLimits(Draft& draft, NginxDirective& root) : draft_(draft) { find_zones(root); }

void NginxLimits::find_zones(NginxDirective& block) {
  for (NginxDirective& each : block.children) {
    find_zones(each);
    const bool of_requests = each.name() == "limit_req_zone";
    if (!of_requests && each.name() != "limit_conn_zone") continue;
    Zone zone{.directive = &each, .by = subject_of(each.argument())};
    std::string name;
    for (const std::string& word : each.arguments()) {
      if (const auto text = value_of(word, "zone=")) name = text->substr(0, text->find(':'));
      const auto text = value_of(word, "rate=");
      if (const auto rate = rate_of(text.value_or(""))) std::tie(zone.rate, zone.period) = *rate;
    }
    if (of_requests && zone.rate == 0) zone.by.clear();
    zones_.try_emplace(name_of(each, name), std::move(zone));
  }
}

void NginxLimits::take(NginxDirective& directive, const NginxScope& location, Place& place) {
  const bool of_requests = directive.name() == "limit_req";
  std::string zone;
  std::uint64_t most = 0;
  bool is_delayed = of_requests;
  for (const std::string& word : directive.arguments()) {
    if (const auto name = value_of(word, "zone=")) zone = *name;
    if (const auto burst = value_of(word, "burst=")) most = parse_count(*burst).value_or(0);
    if (word == "nodelay") is_delayed = false;
  }
  if (!of_requests && directive.words.size() > 2) {
    zone = directive.argument();
    most = parse_count(directive.words[2]).value_or(0);
  }
  const std::string key = name_of(directive, zone);
  const auto [found, is_new] = uses_.try_emplace(key);
  Use& use = found->second;
  use.most = is_new ? most : std::min(use.most, most);
  use.is_delayed = use.is_delayed || (is_delayed && most > 0);
  if (const auto* status = location.find(directive.name() + "_status"))
    use.status = static_cast<int>(parse_count(status->argument()).value_or(503));
  if (std::ranges::find(place.zones, key) == place.zones.end()) {
    place.zones.push_back(key);
    ++use.locations;
  }
  if (std::exchange(directive.used, true)) return;
  use.directives.push_back(&directive);
}

void NginxLimits::read(const NginxScope& location, bool is_open, bool needs_key) {
  Place place{.line = location.block.line, .zones = {}, .needs_key = needs_key};
  for (const char* const name : {"limit_req", "limit_conn"}) {
    const NginxDirective* const dry = location.find(std::string(name) + "_dry_run");
    if (dry != nullptr && dry->argument() == "on") continue;
    const NginxScope* scope = &location;
    while (scope != nullptr && scope->own(name) == nullptr) scope = scope->outer;
    if (scope == nullptr) continue;
    for (NginxDirective* each : scope->settings) {
      if (each->name() == name) take(*each, location, place);
    }
  }
  if (is_open) {
    places_.push_back(std::move(place));
    return;
  }
  for (const std::string& key : place.zones) --uses_.at(key).locations;
}

void NginxLimits::leave_out(const Use& use, std::string_view why) {
  for (const NginxDirective* each : use.directives)
    draft_.leave_out(each->line, each->words, why, use.locations > 0);
}

void NginxLimits::add(const Zone& zone, const Use& use) {
  RateLimitConfig limit = limit_of(zone.by, zone.rate, zone.period, use.most);
  std::string text =
      fmt::format("{} became `rate_limits: [{}]`, for {}", use.directives.front()->name(),
                  text_of(limit), zone.by == "key" ? "each key" : "all requests");
  if (use.is_delayed) text += "; those within `burst` are not delayed";
  if (use.status != 429) text += fmt::format("; refused ones get 429, not {}", use.status);
  draft_.note(use.directives.front()->line, std::move(text));
  draft_.config.rate_limits.push_back(std::move(limit));
}

/// The first location whose requests the limit of the zone does not count and ours would; null:
/// there is none.
const NginxLimits::Place* NginxLimits::place_without(const std::string& key,
                                                     const Zone& zone) const {
  const auto found = std::ranges::find_if(places_, [&](const Place& place) {
    const bool has_it = std::ranges::find(place.zones, key) != place.zones.end();
    return !has_it && (zone.by != "key" || place.needs_key);
  });
  return found == places_.end() ? nullptr : &*found;
}

void NginxLimits::finish(NginxKeys& keys) {
  for (const auto& [key, use] : uses_) {
    if (use.directives.empty()) continue;
    const auto zone = zones_.find(key);
    if (zone == zones_.end()) {
      leave_out(use, "its zone is not in the file: say it in `rate_limits`");
      continue;
    }
    zone->second.directive->used = true;
    if (zone->second.rate > 0 && keys.tells_apart(zone->second.directive->argument()))
      zone->second.by = "key";
    if (zone->second.by.empty()) {
      leave_out(use, fmt::format("`rate_limits` go by address, header:NAME, key, tenant or model, "
                                 "not by {}",
                                 zone->second.directive->argument()));
      continue;
    }
    const Zone& of = zone->second;
    if (use.locations == 0) {
      const RateLimitConfig limit = limit_of(of.by, of.rate, of.period, use.most);
      leave_out(use, fmt::format("no route that leads to a pool has it; once one does: "
                                 "`rate_limits: [{}]`",
                                 text_of(limit)));
      continue;
    }
    const Place* const other = place_without(key, of);
    if (other == nullptr && draft_.config.rate_limits.size() < max_limits) {
      add(of, use);
      continue;
    }
    const int line = other == nullptr ? 0 : other->line;
    leave_out(use, fmt::format("the location of line {} has no such limit, and ours hold for all "
                               "requests; if that is right: `rate_limits: [{}]`",
                               line, text_of(limit_of(of.by, of.rate, of.period, use.most))));
  }
}

}  // namespace evenkeel::import
