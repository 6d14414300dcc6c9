#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace bulkhead::tools {

// What to draw.
struct PhotoRequest {
  uint64_t seed = 1;
  uint64_t index = 0;  // of the photo in its set; decides everything random together with the seed
  int width = 0;
  int height = 0;
  int label = 0;      // objects of one class share their colours
  int min_boxes = 1;  // objects in the photo
  int max_boxes = 4;
};

// An RGB image, row-major, and where its objects are: absolute [x0, y0, x1, y1] in pixels.
struct Photo {
  int width = 0;
  int height = 0;
  std::vector<uint8_t> rgb;
  std::vector<std::array<float, 4>> boxes;
};

// Draws a picture that a JPEG encoder takes for a photograph: a gradient, clouds at three scales,
// soft ellipses (the objects), grain. A pure function of the request on every machine.
Photo DrawPhoto(const PhotoRequest& request);

}  // namespace bulkhead::tools
