#include "server/stages/geometry/concat.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/image/geometry/concat.h"
#include "server/stages/running/common_options.h"

namespace bulkhead {

absl::Status ConcatStage::RunOn(const StageValues& values, const StageContext& context) const {
  const size_t inputs = values.size() - 1;
  const ImageSize size = values[0].image_size;
  int channels = 0;
  for (size_t i = 0; i < inputs; ++i) {
    const ImageSize other = values[i].image_size;
    if (other != size) {
      return place().Name(SampleError(
          reason::kImageSizesDiffer,
          absl::StrCat("image ", i + 1, " of the inputs has ", other.height, " x ", other.width,
                       " pixels (height x width), but the first has ", size.height, " x ",
                       size.width, "; resize them to one size first")));
    }
    channels += values[i].channels;
  }
  if (stacks_) {
    Stack(values, context);
  } else {
    Join(values, channels, context);
  }
  return absl::OkStatus();
}

// In both, the output is set last, because it may have the name of an input.
void ConcatStage::Join(const StageValues& values, int channels, const StageContext& context) {
  const size_t inputs = values.size() - 1;
  const MutableImageView out = ResultImage(values[0].image_size, channels, context);
  int first_channel = 0;
  for (size_t i = 0; i < inputs; ++i) {
    CopyIntoChannels(values[i].pixels, first_channel, out);
    first_channel += values[i].channels;
  }
  values[inputs].SetPixels(out);
}

void ConcatStage::Stack(const StageValues& values, const StageContext& context) {
  const size_t inputs = values.size() - 1;
  const ImageSize size = values[0].image_size;
  const size_t row_bytes = static_cast<size_t>(size.width) * values[0].channels;
  const size_t size_bytes = inputs * row_bytes * size.height;
  std::byte* const result = context.Result(size_bytes);
  std::byte* at = result;
  for (size_t i = 0; i < inputs; ++i) {
    for (int y = 0; y < size.height; ++y, at += row_bytes) {
      std::memcpy(at, values[i].pixels.row(y), row_bytes);
    }
  }
  Value& output = values[inputs];
  output.is_image = false;
  output.image_size = size;
  output.stacked = static_cast<int>(inputs);
  output.channels = values[0].channels;
  output.channels_first = false;
  output.SetElements(v1::DTYPE_UINT8, result, size_bytes);
}

}  // namespace bulkhead
