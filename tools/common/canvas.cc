#include "tools/common/canvas.h"

#include <algorithm>
#include <cstring>

#include "tools/common/bitmap_font.h"

namespace bulkhead::tools {

Canvas::Canvas(MutableImageView view, Colour background) : view_(view) {
  Fill(WholeImage(view.size()), background);
}

void Canvas::Fill(const Rect& rect, Colour colour) {
  for (int y = std::max(rect.top, 0); y < std::min(rect.bottom(), view_.height); ++y) {
    for (int x = std::max(rect.left, 0); x < std::min(rect.right(), view_.width); ++x) {
      uint8_t* pixel = view_.row(y) + x * 3;
      pixel[0] = colour.red;
      pixel[1] = colour.green;
      pixel[2] = colour.blue;
    }
  }
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
  const int from = std::max(-left, 0);
  const int until = std::min(image.width, view_.width - left);
  if (from >= until) return;
  for (int y = std::max(-top, 0); y < std::min(image.height, view_.height - top); ++y) {
    std::memcpy(view_.row(top + y) + (left + from) * 3, image.row(y) + from * 3,
                static_cast<size_t>(until - from) * 3);
  }
}

int Canvas::TextWidth(const std::string& text, int scale) {
  return static_cast<int>(text.size()) * (kGlyphWidth + 1) * scale - scale;
}

int Canvas::TextHeight(int scale) { return kGlyphHeight * scale; }

void Canvas::Text(const std::string& text, int left, int top, int scale, Colour colour,
                  bool upwards) {
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
             colour);
      }
    }
    along += (kGlyphWidth + 1) * scale;
  }
}

}  // namespace bulkhead::tools
