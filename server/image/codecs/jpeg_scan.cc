#include "server/image/codecs/jpeg_scan.h"

#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/base/error.h"
#include "server/image/image_error.h"

namespace bulkhead {
namespace {

// Second bytes of the markers that matter here (T.81, table B.1).
constexpr uint8_t kTem = 0x01;
constexpr uint8_t kSof0 = 0xC0;
constexpr uint8_t kDht = 0xC4;
constexpr uint8_t kJpgExtension = 0xC8;
constexpr uint8_t kDac = 0xCC;
constexpr uint8_t kSof15 = 0xCF;
constexpr uint8_t kRst0 = 0xD0;
constexpr uint8_t kRst7 = 0xD7;
constexpr uint8_t kSoi = 0xD8;
constexpr uint8_t kEoi = 0xD9;
constexpr uint8_t kSos = 0xDA;
constexpr uint8_t kDri = 0xDD;
constexpr int kMaxScans = 1000;

bool IsRestart(uint8_t marker) { return marker >= kRst0 && marker <= kRst7; }

bool IsFrameHeader(uint8_t marker) {
  return marker >= kSof0 && marker <= kSof15 && marker != kDht && marker != kJpgExtension &&
         marker != kDac;
}

class Scanner {
 public:
  Scanner(absl::string_view file, uint64_t max_pixels)
      : begin_(reinterpret_cast<const uint8_t*>(file.data())),
        size_(file.size()),
        max_pixels_(max_pixels) {}

  absl::StatusOr<JpegStructure> Run(bool accept_truncated) {
    const absl::Status status = Walk();
    if (status.ok()) return found_;
    if (!accept_truncated || !ran_out_ || found_.scan_count == 0) return status;
    found_.truncated = true;
    return found_;
  }

 private:
  absl::Status Walk() {
    if (size_ < 2) return Truncated();
    if (begin_[0] != 0xFF || begin_[1] != kSoi) return Corrupt("it does not begin with SOI");
    at_ = 2;
    for (;;) {
      uint8_t marker = 0;
      BULKHEAD_RETURN_IF_ERROR(NextMarker(marker));
      if (marker == kEoi) break;
      BULKHEAD_RETURN_IF_ERROR(Segment(marker));
    }
    if (found_.component_count == 0) return Corrupt("it has no frame header");
    if (found_.scan_count == 0) return Corrupt("it has no scan");
    return absl::OkStatus();
  }

  absl::Status Truncated() {
    ran_out_ = true;
    return SampleError(reason::kTruncatedImage,
                       absl::StrCat("this JPEG ends after ", size_,
                                    " bytes, before its end-of-image marker; copy the file again"));
  }

  absl::Status Corrupt(absl::string_view what) const {
    return SampleError(reason::kCorruptImage,
                       absl::StrCat("the marker structure of this JPEG is damaged at byte ", at_,
                                    ": ", what, "; replace the file"));
  }

  uint32_t Big16(size_t offset) const { return begin_[offset] << 8 | begin_[offset + 1]; }

  // Reads the marker at at_: FF, further FFs as fill bytes, then its code.
  absl::Status NextMarker(uint8_t& marker) {
    if (at_ >= size_) return Truncated();
    if (begin_[at_] != 0xFF) return Corrupt("a marker must stand here");
    while (at_ < size_ && begin_[at_] == 0xFF) ++at_;
    if (at_ >= size_) return Truncated();
    marker = begin_[at_++];
    if (marker == 0) return Corrupt("a marker must stand here");
    return absl::OkStatus();
  }

  // Passes over the segment of `marker`, whose code was just read, and over the entropy-coded data
  // that follows it.
  absl::Status Segment(uint8_t marker) {
    if (marker == kTem) return absl::OkStatus();
    if (marker == kSoi || IsRestart(marker)) {
      return Corrupt(absl::StrFormat("marker FF%02X stands where a segment must begin", marker));
    }
    if (size_ - at_ < 2) return Truncated();
    const size_t length = Big16(at_);
    if (length < 2) return Corrupt("a segment is shorter than its own length field");
    if (length > size_ - at_) return Truncated();
    if (IsFrameHeader(marker)) BULKHEAD_RETURN_IF_ERROR(FrameHeader(length));
    if (marker == kDri) {
      if (length != 4) return Corrupt("a DRI segment has a wrong length");
      restart_interval_ = Big16(at_ + 2);
    }
    at_ += length;
    if (marker != kSos) return absl::OkStatus();
    if (found_.component_count == 0) return Corrupt("a scan comes before the frame header");
    if (++found_.scan_count > kMaxScans) return Corrupt("it has more than 1000 scans");
    return EntropyCodedData();
  }

  absl::Status FrameHeader(size_t length) {
    if (found_.component_count != 0) return Corrupt("it has two frame headers");
    if (length < 8) return Corrupt("the frame header is too short");
    const uint32_t height = Big16(at_ + 3);
    const uint32_t width = Big16(at_ + 5);
    const int components = begin_[at_ + 7];
    if (components == 0 || length != 8 + 3 * static_cast<size_t>(components)) {
      return Corrupt("the frame header has a wrong length");
    }
    BULKHEAD_RETURN_IF_ERROR(CheckImageSize("JPEG", width, height, max_pixels_));
    found_.size = {static_cast<int>(height), static_cast<int>(width)};
    found_.component_count = components;
    return absl::OkStatus();
  }

  // Leaves at_ on the FF of the first marker that is no restart marker.
  absl::Status EntropyCodedData() {
    uint8_t next_restart = kRst0;
    for (;;) {
      const void* found = at_ < size_ ? std::memchr(begin_ + at_, 0xFF, size_ - at_) : nullptr;
      if (found == nullptr) return Truncated();
      at_ = static_cast<const uint8_t*>(found) - begin_;
      size_t code_at = at_ + 1;
      while (code_at < size_ && begin_[code_at] == 0xFF) ++code_at;
      if (code_at >= size_) return Truncated();
      const uint8_t code = begin_[code_at];
      if (code != 0 && !IsRestart(code)) return absl::OkStatus();
      if (IsRestart(code)) {
        if (restart_interval_ == 0) return Corrupt("a restart marker without restart interval");
        if (code != next_restart) return Corrupt("a restart marker out of order");
        next_restart = code == kRst7 ? kRst0 : code + 1;
      }
      at_ = code_at + 1;
    }
  }

  const uint8_t* begin_;
  size_t size_;
  uint64_t max_pixels_;
  size_t at_ = 0;
  uint32_t restart_interval_ = 0;
  bool ran_out_ = false;
  JpegStructure found_;
};

}  // namespace

absl::StatusOr<JpegStructure> ScanJpeg(absl::string_view file, uint64_t max_pixels,
                                       bool accept_truncated) {
  return Scanner(file, max_pixels).Run(accept_truncated);
}

}  // namespace bulkhead
