#include "server/image/jpeg/header.h"

#include <algorithm>
#include <cstring>

namespace bulkhead::jpeg {
namespace {

// Second bytes of the markers that matter here (T.81, table B.1).
constexpr uint8_t kSof0 = 0xC0;
constexpr uint8_t kSof1 = 0xC1;
constexpr uint8_t kSof2 = 0xC2;  // progressive
constexpr uint8_t kDht = 0xC4;
constexpr uint8_t kSof15 = 0xCF;
constexpr uint8_t kSoi = 0xD8;
constexpr uint8_t kSos = 0xDA;
constexpr uint8_t kDqt = 0xDB;
constexpr uint8_t kDri = 0xDD;
constexpr uint8_t kApp0 = 0xE0;
constexpr uint8_t kApp14 = 0xEE;
constexpr uint8_t kApp15 = 0xEF;
constexpr uint8_t kComment = 0xFE;
// libjpeg's limit of either extent.
constexpr int kMaxExtent = 65500;
// Of an Adobe segment: its name, versions and flags come before the transform.
constexpr size_t kAdobeBytes = 12;
constexpr int kAdobeYcc = 1;
constexpr size_t kJfifBytes = 14;

class Parser {
 public:
  Parser(absl::string_view file, Header& header, Scans scans)
      : begin_(reinterpret_cast<const uint8_t*>(file.data())),
        size_(file.size()),
        one_scan_(scans == Scans::kOne),
        out_(header) {}

  Fallback Run() {
    if (size_ < 2 || begin_[0] != 0xFF || begin_[1] != kSoi) return Fallback::kSegments;
    at_ = 2;
    for (;;) {
      if (size_ - at_ < 4 || begin_[at_] != 0xFF) return Fallback::kSegments;
      while (at_ < size_ && begin_[at_] == 0xFF) ++at_;
      if (size_ - at_ < 3) return Fallback::kSegments;
      const uint8_t marker = begin_[at_++];
      const size_t length = static_cast<size_t>(begin_[at_]) << 8 | begin_[at_ + 1];
      if (length < 2 || length > size_ - at_) return Fallback::kSegments;
      const uint8_t* body = begin_ + at_ + 2;
      at_ += length;
      const Fallback reason = Segment(marker, body, length - 2);
      if (reason != Fallback::kNone) return reason;
      if (marker == kSos) break;
    }
    out_.scan_begin = at_;
    return CheckWhole();
  }

 private:
  Fallback Segment(uint8_t marker, const uint8_t* body, size_t length) {
    if (marker == kSof0 || marker == kSof1 || (marker == kSof2 && !one_scan_)) {
      return Frame(body, length);
    }
    if (marker == kDht) return HuffmanTables(body, length);
    if (marker == kDqt) return QuantTables(body, length);
    if (marker == kSos) return Scan(body, length);
    if (marker > kSof1 && marker <= kSof15) return Fallback::kProgressive;
    if (marker == kDri) {
      if (length != 2) return Fallback::kSegments;
      out_.restart_interval = body[0] << 8 | body[1];
      return Fallback::kNone;
    }
    if (marker == kApp0 && length >= kJfifBytes && std::memcmp(body, "JFIF", 5) == 0) jfif_ = true;
    if (marker == kApp14 && length >= kAdobeBytes && std::memcmp(body, "Adobe", 5) == 0) {
      adobe_ = true;
      adobe_transform_ = body[kAdobeBytes - 1];
    }
    const bool known = (marker >= kApp0 && marker <= kApp15) || marker == kComment;
    return known ? Fallback::kNone : Fallback::kSegments;
  }

  Fallback Frame(const uint8_t* body, size_t length) {
    if (length < 6 || out_.component_count != 0) return Fallback::kSegments;
    if (body[0] != 8) return Fallback::kPrecision;
    out_.size = {body[1] << 8 | body[2], body[3] << 8 | body[4]};
    const int count = body[5];
    if (count != 1 && count != kMaxComponents) return Fallback::kComponents;
    if (length != 6 + 3 * static_cast<size_t>(count)) return Fallback::kSegments;
    if (out_.size.height < 1 || out_.size.width < 1) return Fallback::kSize;
    if (std::max(out_.size.height, out_.size.width) > kMaxExtent) return Fallback::kSize;
    for (int i = 0; i < count; ++i) {
      Component& component = out_.components[i];
      const uint8_t* in = body + 6 + static_cast<ptrdiff_t>(i) * 3;
      component = {in[0], in[1] >> 4, in[1] & 15, in[2], 0, 0};
      if (component.quant_slot >= kTableSlots) return Fallback::kTables;
      for (int other = 0; other < i; ++other) {
        if (out_.components[other].id == component.id) return Fallback::kComponents;
      }
    }
    out_.component_count = count;
    return CheckSampling();
  }

  Fallback CheckSampling() {
    for (int i = 1; i < out_.component_count; ++i) {
      if (out_.components[i].h != 1 || out_.components[i].v != 1) return Fallback::kSampling;
    }
    const int h = out_.components[0].h;
    const int v = out_.components[0].v;
    const bool usual = out_.component_count == 1
                           ? h == 1 && v == 1
                           : (v == 1 && (h == 1 || h == 2 || h == 4)) || (v == 2 && h <= 2);
    if (!usual || h < 1) return Fallback::kSampling;
    out_.h_max = h;
    out_.v_max = v;
    // Of at most two samples libjpeg repeats each one instead.
    if (h == 2 && out_.size.width <= 4) return Fallback::kSize;
    return Fallback::kNone;
  }

  Fallback HuffmanTables(const uint8_t* body, size_t length) {
    while (length != 0) {
      if (length <= 17) return Fallback::kTables;
      const int slot = body[0] & 15;
      if (slot >= kTableSlots || body[0] >> 4 > 1) return Fallback::kTables;
      HuffmanSpec& spec = (body[0] >> 4 == 0 ? out_.dc : out_.ac)[slot];
      size_t count = 0;
      for (int i = 0; i < 16; ++i) count += spec.counts[i] = body[1 + i];
      if (count == 0 || count > spec.symbols.size() || count > length - 17) {
        return Fallback::kTables;
      }
      std::copy_n(body + 17, count, spec.symbols.begin());
      std::fill(spec.symbols.begin() + count, spec.symbols.end(), 0);
      spec.symbol_count = static_cast<int>(count);
      body += 17 + count;
      length -= 17 + count;
    }
    return Fallback::kNone;
  }

  Fallback QuantTables(const uint8_t* body, size_t length) {
    while (length != 0) {
      const int slot = body[0] & 15;
      const int wide = body[0] >> 4;
      if (slot >= kTableSlots || wide > 1) return Fallback::kTables;
      const size_t bytes = 1 + static_cast<size_t>(kBlockCoefficients) * (wide + 1);
      if (length < bytes) return Fallback::kTables;
      for (int k = 0; k < kBlockCoefficients; ++k) {
        out_.quant[slot][kNaturalOrder[k]] =
            static_cast<uint16_t>(wide != 0 ? body[1 + 2 * k] << 8 | body[2 + 2 * k] : body[1 + k]);
      }
      out_.has_quant[slot] = true;
      body += bytes;
      length -= bytes;
    }
    return Fallback::kNone;
  }

  // The scan must hold all components, in the order of the frame.
  Fallback Scan(const uint8_t* body, size_t length) {
    const int count = out_.component_count;
    if (count != 0 && !one_scan_) return Fallback::kNone;
    if (count == 0 || length < 1 || body[0] != count) return Fallback::kScans;
    if (length != 4 + 2 * static_cast<size_t>(count)) return Fallback::kScans;
    for (int i = 0; i < count; ++i) {
      Component& component = out_.components[i];
      if (body[1 + 2 * i] != component.id) return Fallback::kScans;
      component.dc_slot = body[2 + 2 * i] >> 4;
      component.ac_slot = body[2 + 2 * i] & 15;
    }
    const uint8_t* spectrum = body + 1 + static_cast<ptrdiff_t>(2) * count;
    const bool sequential = spectrum[0] == 0 && spectrum[1] == 63 && spectrum[2] == 0;
    return sequential ? Fallback::kNone : Fallback::kScans;
  }

  Fallback CheckWhole() const {
    for (int i = 0; i < out_.component_count; ++i) {
      const Component& component = out_.components[i];
      if (!out_.has_quant[component.quant_slot]) return Fallback::kTables;
      if (!one_scan_) continue;
      if (component.dc_slot >= kTableSlots || out_.dc[component.dc_slot].symbol_count == 0 ||
          component.ac_slot >= kTableSlots || out_.ac[component.ac_slot].symbol_count == 0) {
        return Fallback::kTables;
      }
    }
    if (out_.component_count == 1 || jfif_) return Fallback::kNone;
    if (adobe_) return adobe_transform_ == kAdobeYcc ? Fallback::kNone : Fallback::kColorSpace;
    const auto& parts = out_.components;
    const bool rgb = parts[0].id == 'R' && parts[1].id == 'G' && parts[2].id == 'B';
    return rgb ? Fallback::kColorSpace : Fallback::kNone;
  }

  const uint8_t* begin_;
  size_t size_;
  size_t at_ = 0;
  const bool one_scan_;
  bool jfif_ = false;
  bool adobe_ = false;
  int adobe_transform_ = 0;
  Header& out_;
};

}  // namespace

const std::array<uint8_t, kBlockCoefficients + 32> kNaturalOrder = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,   //
    12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6,  7,  14, 21, 28,  //
    35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51,  //
    58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,  //
    63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63,  //
    63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63};

Fallback ParseHeader(absl::string_view file, Header& header, Scans scans) {
  header.component_count = 0;
  header.restart_interval = 0;
  header.h_max = header.v_max = 1;
  header.has_quant.fill(false);
  for (HuffmanSpec& spec : header.dc) spec.symbol_count = 0;
  for (HuffmanSpec& spec : header.ac) spec.symbol_count = 0;
  return Parser(file, header, scans).Run();
}

}  // namespace bulkhead::jpeg
