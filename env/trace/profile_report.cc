#include "env/trace/profile_report.h"

#include <optional>

#include "base/units.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace ebb::env {
namespace {

using Json = nlohmann::ordered_json;

std::string Percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::string PercentOr(const std::optional<double>& share, std::string_view otherwise) {
  return share.has_value() ? Percent(*share) : std::string(otherwise);
}

template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value.has_value() ? Json(*value) : Json(nullptr);
}

std::string Line(std::string_view title, std::string_view text) {
  return fmt::format("{:<12} {}\n", title, text);
}

std::string SizesText(const TraceProfile& profile) {
  const auto& sizes = profile.bytes_p50_p90_p99;
  std::string text =
      fmt::format("p50 {}, p90 {}, p99 {} bytes; most often", sizes[0], sizes[1], sizes[2]);
  for (const auto& [bytes, share] : profile.top_sizes) {
    text += fmt::format(" {} ({})", bytes, Percent(share));
  }
  return text;
}

std::string TimesText(const TraceProfile& profile) {
  if (!profile.span_s.has_value()) return Line("times", "not in this format: only the order");
  const auto span_ns = static_cast<uint64_t>(*profile.span_s * kNsPerS);
  std::string text =
      Line("span", fmt::format("{} ({:.3f} s), {:.2f} requests a second", FormatDurationNs(span_ns),
                               *profile.span_s, profile.mean_iops.value_or(0)));
  for (const BurstProfile& burst : profile.bursts) {
    text +=
        Line("bursts",
             fmt::format("of {:>6}: at most {} requests, {} idle, variance {:.1f} times the mean",
                         FormatDurationNs(burst.window_ns), burst.requests_max,
                         Percent(burst.idle_share), burst.variance_over_mean));
  }
  text += Line("peak", fmt::format("the busiest second has {:.1f} times the mean",
                                   profile.PeakOverMean().value_or(0)));
  return text;
}

std::string ContentText(const TraceProfile& profile) {
  if (profile.content_blocks == 0) return Line("content", "not in this trace");
  return Line(
      "content",
      fmt::format("{} blocks written, {:.0f} different; {} duplicate, {} zero; LZ4 {}",
                  profile.content_blocks, profile.distinct_contents,
                  Percent(profile.duplicate_share), Percent(profile.zero_share),
                  profile.compressed_share.has_value() ? "to " + Percent(*profile.compressed_share)
                                                       : "not told"));
}

std::string EntriesText(const TraceCounts& counts) {
  std::string text =
      Line("entries", fmt::format("{} requests, {} other events, {} other lines, {} broken, {} "
                                  "steps back in time",
                                  counts.records, counts.other_events, counts.messages,
                                  counts.broken, counts.back_steps));
  for (const BrokenRecord& broken : counts.samples) {
    text += Line("broken", fmt::format("number {} at byte {}: {}", broken.line, broken.offset,
                                       broken.reason));
  }
  return text;
}

Json BurstsJson(const TraceProfile& profile) {
  Json bursts = Json::array();
  for (const BurstProfile& burst : profile.bursts) {
    bursts.push_back({{"window_ns", burst.window_ns},
                      {"requests_max", burst.requests_max},
                      {"idle_share", burst.idle_share},
                      {"variance_over_mean", burst.variance_over_mean}});
  }
  return bursts;
}

Json EntriesJson(const TraceSource& source) {
  const TraceCounts& counts = source.counts();
  Json samples = Json::array();
  for (const BrokenRecord& broken : counts.samples) {
    samples.push_back(
        {{"number", broken.line}, {"offset", broken.offset}, {"reason", broken.reason}});
  }
  return {{"records", counts.records},       {"other_events", counts.other_events},
          {"messages", counts.messages},     {"broken", counts.broken},
          {"back_steps", counts.back_steps}, {"broken_samples", std::move(samples)},
          {"warning", source.warning()}};
}

}  // namespace

std::string ProfileText(const TraceProfile& profile, const TraceSource& source) {
  std::string text = Line("format", source.traits().format);
  text +=
      Line("requests", fmt::format("{} reads ({}) and {} writes ({}): {} reads; {} flushes, {} FUA",
                                   profile.reads, FormatBytes(profile.read_bytes), profile.writes,
                                   FormatBytes(profile.write_bytes),
                                   PercentOr(profile.read_share, "unknown how many"),
                                   profile.flushes, profile.fua_requests));
  text += Line("discards", fmt::format("{} trims ({}), {} zeroes ({})", profile.trims,
                                       FormatBytes(profile.trim_bytes), profile.zeroes,
                                       FormatBytes(profile.zero_bytes)));
  text += TimesText(profile);
  text += Line("sizes", SizesText(profile));
  text += Line("places",
               fmt::format("{} sequential, {} not of whole 4 KiB blocks; {} devices, up "
                           "to byte {}",
                           Percent(profile.sequential_share), Percent(profile.unaligned_share),
                           profile.devices, profile.needed_bytes));
  const auto footprint_bytes = static_cast<uint64_t>(profile.footprint_blocks) * 4096;
  text += Line("footprint",
               fmt::format("{} ({}{:.0f} blocks), {} of accesses come back, {} of written blocks "
                           "are written again",
                           FormatBytes(footprint_bytes), profile.blocks_exact ? "" : "about ",
                           profile.footprint_blocks, Percent(profile.reuse_share),
                           PercentOr(profile.rewrite_share, "?")));
  text += ContentText(profile);
  for (const MissRatioCurve::Point& point : profile.miss_ratios) {
    text += Line("LRU cache", fmt::format("{:>8}: {} misses", FormatBytes(point.blocks * 4096),
                                          Percent(point.miss_ratio)));
  }
  text += EntriesText(source.counts());
  if (!source.warning().empty()) text += Line("note", source.warning());
  return text;
}

std::string ProfileJson(const TraceProfile& profile, const TraceSource& source) {
  Json sizes = Json::array();
  for (const auto& [bytes, share] : profile.top_sizes) {
    sizes.push_back({{"bytes", bytes}, {"share", share}});
  }
  Json misses = Json::array();
  for (const MissRatioCurve::Point& point : profile.miss_ratios) {
    misses.push_back({{"cache_bytes", point.blocks * 4096}, {"miss_ratio", point.miss_ratio}});
  }
  const Json json = {{"format", source.traits().format},
                     {"reads", profile.reads},
                     {"writes", profile.writes},
                     {"flushes", profile.flushes},
                     {"trims", profile.trims},
                     {"zeroes", profile.zeroes},
                     {"read_bytes", profile.read_bytes},
                     {"write_bytes", profile.write_bytes},
                     {"trim_bytes", profile.trim_bytes},
                     {"zero_bytes", profile.zero_bytes},
                     {"fua_requests", profile.fua_requests},
                     {"read_share", OrNull(profile.read_share)},
                     {"span_s", OrNull(profile.span_s)},
                     {"mean_iops", OrNull(profile.mean_iops)},
                     {"peak_over_mean", OrNull(profile.PeakOverMean())},
                     {"bursts", BurstsJson(profile)},
                     {"bytes_p50", profile.bytes_p50_p90_p99[0]},
                     {"bytes_p90", profile.bytes_p50_p90_p99[1]},
                     {"bytes_p99", profile.bytes_p50_p90_p99[2]},
                     {"top_sizes", std::move(sizes)},
                     {"sequential_share", profile.sequential_share},
                     {"unaligned_share", profile.unaligned_share},
                     {"devices", profile.devices},
                     {"needed_bytes", profile.needed_bytes},
                     {"footprint_blocks", profile.footprint_blocks},
                     {"footprint_exact", profile.blocks_exact},
                     {"reuse_share", profile.reuse_share},
                     {"rewrite_share", OrNull(profile.rewrite_share)},
                     {"content_blocks", profile.content_blocks},
                     {"distinct_contents", profile.distinct_contents},
                     {"duplicate_share", profile.duplicate_share},
                     {"zero_share", profile.zero_share},
                     {"compressed_share", OrNull(profile.compressed_share)},
                     {"miss_ratios", std::move(misses)},
                     {"entries", EntriesJson(source)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ebb::env
