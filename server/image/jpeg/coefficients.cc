#include "server/image/jpeg/coefficients.h"

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

void CoefficientWriter::Begin(const StoreKey& key, const Header& header) {
  key_ = key;
  header_ = &header;
  band_ = 0;
  const size_t head_bytes = Coefficients::HeadBytes(header);
  bytes_.assign(head_bytes, '\0');
  char* const fixed = bytes_.data() + sizeof(uint32_t);
  StoreLittle<uint16_t>(fixed, static_cast<uint16_t>(header.mcus_across()));
  StoreLittle<uint16_t>(fixed + sizeof(uint16_t), static_cast<uint16_t>(header.mcus_down()));
  StoreLittle<uint32_t>(bytes_.data() + kFixedBytes, static_cast<uint32_t>(head_bytes));
}

void CoefficientWriter::BeginBand() {
  band_begin_ = bytes_.size();
  row_count_ = 0;
  for (int c = 0; c < header_->component_count; ++c) {
    const Component& component = header_->components[c];
    for (int v = 0; v < component.v; ++v) {
      rows_[row_count_++].Begin(header_->mcus_across() * component.h);
    }
  }
}

void CoefficientWriter::EndBand() {
  for (int i = 0; i < row_count_; ++i) {
    AppendLittle<uint32_t>(bytes_, static_cast<uint32_t>(rows_[i].value_bytes()));
    rows_[i].Finish(bytes_);
  }
  ++band_;
  const size_t end_at = kFixedBytes + band_ * sizeof(uint32_t);
  StoreLittle<uint32_t>(bytes_.data() + end_at, static_cast<uint32_t>(bytes_.size()));
  StoreLittle<uint32_t>(bytes_.data() + end_at + header_->mcus_down() * sizeof(uint32_t),
                        Crc32c(absl::string_view(bytes_).substr(band_begin_)));
}

bool CoefficientWriter::Finish() {
  if (bytes_.size() > std::numeric_limits<uint32_t>::max()) return false;
  const absl::string_view head(bytes_.data(), Coefficients::HeadBytes(*header_));
  StoreLittle<uint32_t>(bytes_.data(), HeadChecksum(key_, head.substr(sizeof(uint32_t))));
  bytes_.append(PackedRow::kReadBeyond, '\0');
  return true;
}

}  // namespace bulkhead::jpeg
