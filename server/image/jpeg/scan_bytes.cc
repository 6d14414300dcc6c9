#include "server/image/jpeg/scan_bytes.h"

#include <algorithm>
#include <cstring>

namespace bulkhead::jpeg {

void ScanBytes::Begin(absl::string_view file, size_t offset, size_t wanted_bytes) {
  file_ = reinterpret_cast<const uint8_t*>(file.data());
  file_end_ = file_ + file.size();
  next_ = first_ = file_ + std::min(offset, file.size());
  end_ = buffer_.data();
  at_marker_ = false;
  counted_to_ = buffer_.data();
  stuffed_ = 0;
  // What an MCU may take must be there beside.
  piece_bytes_ = std::min(wanted_bytes + kMcuBytes + kHeldBytes, kPieceBytes);
  Load();
  piece_bytes_ = kPieceBytes;
}

// Loads behind end_ until a piece is full or a marker is met.
void ScanBytes::Load() {
  uint8_t* out = buffer_.data() + (end_ - buffer_.data());
  uint8_t* const full = buffer_.data() + piece_bytes_;
  while (out < full && !at_marker_) {
    const size_t room = std::min<size_t>(full - out, file_end_ - next_);
    const void* found = room == 0 ? nullptr : std::memchr(next_, 0xFF, room);
    const size_t plain = found == nullptr ? room : static_cast<const uint8_t*>(found) - next_;
    std::memcpy(out, next_, plain);
    out += plain;
    next_ += plain;
    if (found == nullptr) {
      at_marker_ = next_ == file_end_;
    } else if (file_end_ - next_ >= 2 && next_[1] == 0) {
      *out++ = 0xFF;
      next_ += 2;
    } else {
      at_marker_ = true;
    }
  }
  end_ = out;
  // Behind the last piece an MCU may begin anywhere up to the end: what it reads there is stale,
  // and IsBeyond tells.
  safe_end_ = at_marker_ ? end_ + kMcuBytes / 2 : end_ - kMcuBytes;
}

const uint8_t* ScanBytes::FillSlowly(const uint8_t* at) {
  if (at_marker_) return end_;  // far behind the data, where IsBeyond was not asked
  // What the decoder holds as bits, too: it may step back over them.
  const size_t held = std::min<size_t>(kHeldBytes, at - buffer_.data());
  const uint8_t* const from = at - held;
  const size_t left = end_ - from;
  first_ = next_ - left - std::count(from, end_, 0xFF);
  std::memmove(buffer_.data(), from, left);
  end_ = buffer_.data() + left;
  counted_to_ = buffer_.data();
  stuffed_ = 0;
  Load();
  return buffer_.data() + held;
}

size_t ScanBytes::FileOffset(const uint8_t* at) const {
  if (at < counted_to_) {
    counted_to_ = buffer_.data();
    stuffed_ = 0;
  }
  // Each FF is followed by a zero in the file.
  stuffed_ += std::count(counted_to_, at, 0xFF);
  counted_to_ = at;
  return (first_ - file_) + (at - buffer_.data()) + stuffed_;
}

size_t ScanBytes::MarkerBehind(const uint8_t* at, int unused_bits) const {
  if (!at_marker_) return 0;
  const ptrdiff_t left_bits = (end_ - at) * 8 + unused_bits;
  return left_bits >= 0 && left_bits < 8 ? next_ - file_ : 0;
}

}  // namespace bulkhead::jpeg
