#include "tools/doctor/curve_chart.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace bulkhead::tools {
namespace {

constexpr double kChartWidth = 640;
constexpr double kChartHeight = 220;
constexpr double kLeft = 74;  // of the plot, beside the numbers
constexpr double kRight = 632;
constexpr double kTop = 12;
constexpr double kBottom = 194;
constexpr size_t kMostPoints = 400;  // of a curve
constexpr size_t kColours = 7;
constexpr int kLines = 4;  // of the grid

std::string Label(double x, double y, const char* anchor, const std::string& text) {
  return absl::StrFormat("<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"%s\">%s</text>", x, y, anchor,
                         Escaped(text));
}

}  // namespace

std::string CurveChart(const std::string& title, const std::vector<Curve>& curves,
                       std::string (*number)(double)) {
  double last = 0, top = 0;
  size_t most = 0;
  for (const Curve& curve : curves) {
    most = std::max(most, curve.points.size());
    for (const auto& [x, y] : curve.points) {
      last = std::max(last, x);
      top = std::max(top, y);
    }
  }
  if (most < 2 || last <= 0) return "";
  if (top <= 0) top = 1;
  const auto at_x = [&](double x) { return kLeft + x / last * (kRight - kLeft); };
  const auto at_y = [&](double y) { return kBottom - y / top * (kBottom - kTop); };
  std::string svg = absl::StrFormat(
      "<figure><figcaption>%s</figcaption><svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" "
      "aria-label=\"%s\">",
      Escaped(title), kChartWidth, kChartHeight, Escaped(title));
  for (int i = 0; i <= kLines; ++i) {
    const double value = top * i / kLines;
    absl::StrAppendFormat(&svg,
                          "<line class=\"grid\" x1=\"%.0f\" x2=\"%.0f\" y1=\"%.1f\" y2=\"%.1f\"/>",
                          kLeft, kRight, at_y(value), at_y(value));
    absl::StrAppend(&svg, Label(kLeft - 6, at_y(value) + 4, "end", number(value)));
  }
  absl::StrAppend(&svg, Label(kLeft, kBottom + 18, "start", "0"),
                  Label(kRight, kBottom + 18, "end", absl::StrFormat("%.0f samples", last)));
  std::string key = "<div class=\"key\">";
  for (size_t i = 0; i < curves.size(); ++i) {
    const Curve& curve = curves[i];
    const size_t colour = std::min(i, kColours - 1);
    const size_t stride = curve.points.size() / kMostPoints + 1;
    std::string points;
    for (size_t p = 0; p < curve.points.size(); p += stride) {
      absl::StrAppendFormat(&points, "%.1f,%.1f ", at_x(curve.points[p].first),
                            at_y(curve.points[p].second));
    }
    absl::StrAppendFormat(
        &svg, "<polyline style=\"stroke:var(--c%d)\"%s points=\"%s\"><title>%s</title></polyline>",
        colour, curve.dashed ? " stroke-dasharray=\"5 4\"" : "", points, Escaped(curve.name));
    absl::StrAppendFormat(&key, "<span><i style=\"background:var(--c%d)\"></i>%s %s</span> ",
                          colour, Escaped(curve.name),
                          curve.points.empty() ? "" : Escaped(number(curve.points.back().second)));
  }
  return absl::StrCat(svg, "</svg>", key, "</div></figure>\n");
}

std::string Escaped(absl::string_view text) {
  return absl::StrReplaceAll(
      text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}});
}

}  // namespace bulkhead::tools
