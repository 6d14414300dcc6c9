#pragma once

#include <array>
#include <cstdint>

#include "server/image/image.h"

// Operations on each value of an image by itself; in place, any number of channels and any stride.
namespace bulkhead {

// The result for each byte.
using ValueTable = std::array<uint8_t, 256>;

void MapValues(const ValueTable& table, const MutableImageView& image);

// Keeps the upper `bits` (1 to 8) of each value.
void Posterize(int bits, const MutableImageView& image);

// Inverts the values that are at least `threshold`; above 255: none.
void Solarize(int threshold, const MutableImageView& image);

// Stretches each channel so that its smallest value becomes 0 and its largest 255, with the
// arithmetic of Pillow's ImageOps.autocontrast; a channel of one value stays.
void Autocontrast(const MutableImageView& image);

// Makes the histogram of each channel as flat as a table can, with the arithmetic of Pillow's
// ImageOps.equalize.
void Equalize(const MutableImageView& image);

}  // namespace bulkhead
