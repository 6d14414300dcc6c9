#include "server/stages/running/common_options.h"

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

BoxCoding CodingOf(const Annotation& annotation) {
  BoxCoding coding;
  coding.relative = annotation.relative;
  if (annotation.format == v1::BOX_FORMAT_XYWH) coding.format = BoxFormat::kXywh;
  if (annotation.format == v1::BOX_FORMAT_CXCYWH) coding.format = BoxFormat::kCxcywh;
  return coding;
}

std::vector<uint8_t> FillOf(const google::protobuf::RepeatedField<uint32_t>& fill,
                            size_t channels) {
  std::vector<uint8_t> values(channels, 0);
  for (size_t c = 0; c < channels && !fill.empty(); ++c) {
    values[c] = static_cast<uint8_t>(fill[fill.size() == 1 ? 0 : static_cast<int>(c)]);
  }
  return values;
}

MutableImageView ResultImage(ImageSize size, int channels, const StageContext& context) {
  const size_t size_bytes = static_cast<size_t>(size.height) * size.width * channels;
  return ContiguousImage(reinterpret_cast<uint8_t*>(context.Result(size_bytes)), size, channels);
}

}  // namespace bulkhead
