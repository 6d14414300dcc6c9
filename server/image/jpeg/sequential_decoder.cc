#include "server/image/jpeg/sequential_decoder.h"

#include <algorithm>
#include <cstring>

#include "server/image/jpeg/color_convert.h"
#include "server/image/jpeg/upsample.h"

namespace bulkhead::jpeg {
namespace {

constexpr uint8_t kNoColour = 128;

int RoundedUp(int value, int divisor) { return (value + divisor - 1) / divisor; }

}  // namespace

Fallback SequentialDecoder::Open(absl::string_view file, Scans scans) {
  file_ = file;
  return ParseHeader(file, header_, scans);
}

int SequentialDecoder::OutputComponents(PixelFormat format) const {
  return format == PixelFormat::kGray ? 1 : header_.component_count;
}

SequentialDecoder::Needs SequentialDecoder::NeedsOf(const Rect& rect) const {
  Needs needs;
  int left = rect.left;
  int right = rect.right();
  if (header_.h_max == 2) {
    // The chroma samples beside those of the outermost pixels.
    left = std::max(left / 2 - 1, 0) * 2;
    right = std::min((right - 1) / 2 * 2 + 4, header_.size.width);
  }
  needs.left = left / header_.mcu_width();
  needs.right = RoundedUp(right, header_.mcu_width());
  const int last = rect.bottom() - 1;
  needs.top = (smooth_down() ? std::max(rect.top - 1, 0) : rect.top) / header_.mcu_height();
  needs.bottom = last / header_.mcu_height() + 1;
  // The chroma row below. libjpeg upsamples two rows at once, so it reads on for either of the last
  // two rows of a band.
  const bool of_last_two = last % header_.mcu_height() >= header_.mcu_height() - 2;
  if (smooth_down() && of_last_two) needs.bottom = std::min(needs.bottom + 1, header_.mcus_down());
  return needs;
}

void SequentialDecoder::PrepareBuffers() {
  const int mcus = needs_.right - needs_.left;
  for (int c = 0; c < component_count_; ++c) {
    const Component& component = header_.components[c];
    planes_[c].Reshape(mcus * component.h * kBlockSize, component.v * kBlockSize);
    const QuantTable& quant = header_.quant[component.quant_slot];
    std::copy(quant.begin(), quant.end(), quant_[c].factors);
  }
  const size_t row_bytes =
      static_cast<size_t>(mcus) * header_.mcu_width() + static_cast<size_t>(2) * kRowPadding;
  uint8_t* rows = row_buffer_.Resize(2 * row_bytes);
  rows_ = {nullptr, rows, rows + row_bytes};
  if (header_.component_count == 1) std::memset(rows, kNoColour, 2 * row_bytes);
}

void SequentialDecoder::Begin(PixelFormat format, const Rect& rect, Simd simd) {
  format_ = format;
  simd_ = simd;
  component_count_ = OutputComponents(format);
  needs_ = NeedsOf(rect);
  batch_.Shape(header_);
  PrepareBuffers();
  known_ = nullptr;
  kept_ = nullptr;
  mcus_read_ = 0;
}

Fallback SequentialDecoder::DecodeBands(const Rect& rect, const MutableImageView& out) {
  for (int band = needs_.top; band < needs_.bottom; ++band) {
    const Fallback reason = DecodeBand(band);
    if (reason != Fallback::kNone) {
      // Coefficients must be zero before the next file.
      batch_.Clear();
      return reason;
    }
    CompleteEdges(band);
    WriteRows(band, rect, out);
    if (!smooth_down()) continue;
    for (int c = 0; c < component_count_; ++c) {
      planes_[c].CopyRow(header_.components[c].v * kBlockSize - 1, -1);
    }
  }
  return Fallback::kNone;
}

Fallback SequentialDecoder::Decode(PixelFormat format, const Rect& rect,
                                   const MutableImageView& out, Simd simd,
                                   const SeekEntries* known) {
  Begin(format, rect, simd);
  Fallback reason = entropy_.Begin(file_, header_);
  if (reason != Fallback::kNone) return reason;
  known_ = known;
  reason = DecodeBands(rect, out);
  if (reason != Fallback::kNone || known != nullptr) return reason;
  // Beside the rectangle, up to its last row, the data must be good, too.
  return GoTo(needs_.bottom, 0);
}

std::pair<int, int> SequentialDecoder::BandsOf(PixelFormat format, const Rect& rect) {
  component_count_ = OutputComponents(format);
  const Needs needs = NeedsOf(rect);
  return {needs.top, needs.bottom};
}

Fallback SequentialDecoder::DecodeKept(PixelFormat format, const Rect& rect,
                                       const MutableImageView& out, Coefficients& kept, Simd simd) {
  Begin(format, rect, simd);
  kept_ = &kept;
  return DecodeBands(rect, out);
}

Fallback SequentialDecoder::WriteCoefficients(const StoreKey& key, CoefficientWriter& writer,
                                              Simd simd) {
  Fallback reason = entropy_.Begin(file_, header_);
  if (reason != Fallback::kNone) return reason;
  simd_ = simd;
  batch_.Shape(header_);
  writer.Begin(key, header_);
  for (int band = 0; band < header_.mcus_down(); ++band) {
    reason = WriteBand(writer);
    if (reason == Fallback::kNone) continue;
    batch_.Clear();
    return reason;
  }
  if (!entropy_.IsAtEnd()) return Fallback::kData;
  return writer.Finish() ? Fallback::kNone : Fallback::kSize;
}

Fallback SequentialDecoder::WriteBand(CoefficientWriter& writer) {
  writer.BeginBand();
  for (int mcu = 0; mcu < header_.mcus_across(); mcu += McuBatch::kMcus) {
    const int count = std::min(McuBatch::kMcus, header_.mcus_across() - mcu);
    const Fallback reason = entropy_.Decode(count, batch_.Target());
    if (reason != Fallback::kNone) return reason;
    for (int i = 0; i < batch_.rows(); ++i) {
      const McuBatch::Row& row = batch_.row(i);
      for (int block = 0; block < count * row.blocks; ++block) {
        writer.row(i).Add(row.coefficients + static_cast<ptrdiff_t>(block) * kBlockCoefficients,
                          simd_);
      }
    }
  }
  writer.EndBand();
  return Fallback::kNone;
}

Fallback SequentialDecoder::DecodeAndIndex(PixelFormat format, const Rect& rect,
                                           const MutableImageView& out,
                                           absl::string_view& entries) {
  entries = {};
  maker_.Begin(header_, file_.size());
  making_ = true;
  const Fallback reason = Decode(format, rect, out);
  const bool good = reason == Fallback::kNone && GoTo(header_.mcus_down(), 0) == Fallback::kNone &&
                    entropy_.IsAtEnd();
  making_ = false;
  if (reason != Fallback::kNone) return reason;
  if (!good) {
    entries = SeekEntries::None();
  } else if (maker_.complete()) {
    entries = maker_.bytes();
  }
  return reason;
}

Fallback SequentialDecoder::GoTo(int band, int column) {
  const uint32_t wanted = static_cast<uint32_t>(band) * header_.mcus_across() + column;
  if (known_ != nullptr) {
    const EntryPoint point = known_->Before(band, column);
    if (point.mcu >= entropy_.next_mcu() + kLeastLeftOut) {
      entropy_.StartAt(point, known_->BytesUpTo(band, needs_.right - 1, point));
    }
  }
  return Read(static_cast<int>(wanted - entropy_.next_mcu()), /*keep=*/false);
}

int SequentialDecoder::UpToEntry(int count) {
  if (making_) {
    const uint32_t next = entropy_.next_mcu();
    if (maker_.Due(next) == 0) maker_.Add(entropy_.Entry());
    count = std::min(count, 1 + maker_.Due(next + 1));
  }
  mcus_read_ += count;
  return count;
}

Fallback SequentialDecoder::Read(int count, bool keep) {
  McuTarget target = keep ? batch_.Target() : McuTarget();
  Fallback reason = Fallback::kNone;
  while (count > 0 && reason == Fallback::kNone) {
    const int now = UpToEntry(count);
    reason = keep ? entropy_.Decode(now, target) : entropy_.Skip(now);
    count -= now;
    for (BlockTarget& block : target) {
      block.out += now * block.step;
      block.last += now * block.last_step;
    }
  }
  return reason;
}

Fallback SequentialDecoder::DecodeBand(int band) {
  Fallback reason = Fallback::kNone;
  if (kept_ == nullptr) {
    reason = GoTo(band, needs_.left);
  } else if (!kept_->GoTo(band, needs_.left)) {
    reason = Fallback::kData;
  }
  for (int mcu = needs_.left; mcu < needs_.right && reason == Fallback::kNone;) {
    const int count = std::min(McuBatch::kMcus, needs_.right - mcu);
    reason = DecodeBatch(count, mcu);
    mcu += count;
  }
  return reason;
}

Fallback SequentialDecoder::DecodeBatch(int count, int first_mcu) {
  const Fallback reason = kept_ == nullptr ? Read(count, /*keep=*/true) : ExpandBatch(count);
  if (reason != Fallback::kNone) return reason;
  return TransformBatch(count, first_mcu) ? Fallback::kNone : Fallback::kCoefficient;
}

Fallback SequentialDecoder::ExpandBatch(int count) {
  for (int i = 0; i < batch_.rows(); ++i) {
    const McuBatch::Row& row = batch_.row(i);
    if (row.component >= component_count_) break;
    if (!kept_->Expand(i, count * row.blocks, row.coefficients, row.last, simd_)) {
      return Fallback::kData;
    }
  }
  return Fallback::kNone;
}

bool SequentialDecoder::TransformBatch(int count, int first_mcu) {
  bool good = true;
  for (int i = 0; i < batch_.rows(); ++i) {
    const McuBatch::Row& row = batch_.row(i);
    if (row.component >= component_count_) {
      std::fill_n(row.coefficients,
                  static_cast<ptrdiff_t>(McuBatch::kMcus) * row.blocks * kBlockCoefficients, 0);
      continue;
    }
    ComponentPlane& plane = planes_[row.component];
    const ptrdiff_t column =
        static_cast<ptrdiff_t>(first_mcu - needs_.left) * row.blocks * kBlockSize;
    good &=
        InverseTransform({row.coefficients, row.last, count * row.blocks}, quant_[row.component],
                         plane.row(row.in_component * kBlockSize) + column, plane.stride(), simd_);
  }
  return good;
}

// Puts copies of the outermost chroma samples behind the edges of the image.
void SequentialDecoder::CompleteEdges(int band) {
  if (component_count_ == 1) return;
  const int chroma_left = needs_.left * kBlockSize;
  const int chroma_width = RoundedUp(header_.size.width, header_.h_max);
  const int chroma_height = RoundedUp(header_.size.height, header_.v_max);
  for (int c = 1; c < component_count_; ++c) {
    ComponentPlane& plane = planes_[c];
    if (header_.h_max == 2) {
      if (needs_.left == 0) plane.RepeatLeft();
      if (needs_.right == header_.mcus_across()) plane.RepeatRight(chroma_width - chroma_left);
    }
    if (!smooth_down()) continue;
    if (band == 0) plane.CopyRow(0, -1);
    if (band == header_.mcus_down() - 1) {
      const int behind = chroma_height - band * kBlockSize;
      plane.CopyRow(behind - 1, behind);
    }
  }
}

void SequentialDecoder::WriteRows(int band, const Rect& rect, const MutableImageView& out) {
  int from = band * header_.mcu_height();
  int to = from + header_.mcu_height();
  if (smooth_down()) {
    // The last row of a band waits for the next one.
    --from;
    if (band < header_.mcus_down() - 1) --to;
  }
  from = std::max(from, rect.top);
  to = std::min(to, rect.bottom());
  for (int y = from; y < to; ++y) WriteRow(band, y, rect, out.row(y - rect.top));
}

void SequentialDecoder::WriteRow(int band, int y, const Rect& rect, uint8_t* out) {
  const int luma_left = rect.left - needs_.left * header_.mcu_width();
  const uint8_t* luma = planes_[0].row(y - band * header_.mcu_height()) + luma_left;
  if (format_ == PixelFormat::kGray) {
    std::memcpy(out, luma, rect.width);
    return;
  }
  const YccRow row = {luma, ChromaRow(1, band, y, rect), ChromaRow(2, band, y, rect)};
  ConvertRow(row, rect.width, format_, out, simd_);
}

const uint8_t* SequentialDecoder::ChromaRow(int component, int band, int y, const Rect& rect) {
  uint8_t* out = rows_[component] + kRowPadding;
  if (header_.component_count == 1) return out;
  ComponentPlane& plane = planes_[component];
  const int h = header_.h_max;
  // The samples for the pixels from `first` × h on.
  const int first = rect.left / h;
  const int count = (rect.right() - 1) / h + 1 - first;
  const int column = first - needs_.left * kBlockSize;
  if (!smooth_down()) {
    const uint8_t* in = plane.row(y - band * kBlockSize) + column;
    if (h == 1) return in;
    if (h == 2) {
      UpsampleAcross(in, count, out, simd_);
    } else {
      RepeatAcross(in, count, out);
    }
    return out + rect.left % h;
  }
  const int near = (y >> 1) - band * kBlockSize;
  const Side side = y % 2 == 0 ? Side::kAbove : Side::kBelow;
  const int far = side == Side::kAbove ? near - 1 : near + 1;
  if (h == 1) {
    UpsampleDown(plane.row(near) + column, plane.row(far) + column, side, count, out, simd_);
    return out;
  }
  UpsampleBoth(plane.row(near) + column, plane.row(far) + column, count, out, simd_);
  return out + rect.left % h;
}

}  // namespace bulkhead::jpeg
