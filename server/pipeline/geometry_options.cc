#include "server/pipeline/geometry_options.h"

namespace bulkhead {

ResizeMethod MethodOf(v1::Interpolation interpolation) {
  switch (interpolation) {
    case v1::INTERPOLATION_NEAREST:
      return ResizeMethod::kNearest;
    case v1::INTERPOLATION_AREA:
      return ResizeMethod::kArea;
    case v1::INTERPOLATION_CUBIC:
      return ResizeMethod::kCubic;
    default:
      return ResizeMethod::kLinear;
  }
}

MutableImageView ResultImage(ImageSize size, int channels, const StageContext& context) {
  const size_t size_bytes = static_cast<size_t>(size.height) * size.width * channels;
  return ContiguousImage(reinterpret_cast<uint8_t*>(context.Result(size_bytes)), size, channels);
}

}  // namespace bulkhead
