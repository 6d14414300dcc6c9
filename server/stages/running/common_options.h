#pragma once

#include <cstdint>
#include <vector>

#include "bulkhead/v1/pipeline.pb.h"
#include "server/image/boxes/boxes.h"
#include "server/image/geometry/pad.h"
#include "server/image/image.h"
#include "server/image/resize/resize.h"
#include "server/stages/declaration/annotation.h"
#include "server/stages/running/sample_stage.h"

// Options that several kinds of stages share, read from a normalized spec.
namespace bulkhead {

ResizeMethod MethodOf(v1::Interpolation interpolation);

// How declared boxes are written.
BoxCoding CodingOf(const Annotation& annotation);

// [height, width], or one number for a square.
template <typename Sized>
ImageSize SizeOf(const Sized& spec) {
  return {static_cast<int>(spec.size(0)),
          static_cast<int>(spec.size(spec.size_size() > 1 ? 1 : 0))};
}

// One value, or one per channel; 0 if there is none.
template <typename Filled>
PixelFill FillOf(const Filled& spec) {
  if (spec.fill_size() == 0) return {0};
  return {spec.fill().begin(), spec.fill().end()};
}

// Pixels on each side.
struct Margins {
  int top = 0;
  int bottom = 0;
  int left = 0;
  int right = 0;
};

// [top, bottom, left, right], or one number for all; an empty list is no padding.
template <typename Padded>
Margins MarginsOf(const Padded& spec) {
  if (spec.padding_size() == 0) return {};
  const auto side = [&](int i) {
    return static_cast<int>(spec.padding(spec.padding_size() == 4 ? i : 0));
  };
  return {side(0), side(1), side(2), side(3)};
}

// `fill` for an image of `channels`: one value per channel; 0 if there is none.
std::vector<uint8_t> FillOf(const google::protobuf::RepeatedField<uint32_t>& fill, size_t channels);

// Bounds of a number that is drawn for each sample.
struct DrawRange {
  double low;
  double high;

  // The two numbers of a normalized list.
  static DrawRange Of(const google::protobuf::RepeatedField<double>& list) {
    return {list.at(0), list.at(1)};
  }
  // The same, or `otherwise` if the list is empty.
  static DrawRange Of(const google::protobuf::RepeatedField<double>& list, DrawRange otherwise) {
    return list.empty() ? otherwise : Of(list);
  }
  double Draw(SampleRandom& random) const { return random.NextUniform(low, high); }
};

// An image in the memory where the result of a stage belongs.
MutableImageView ResultImage(ImageSize size, int channels, const StageContext& context);

}  // namespace bulkhead
