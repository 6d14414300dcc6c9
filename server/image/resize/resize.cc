#include "server/image/resize/resize.h"

#include <iterator>
#include <new>
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"

namespace bulkhead {
namespace {

// By ResizeMethod.
constexpr int kInterpolations[] = {cv::INTER_NEAREST, cv::INTER_LINEAR, cv::INTER_AREA,
                                   cv::INTER_CUBIC};
static_assert(std::size(kInterpolations) == static_cast<size_t>(ResizeMethod::kCubic) + 1);

// A cv::Mat over memory of ours; OpenCV has no type for read-only pixels.
cv::Mat Wrap(const ImageView& image) {
  return cv::Mat(image.height, image.width, CV_8UC(image.channels),
                 const_cast<uint8_t*>(image.data), image.stride);
}

}  // namespace

absl::Status ResizeImage(const ImageView& in, ResizeMethod method, const MutableImageView& out) {
  // Parallelism is across samples: OpenCV's own threads would only steal from other workers.
  [[maybe_unused]] static const bool single_threaded = (cv::setNumThreads(1), true);
  try {
    cv::Mat target = Wrap(out);
    cv::resize(Wrap(in), target, target.size(), 0, 0, kInterpolations[static_cast<int>(method)]);
    if (target.data != out.data) {
      return MakeError(absl::StatusCode::kInternal, reason::kInternal,
                       "OpenCV moved the result of a resize");
    }
  } catch (const cv::Exception& error) {
    if (error.code == cv::Error::StsNoMem) throw std::bad_alloc();
    return MakeError(absl::StatusCode::kInternal, reason::kInternal,
                     absl::StrCat("OpenCV refuses to resize ", in.width, " x ", in.height, " to ",
                                  out.width, " x ", out.height, ": ", error.err));
  }
  return absl::OkStatus();
}

absl::Status ResizeImage(const ImageView& in, ResizeMethod method, const MutableImageView& out,
                         LinearResizer& resizer, bool past_caches) {
  if (method != ResizeMethod::kLinear ||
      !resizer.Prepare(in.size(), in.channels, out.size(), LinearResizer::Mirror::kNone)) {
    return ResizeImage(in, method, out);
  }
  resizer.Run(in, out, past_caches);
  return absl::OkStatus();
}

}  // namespace bulkhead
