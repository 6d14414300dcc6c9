#pragma once

#include <cstdint>
#include <string>

#include "server/image/image.h"

namespace bulkhead {

struct Colour {
  uint8_t red, green, blue;
};

// How large text is written: capitals of about 6, 9, 13 and 19 pixels.
enum class TextSize { kSmall, kNormal, kLarge, kTitle };

// Draws on an RGB image owned by the caller; what lies outside of it is left out. Text has ASCII's
// characters, and a question mark for each byte of any other.
class Canvas {
 public:
  // Fills `view`, which has 3 channels and outlives this.
  Canvas(MutableImageView view, Colour background);

  void Fill(const Rect& rect, Colour colour);
  // The outline of `rect`, `thickness` pixels inwards.
  void Frame(const Rect& rect, int thickness, Colour colour);
  // Copies an RGB image to (top, left).
  void Put(const ImageView& image, int top, int left);

  // In pixels; the height is the same for every text. Brackets reach up to 2 pixels beyond.
  static int TextWidth(const std::string& text, TextSize size);
  static int TextHeight(TextSize size);
  // From (left, top) rightwards; with `upwards` from the bottom at (left, top) to the top.
  void Text(const std::string& text, int left, int top, TextSize size, Colour colour,
            bool upwards = false);

 private:
  MutableImageView view_;
};

}  // namespace bulkhead
