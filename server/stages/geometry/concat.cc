#include "server/stages/geometry/concat.h"

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
  const MutableImageView out = ResultImage(size, channels, context);
  int first_channel = 0;
  for (size_t i = 0; i < inputs; ++i) {
    CopyIntoChannels(values[i].pixels, first_channel, out);
    first_channel += values[i].channels;
  }
  // Last, because the output may have the name of an input.
  values[inputs].SetPixels(out);
  return absl::OkStatus();
}

}  // namespace bulkhead
