#include "server/image/jpeg/coefficients.h"

#include <algorithm>
#include <limits>

#include "server/base/checksum.h"
#include "server/base/little_endian.h"

namespace bulkhead::jpeg {
namespace {

// The head's numbers in front of those of the bands.
constexpr size_t kFixedBytes = sizeof(uint32_t) + 2 * sizeof(uint16_t);

size_t HeadBytesOf(int bands) { return kFixedBytes + (2 * bands + 1) * sizeof(uint32_t); }

// Of a head without its checksum. With the key, so that no other file's head is taken for it.
uint32_t HeadChecksum(const StoreKey& key, absl::string_view head) {
  const absl::string_view words(reinterpret_cast<const char*>(key.words), sizeof(key.words));
  return Crc32c(head, Crc32c(words));
}

}  // namespace

size_t Coefficients::HeadBytes(const Header& header) { return HeadBytesOf(header.mcus_down()); }

uint32_t Coefficients::Offset(int band) const {
  return LoadLittle<uint32_t>(head_.data() + kFixedBytes + band * sizeof(uint32_t));
}

uint32_t Coefficients::Checksum(int band) const {
  return LoadLittle<uint32_t>(head_.data() + kFixedBytes +
                              (header_->mcus_down() + 1 + band) * sizeof(uint32_t));
}

bool Coefficients::ParseHead(absl::string_view head, const StoreKey& key, const Header& header) {
  const size_t bytes = HeadBytes(header);
  if (head.size() < bytes) return false;
  head_.assign(head.data(), bytes);
  header_ = &header;
  const int down = header.mcus_down();
  if (LoadLittle<uint32_t>(head_.data()) !=
          HeadChecksum(key, absl::string_view(head_).substr(sizeof(uint32_t))) ||
      LoadLittle<uint16_t>(head_.data() + 4) != header.mcus_across() ||
      LoadLittle<uint16_t>(head_.data() + 6) != down || Offset(0) != bytes) {
    return false;
  }
  for (int band = 0; band < down; ++band) {
    if (Offset(band) > Offset(band + 1)) return false;
  }
  return true;
}

ValuePart Coefficients::PartOf(int top, int bottom) const {
  const uint64_t begin = Offset(top);
  return {begin, Offset(bottom) - begin + PackedRow::kReadBeyond};
}

bool Coefficients::SetBands(absl::string_view bytes, int top, int bottom) {
  if (bytes.size() != PartOf(top, bottom).bytes) return false;
  bands_ = bytes;
  top_ = top;
  for (int band = top; band < bottom; ++band) {
    const uint32_t begin = Offset(band) - Offset(top);
    if (Crc32c(bytes.substr(begin, Offset(band + 1) - Offset(band))) != Checksum(band)) {
      return false;
    }
  }
  return true;
}

bool Coefficients::GoTo(int band, int column) {
  const char* at = bands_.data() + (Offset(band) - Offset(top_));
  size_t left = Offset(band + 1) - Offset(band);
  int number = 0;
  for (int c = 0; c < header_->component_count; ++c) {
    const Component& component = header_->components[c];
    const size_t blocks = static_cast<size_t>(header_->mcus_across()) * component.h;
    for (int v = 0; v < component.v; ++v) {
      const size_t fixed = sizeof(uint32_t) + blocks * PackedRow::kBytesPerBlock;
      if (left < fixed) return false;
      Row& row = rows_[number++];
      const size_t value_bytes = LoadLittle<uint32_t>(at);
      if (left - fixed < value_bytes) return false;
      row.packed.maps = at + sizeof(uint32_t);
      row.packed.dcs = row.packed.maps + blocks * sizeof(uint64_t);
      row.packed.values = row.packed.dcs + blocks * sizeof(int16_t);
      row.packed.value_bytes = value_bytes;
      row.next = column * component.h;
      row.offset = ValueBytes(row.packed, 0, row.next);
      at += fixed + value_bytes;
      left -= fixed + value_bytes;
    }
  }
  return left == 0;
}

bool Coefficients::Expand(int number, int count, int16_t* out, uint8_t* last, Simd simd) {
  Row& row = rows_[number];
  const size_t bytes = ValueBytes(row.packed, row.next, count);
  const size_t end = row.offset + bytes;
  if (end > row.packed.value_bytes) return false;
  ExpandBlocks(row.packed, row.next, count, row.packed.values + row.offset, out, last, simd);
  row.next += count;
  row.offset = end;
  return true;
}

Fallback CoefficientMaker::Make(absl::string_view file, const StoreKey& key, const Header& header,
                                EntropyDecoder& entropy, Simd simd) {
  Fallback reason = entropy.Begin(file, header);
  if (reason != Fallback::kNone) return reason;
  const int down = header.mcus_down();
  const size_t head_bytes = HeadBytesOf(down);
  batch_.Shape(header);
  bytes_.assign(head_bytes, '\0');
  StoreLittle<uint16_t>(bytes_.data() + sizeof(uint32_t),
                        static_cast<uint16_t>(header.mcus_across()));
  StoreLittle<uint16_t>(bytes_.data() + sizeof(uint32_t) + sizeof(uint16_t),
                        static_cast<uint16_t>(down));
  StoreLittle<uint32_t>(bytes_.data() + kFixedBytes, static_cast<uint32_t>(head_bytes));
  for (int band = 0; band < down; ++band) {
    const size_t begin = bytes_.size();
    reason = MakeBand(entropy, header.mcus_across(), simd);
    if (reason != Fallback::kNone) return reason;
    if (bytes_.size() > std::numeric_limits<uint32_t>::max()) return Fallback::kSize;
    const size_t end_at = kFixedBytes + (band + 1) * sizeof(uint32_t);
    StoreLittle<uint32_t>(bytes_.data() + end_at, static_cast<uint32_t>(bytes_.size()));
    StoreLittle<uint32_t>(bytes_.data() + end_at + down * sizeof(uint32_t),
                          Crc32c(absl::string_view(bytes_).substr(begin)));
  }
  if (!entropy.IsAtEnd()) return Fallback::kData;
  const absl::string_view head = absl::string_view(bytes_).substr(0, head_bytes);
  StoreLittle<uint32_t>(bytes_.data(), HeadChecksum(key, head.substr(sizeof(uint32_t))));
  bytes_.append(PackedRow::kReadBeyond, '\0');
  return Fallback::kNone;
}

Fallback CoefficientMaker::MakeBand(EntropyDecoder& entropy, int across, Simd simd) {
  for (int i = 0; i < batch_.rows(); ++i) packers_[i].Begin(across * batch_.row(i).blocks);
  for (int mcu = 0; mcu < across; mcu += McuBatch::kMcus) {
    const int count = std::min(McuBatch::kMcus, across - mcu);
    const Fallback reason = entropy.Decode(count, batch_.Target());
    if (reason != Fallback::kNone) {
      batch_.Clear();
      return reason;
    }
    for (int i = 0; i < batch_.rows(); ++i) {
      const McuBatch::Row& row = batch_.row(i);
      for (int block = 0; block < count * row.blocks; ++block) {
        packers_[i].Add(row.coefficients + static_cast<ptrdiff_t>(block) * kBlockCoefficients,
                        simd);
      }
    }
  }
  for (int i = 0; i < batch_.rows(); ++i) {
    AppendLittle<uint32_t>(bytes_, static_cast<uint32_t>(packers_[i].value_bytes()));
    packers_[i].Finish(bytes_);
  }
  return Fallback::kNone;
}

}  // namespace bulkhead::jpeg
