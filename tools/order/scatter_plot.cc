#include "tools/order/scatter_plot.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_format.h"
#include "tools/order/bitmap_font.h"

namespace bulkhead::tools {
namespace {

constexpr ImageSize kSize = {800, 1200};
constexpr Rect kFrame = {90, 120, 600, 1040};  // where the dots are

struct Colour {
  uint8_t red, green, blue;
};
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

class Canvas {
 public:
  explicit Canvas(MutableImageView view) : view_(view) {
    for (int y = 0; y < view.height; ++y) std::memset(view.row(y), 255, view.row_bytes());
  }

  void Fill(const Rect& rect, Colour colour) {
    for (int y = std::max(rect.top, 0); y < std::min(rect.bottom(), view_.height); ++y) {
      for (int x = std::max(rect.left, 0); x < std::min(rect.right(), view_.width); ++x) {
        uint8_t* pixel = view_.row(y) + x * 3;
        pixel[0] = colour.red;
        pixel[1] = colour.green;
        pixel[2] = colour.blue;
      }
    }
  }

  static int TextWidth(const std::string& text, int scale) {
    return static_cast<int>(text.size()) * (kGlyphWidth + 1) * scale - scale;
  }

  // From (left, top) rightwards; with `upwards` from the bottom at (left, top) to the top.
  void Text(const std::string& text, int left, int top, int scale, bool upwards = false) {
    int along = 0;
    for (const char character : text) {
      const auto rows = Glyph(character);
      for (int row = 0; row < kGlyphHeight; ++row) {
        for (int column = 0; column < kGlyphWidth; ++column) {
          if ((rows[row] >> (kGlyphWidth - 1 - column) & 1) == 0) continue;
          const int forward = along + column * scale;
          const int down = row * scale;
          Fill(upwards ? Rect{top - forward - scale, left + down, scale, scale}
                       : Rect{top + down, left + forward, scale, scale},
               kInk);
        }
      }
      along += (kGlyphWidth + 1) * scale;
    }
  }

 private:
  MutableImageView view_;
};

bool IsFinite(const PlotPoint& point) { return std::isfinite(point.x) && std::isfinite(point.y); }

template <typename Get>
void Fit(const std::vector<PlotPoint>& points, const Get& get, Axis& axis) {
  bool first = true;
  for (const PlotPoint& point : points) {
    if (!IsFinite(point)) continue;
    axis.low = first ? get(point) : std::min(axis.low, get(point));
    axis.high = first ? get(point) : std::max(axis.high, get(point));
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
    canvas.Text(label, at - Canvas::TextWidth(label, 2) / 2, bottom + 14, 2);
  }
  for (const double tick : Ticks(y.low, y.high, 8)) {
    const int at = y.Pixel(tick);
    const std::string label = TickLabel(tick);
    canvas.Fill({at, kFrame.left, 1, kFrame.width}, kGrid);
    canvas.Fill({at, kFrame.left - 7, 1, 7}, kInk);
    canvas.Text(label, kFrame.left - 14 - Canvas::TextWidth(label, 2), at - kGlyphHeight, 2);
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
  Canvas canvas(image.Reshape(kSize, 3));
  // Some air between the outermost dots and the frame.
  Axis x{0, 1, kFrame.left + 8.0, kFrame.width - 16.0};
  Axis y{0, 1, kFrame.bottom() - 8.0, -(kFrame.height - 16.0)};
  Fit(
      plot.points, [](const PlotPoint& point) { return point.x; }, x);
  Fit(
      plot.points, [](const PlotPoint& point) { return point.y; }, y);
  DrawAxes(plot, x, y, canvas);

  const int dot = plot.points.size() <= 4000 ? 3 : 2;
  for (const PlotPoint& point : plot.points) {
    if (!IsFinite(point)) continue;
    canvas.Fill({y.Pixel(point.y) - dot / 2, x.Pixel(point.x) - dot / 2, dot, dot}, kDot);
  }
  canvas.Text(plot.title, kFrame.left, 24, 3);
  canvas.Text(plot.subtitle, kFrame.left, 58, 2);
  canvas.Text(plot.x_label, kFrame.left + (kFrame.width - Canvas::TextWidth(plot.x_label, 2)) / 2,
              kFrame.bottom() + 50, 2);
  canvas.Text(plot.y_label, 20,
              kFrame.top + (kFrame.height + Canvas::TextWidth(plot.y_label, 2)) / 2, 2, true);
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
