#include "server/image/draw/canvas.h"

#include <algorithm>
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>

namespace bulkhead {
namespace {

constexpr int kFont = cv::FONT_HERSHEY_SIMPLEX;
constexpr int kThickness = 1;

double ScaleOf(TextSize size) {
  constexpr double kScales[] = {0.3, 0.45, 0.6, 0.9};
  return kScales[static_cast<int>(size)];
}

// Of a line: how far it reaches above and below the foot of its letters.
struct Extent {
  int width = 0;
  int above = 0;
  int below = 0;
};

Extent ExtentOf(const std::string& text, TextSize size) {
  int below = 0;
  const cv::Size above = cv::getTextSize(text, kFont, ScaleOf(size), kThickness, &below);
  return {above.width, above.height, below};
}

// The view's own memory.
cv::Mat MatOf(MutableImageView view) {
  return cv::Mat(view.height, view.width, CV_8UC3, view.data, view.stride);
}

cv::Rect Within(const cv::Mat& image, cv::Rect rect) {
  return rect & cv::Rect(0, 0, image.cols, image.rows);
}

cv::Scalar ScalarOf(Colour colour) {
  return {double(colour.red), double(colour.green), double(colour.blue)};
}

}  // namespace

Canvas::Canvas(MutableImageView view, Colour background) : view_(view) {
  Fill(WholeImage(view.size()), background);
}

void Canvas::Fill(const Rect& rect, Colour colour) {
  cv::Mat image = MatOf(view_);
  image(Within(image, {rect.left, rect.top, rect.width, rect.height})).setTo(ScalarOf(colour));
}

void Canvas::Frame(const Rect& rect, int thickness, Colour colour) {
  const int high = std::min(thickness, rect.height);
  const int wide = std::min(thickness, rect.width);
  Fill({rect.top, rect.left, high, rect.width}, colour);
  Fill({rect.bottom() - high, rect.left, high, rect.width}, colour);
  Fill({rect.top, rect.left, rect.height, wide}, colour);
  Fill({rect.top, rect.right() - wide, rect.height, wide}, colour);
}

void Canvas::Put(const ImageView& image, int top, int left) {
  cv::Mat whole = MatOf(view_);
  const cv::Rect place = Within(whole, {left, top, image.width, image.height});
  if (place.empty()) return;
  const cv::Mat from(image.height, image.width, CV_8UC3, const_cast<uint8_t*>(image.data),
                     image.stride);
  from(place - cv::Point(left, top)).copyTo(whole(place));
}

int Canvas::TextWidth(const std::string& text, TextSize size) { return ExtentOf(text, size).width; }

int Canvas::TextHeight(TextSize size) {
  const Extent extent = ExtentOf("", size);
  return extent.above + extent.below;
}

void Canvas::Text(const std::string& text, int left, int top, TextSize size, Colour colour,
                  bool upwards) {
  const Extent extent = ExtentOf(text, size);
  const auto write = [&](cv::Mat& image, cv::Point at) {
    cv::putText(image, text, {at.x, at.y + extent.above}, kFont, ScaleOf(size), ScalarOf(colour),
                kThickness, cv::LINE_AA);
  };
  cv::Mat image = MatOf(view_);
  if (!upwards) {
    write(image, {left, top});
    return;
  }
  // Written on the turned image, and turned back.
  cv::Mat turned;
  cv::rotate(image, turned, cv::ROTATE_90_CLOCKWISE);
  write(turned, {view_.height - top, left});
  cv::rotate(turned, image, cv::ROTATE_90_COUNTERCLOCKWISE);
}

}  // namespace bulkhead
