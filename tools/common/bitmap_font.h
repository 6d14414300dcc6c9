#ifndef BULKHEAD_TOOLS_COMMON_BITMAP_FONT_H_
#define BULKHEAD_TOOLS_COMMON_BITMAP_FONT_H_

#include <array>
#include <cstdint>

namespace bulkhead::tools {

// A small font for plots: capitals (lower case is drawn as such), digits, punctuation.
constexpr int kGlyphWidth = 5;
constexpr int kGlyphHeight = 7;

// A character's rows from the top; bit 4 of a row is its leftmost dot. A box for what the font
// lacks.
std::array<uint8_t, kGlyphHeight> Glyph(char character);

}  // namespace bulkhead::tools

#endif  // BULKHEAD_TOOLS_COMMON_BITMAP_FONT_H_
