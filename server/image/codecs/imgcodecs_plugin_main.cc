// The plugin itself: the only file that uses OpenCV's image codecs, for BMP and PNM. TIFF has a
// decoder of its own (tiff_plugin.cc): OpenCV drops what libtiff says about damaged files.
#include <climits>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>

#include "server/image/codecs/imgcodecs_abi.h"
#include "server/image/codecs/tiff_plugin.h"

namespace {

bool IsTiff(const uint8_t* file, size_t size) {
  return size >= 4 && (std::memcmp(file, "II*\0", 4) == 0 || std::memcmp(file, "MM\0*", 4) == 0);
}

// Whether a BMP's fourth byte of a pixel is alpha: only where its masks say so. They stand in
// headers longer than BITMAPINFOHEADER's 40 bytes; compression 3 says that they count.
bool HasAlpha(const uint8_t* file, size_t size) {
  constexpr size_t kAlphaMaskAt = 66;
  return size >= kAlphaMaskAt + 4 && std::memcmp(file, "BM", 2) == 0 && file[14] > 40 &&
         file[30] == 3 && file[kAlphaMaskAt + 3] == 0xff;
}

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
  if (channels == 4 && HasAlpha(file.data, file.total())) {
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
    if (IsTiff(file, size)) {
      return DecodeTiff(file, size, channels, allocate, user, message, message_size);
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
