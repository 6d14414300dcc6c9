#pragma once

#include <array>

#include "server/image/image.h"

// Changes of colour with the formulas of torchvision's functional transforms on uint8 tensors: in
// float32, clamped to 0 … 255, fractions cut off. In place. Images of three channels are RGB; where
// one channel is allowed, it is gray. A factor is at least 0, and 1 changes nothing.
namespace bulkhead {

// 0.2989 R + 0.587 G + 0.114 B in all three channels. (The weights add up to less than 1: white
// becomes 254.) Three channels.
void ToGrayscale(const MutableImageView& image);

// Channel c becomes what channel from[c] was. Three channels.
void PermuteChannels(const std::array<int, 3>& from, const MutableImageView& image);

// factor · x. Any number of channels.
void AdjustBrightness(double factor, const MutableImageView& image);

// factor · x + (1 − factor) · the mean of the gray image. One or three channels.
void AdjustContrast(double factor, const MutableImageView& image);

// factor · x + (1 − factor) · the pixel's gray. One channel (which stays) or three.
void AdjustSaturation(double factor, const MutableImageView& image);

// Turns the hue by `shift` of the colour circle, −0.5 to 0.5. Three channels.
void AdjustHue(double shift, const MutableImageView& image);

// factor · x + (1 − factor) · x blurred by the 3 × 3 kernel of ones with 5 in the middle; pixels of
// the border stay, and so does an image with a side below 3. Any number of channels.
void AdjustSharpness(double factor, const MutableImageView& image, ScratchBuffer& rows);

}  // namespace bulkhead
