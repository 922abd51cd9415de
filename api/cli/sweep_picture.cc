#include "api/cli/sweep_picture.h"

#include <algorithm>
#include <cmath>

#include "fmt/format.h"

namespace ebb::cli {
namespace {

constexpr int kColumns = 4;
constexpr double kPanelWidth = 240;
constexpr double kPanelHeight = 170;
constexpr double kMargin = 40;
constexpr size_t kBins = 8;

std::string Escaped(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '<') {
      escaped += "&lt;";
    } else if (c == '&') {
      escaped += "&amp;";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

// Index on a logarithmic axis: twice as good is as far above as half as good is below.
struct Axis {
  double low = 0;  // logarithms
  double high = 0;

  explicit Axis(std::span<const SweepPoint> points) {
    low = std::log(80);
    high = std::log(125);
    for (const SweepPoint& point : points) {
      if (!(point.index > 0)) continue;
      low = std::min(low, std::log(point.index));
      high = std::max(high, std::log(point.index));
    }
  }
  double Y(double index) const {
    const double share = (std::log(std::max(index, 1e-9)) - low) / (high - low);
    return kPanelHeight - kMargin - std::clamp(share, 0.0, 1.0) * (kPanelHeight - 1.5 * kMargin);
  }
};

double X(double unit) { return kMargin + unit * (kPanelWidth - 1.5 * kMargin); }

std::string Panel(const env::KnobSpace& space, size_t knob, std::span<const SweepPoint> points,
                  const Axis& axis) {
  std::string svg = fmt::format(
      "<text x=\"{:.0f}\" y=\"14\" class=\"t\">{}</text><line x1=\"{:.0f}\" x2=\"{:.0f}\" "
      "y1=\"{:.1f}\" y2=\"{:.1f}\" class=\"b\"/><text x=\"2\" y=\"{:.1f}\" class=\"s\">100</text>",
      kMargin, Escaped(space[knob].name), X(0), X(1), axis.Y(100), axis.Y(100), axis.Y(100) + 3);
  std::vector<std::vector<double>> bins(kBins);
  for (const SweepPoint& point : points) {
    const double unit = space.ToUnit(knob, point.setting.values[knob]);
    svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"1.6\"/>", X(unit),
                       axis.Y(point.index));
    const auto bin = std::min(kBins - 1, static_cast<size_t>(unit * kBins));
    bins[bin].push_back(point.index);
  }
  std::string line;
  for (size_t i = 0; i < kBins; ++i) {
    if (bins[i].empty()) continue;
    const auto middle = bins[i].begin() + static_cast<ptrdiff_t>(bins[i].size() / 2);
    std::nth_element(bins[i].begin(), middle, bins[i].end());
    line +=
        fmt::format("{:.1f},{:.1f} ", X((static_cast<double>(i) + 0.5) / kBins), axis.Y(*middle));
  }
  svg += fmt::format("<polyline points=\"{}\"/>", line);
  svg += fmt::format(
      "<text x=\"{:.0f}\" y=\"{:.0f}\" class=\"s\">{}</text><text x=\"{:.0f}\" y=\"{:.0f}\" "
      "class=\"s\" text-anchor=\"end\">{}</text>",
      X(0), kPanelHeight - 22, Escaped(space.FormatValue(knob, space.FromUnit(knob, 0))), X(1),
      kPanelHeight - 22, Escaped(space.FormatValue(knob, space.FromUnit(knob, 1))));
  return svg;
}

}  // namespace

std::string SweepPicture(const env::KnobSpace& space, std::span<const SweepPoint> points,
                         const std::string& title) {
  std::vector<size_t> moved;
  for (size_t knob = 0; knob < space.size(); ++knob) {
    const bool differs = std::any_of(points.begin(), points.end(), [&](const SweepPoint& point) {
      return point.setting.values[knob] != points.front().setting.values[knob];
    });
    if (differs) moved.push_back(knob);
  }
  const Axis axis(points);
  const size_t rows = (moved.size() + kColumns - 1) / kColumns;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{:.0f}\" height=\"{:.0f}\">\n"
      "<style>text{{font-family:sans-serif}}.t{{font-size:12px}}.s{{font-size:9px;fill:#555}}"
      "circle{{fill:#2a6fb0;fill-opacity:.35}}polyline{{fill:none;stroke:#c2410c;stroke-width:2}}"
      ".b{{stroke:#999;stroke-dasharray:3 3}}</style>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
      "<text x=\"10\" y=\"20\" class=\"t\">{}</text>\n",
      kColumns * kPanelWidth, 30 + static_cast<double>(rows) * kPanelHeight, Escaped(title));
  for (size_t i = 0; i < moved.size(); ++i) {
    svg += fmt::format("<g transform=\"translate({:.0f},{:.0f})\">{}</g>\n",
                       static_cast<double>(i % kColumns) * kPanelWidth,
                       30 + static_cast<double>(i / kColumns) * kPanelHeight,
                       Panel(space, moved[i], points, axis));
  }
  return svg + "</svg>\n";
}

}  // namespace ebb::cli
