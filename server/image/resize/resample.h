#pragma once

#include "server/image/image.h"

namespace bulkhead {

enum class ResampleFilter {
  kLinear,  // a triangle of ±1
  kCubic,   // the cubic of ±2 with a = −0.5
};

// What ResampleImage needs beside its images: weights, and rows between its two passes. Reused from
// image to image. Not thread-safe.
struct ResampleScratch {
  ScratchBuffer across;
  ScratchBuffer down;
  ScratchBuffer sums;
  Image rows;
};

// Resizes `in` into `out` (any strides, the same number of channels, not overlapping) with
// antialiasing, to the pixels of Pillow's Image.resize (BILINEAR, BICUBIC): a filter that is
// stretched by the factor of shrinking, its weights made fractions of 22 bits; first along the
// rows, rounded to bytes, then along the columns. A side that stays as it is has no pass. Pillow
// itself filters images of four channels with premultiplied alpha; here channels are just channels.
void ResampleImage(const ImageView& in, ResampleFilter filter, const MutableImageView& out,
                   ResampleScratch& scratch);

}  // namespace bulkhead
