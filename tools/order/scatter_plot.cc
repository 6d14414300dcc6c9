#include "tools/order/scatter_plot.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "server/image/draw/canvas.h"

namespace bulkhead::tools {
namespace {

constexpr ImageSize kSize = {800, 1200};
constexpr Rect kFrame = {90, 120, 600, 1040};  // where the dots are

constexpr TextSize kLabel = TextSize::kLarge;
constexpr Colour kPaper = {255, 255, 255};
constexpr Colour kInk = {40, 40, 40};
constexpr Colour kGrid = {228, 228, 228};
constexpr Colour kRule = {240, 190, 120};
constexpr Colour kDot = {31, 90, 168};

// Values from `low` to `high` on pixels from `first` on, `extent` of them.
struct Axis {
  double low = 0;
  double high = 1;
  double first = 0;
  double extent = 1;
  int Pixel(double value) const {
    const double share = high > low ? (value - low) / (high - low) : 0.5;
    return static_cast<int>(std::lround(first + share * extent));
  }
};

bool IsFinite(const PlotPoint& point) { return std::isfinite(point.x) && std::isfinite(point.y); }

void Fit(const std::vector<PlotPoint>& points, double PlotPoint::*coordinate, Axis& axis) {
  bool first = true;
  for (const PlotPoint& point : points) {
    if (!IsFinite(point)) continue;
    const double value = point.*coordinate;
    axis.low = first ? value : std::min(axis.low, value);
    axis.high = first ? value : std::max(axis.high, value);
    first = false;
  }
}

void DrawAxes(const ScatterPlot& plot, const Axis& x, const Axis& y, Canvas& canvas) {
  const int right = kFrame.right();
  const int bottom = kFrame.bottom();
  for (const double tick : Ticks(x.low, x.high, 8)) {
    const int at = x.Pixel(tick);
    const std::string label = TickLabel(tick);
    canvas.Fill({kFrame.top, at, kFrame.height, 1}, kGrid);
    canvas.Fill({bottom, at, 7, 1}, kInk);
    canvas.Text(label, at - Canvas::TextWidth(label, kLabel) / 2, bottom + 14, kLabel, kInk);
  }
  for (const double tick : Ticks(y.low, y.high, 8)) {
    const int at = y.Pixel(tick);
    const std::string label = TickLabel(tick);
    canvas.Fill({at, kFrame.left, 1, kFrame.width}, kGrid);
    canvas.Fill({at, kFrame.left - 7, 1, 7}, kInk);
    canvas.Text(label, kFrame.left - 14 - Canvas::TextWidth(label, kLabel),
                at - Canvas::TextHeight(kLabel) / 2, kLabel, kInk);
  }
  for (const double rule : plot.rules) {
    if (rule <= y.low || rule >= y.high) continue;
    canvas.Fill({y.Pixel(rule), kFrame.left, 1, kFrame.width}, kRule);
  }
  canvas.Fill({kFrame.top, kFrame.left, 1, kFrame.width}, kInk);
  canvas.Fill({bottom, kFrame.left, 1, kFrame.width + 1}, kInk);
  canvas.Fill({kFrame.top, kFrame.left, kFrame.height, 1}, kInk);
  canvas.Fill({kFrame.top, right, kFrame.height, 1}, kInk);
}

}  // namespace

void DrawScatter(const ScatterPlot& plot, Image& image) {
  Canvas canvas(image.Reshape(kSize, 3), kPaper);
  // Some air between the outermost dots and the frame.
  Axis x{0, 1, kFrame.left + 8.0, kFrame.width - 16.0};
  Axis y{0, 1, kFrame.bottom() - 8.0, -(kFrame.height - 16.0)};
  Fit(plot.points, &PlotPoint::x, x);
  Fit(plot.points, &PlotPoint::y, y);
  DrawAxes(plot, x, y, canvas);

  const int dot = plot.points.size() <= 4000 ? 3 : 2;
  for (const PlotPoint& point : plot.points) {
    if (!IsFinite(point)) continue;
    canvas.Fill({y.Pixel(point.y) - dot / 2, x.Pixel(point.x) - dot / 2, dot, dot}, kDot);
  }
  canvas.Text(plot.title, kFrame.left, 20, TextSize::kTitle, kInk);
  canvas.Text(plot.subtitle, kFrame.left, 58, kLabel, kInk);
  canvas.Text(plot.x_label,
              kFrame.left + (kFrame.width - Canvas::TextWidth(plot.x_label, kLabel)) / 2,
              kFrame.bottom() + 50, kLabel, kInk);
  canvas.Text(plot.y_label, 20,
              kFrame.top + (kFrame.height + Canvas::TextWidth(plot.y_label, kLabel)) / 2, kLabel,
              kInk, true);
}

std::vector<double> Ticks(double low, double high, int wanted) {
  if (!(high > low)) return {low};
  const double rough = (high - low) / wanted;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  const double factor = rough / power;
  const double step = power * (factor <= 1 ? 1 : factor <= 2 ? 2 : factor <= 5 ? 5 : 10);
  std::vector<double> ticks;
  for (double i = std::ceil(low / step); i * step <= high; ++i) ticks.push_back(i * step);
  return ticks;
}

std::string TickLabel(double value) {
  const double size = std::abs(value);
  if (size >= 1e15) return absl::StrFormat("%.3g", value);
  if (size >= 1e9) return absl::StrFormat("%gG", value / 1e9);
  if (size >= 1e6) return absl::StrFormat("%gM", value / 1e6);
  if (size >= 1e4) return absl::StrFormat("%gk", value / 1e3);
  return absl::StrFormat("%.6g", value);
}

}  // namespace bulkhead::tools
