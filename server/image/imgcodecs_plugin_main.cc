// The plugin itself: the only file that uses OpenCV's image codecs.
#include <climits>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>

#include "server/image/imgcodecs_abi.h"

namespace {

// Copies `image` (8 bits) to the caller with `channels` channels: 1, 3 or 4.
int Deliver(const cv::Mat& image, int channels, BulkheadImgcodecsAllocate allocate, void* user) {
  uint8_t* out = allocate(user, image.rows, image.cols, channels);
  if (out == nullptr) return BULKHEAD_IMGCODECS_NO_MEMORY;
  const int in_channels = image.channels();
  for (int y = 0; y < image.rows; ++y) {
    const uint8_t* in = image.ptr<uint8_t>(y);
    if (in_channels == channels) {
      std::memcpy(out, in, static_cast<size_t>(image.cols) * channels);
      out += static_cast<size_t>(image.cols) * channels;
      continue;
    }
    // Only towards four channels: alpha is added to gray or BGR.
    for (int x = 0; x < image.cols; ++x, in += in_channels, out += 4) {
      for (int c = 0; c < 3; ++c) out[c] = in[in_channels == 1 ? 0 : c];
      out[3] = 255;
    }
  }
  return BULKHEAD_IMGCODECS_OK;
}

// An 8-bit image with `channels` channels, or with fewer where four were asked for; empty when the
// file cannot be decoded.
cv::Mat Decode(const cv::Mat& file, int channels) {
  if (channels == 4) {
    cv::Mat image = cv::imdecode(file, cv::IMREAD_UNCHANGED | cv::IMREAD_IGNORE_ORIENTATION);
    if (image.depth() == CV_8U && !image.empty() && image.channels() != 2) return image;
  }
  const int mode = channels == 1 ? cv::IMREAD_GRAYSCALE : cv::IMREAD_COLOR;
  return cv::imdecode(file, mode | cv::IMREAD_IGNORE_ORIENTATION);
}

}  // namespace

extern "C" {

int bulkhead_imgcodecs_version() { return BULKHEAD_IMGCODECS_ABI_VERSION; }

int bulkhead_imgcodecs_decode(const uint8_t* file, size_t size, int channels,
                              BulkheadImgcodecsAllocate allocate, void* user, char* message,
                              size_t message_size) {
  try {
    if (size > static_cast<size_t>(INT_MAX)) {
      std::snprintf(message, message_size, "the file has more than 2 GiB");
      return BULKHEAD_IMGCODECS_BAD_IMAGE;
    }
    // OpenCV only reads from it.
    const cv::Mat bytes(1, static_cast<int>(size), CV_8U, const_cast<uint8_t*>(file));
    const cv::Mat image = Decode(bytes, channels);
    if (image.empty()) {
      std::snprintf(message, message_size, "its codecs refuse the data");
      return BULKHEAD_IMGCODECS_BAD_IMAGE;
    }
    return Deliver(image, channels, allocate, user);
  } catch (const std::bad_alloc&) {
    return BULKHEAD_IMGCODECS_NO_MEMORY;
  } catch (const cv::Exception& error) {
    if (error.code == cv::Error::StsNoMem) return BULKHEAD_IMGCODECS_NO_MEMORY;
    std::snprintf(message, message_size, "%s", error.err.c_str());
    return BULKHEAD_IMGCODECS_BAD_IMAGE;
  } catch (const std::exception& error) {
    std::snprintf(message, message_size, "%s", error.what());
    return BULKHEAD_IMGCODECS_BAD_IMAGE;
  }
}
}
