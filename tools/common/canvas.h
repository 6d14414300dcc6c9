#ifndef BULKHEAD_TOOLS_COMMON_CANVAS_H_
#define BULKHEAD_TOOLS_COMMON_CANVAS_H_

#include <cstdint>
#include <string>

#include "server/image/image.h"

namespace bulkhead::tools {

struct Colour {
  uint8_t red, green, blue;
};

// Draws on an RGB image owned by the caller; what lies outside of it is left out.
class Canvas {
 public:
  // Fills `view`, which has 3 channels and outlives this.
  Canvas(MutableImageView view, Colour background);

  void Fill(const Rect& rect, Colour colour);
  // The outline of `rect`, `thickness` pixels inwards.
  void Frame(const Rect& rect, int thickness, Colour colour);
  // Copies an RGB image to (top, left).
  void Put(const ImageView& image, int top, int left);

  static int TextWidth(const std::string& text, int scale);
  static int TextHeight(int scale);
  // From (left, top) rightwards; with `upwards` from the bottom at (left, top) to the top.
  void Text(const std::string& text, int left, int top, int scale, Colour colour,
            bool upwards = false);

 private:
  MutableImageView view_;
};

}  // namespace bulkhead::tools

#endif  // BULKHEAD_TOOLS_COMMON_CANVAS_H_
