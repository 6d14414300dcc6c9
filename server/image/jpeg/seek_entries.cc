#include "server/image/jpeg/seek_entries.h"

#include <cmath>
#include <limits>

#include "server/base/little_endian.h"

namespace bulkhead::jpeg {
namespace {

constexpr int kMostStep = 4096;

size_t EntryBytes(int components) { return sizeof(uint32_t) + components * sizeof(int16_t); }

int EntriesInRow(int across, int step) { return (across + step - 1) / step; }

}  // namespace

absl::string_view SeekEntries::None() {
  static constexpr char kNone[kHeaderBytes] = {};
  return {kNone, kHeaderBytes};
}

bool SeekEntries::Parse(absl::string_view bytes, const Header& header) {
  if (bytes.size() < kHeaderBytes) return false;
  step_ = LoadLittle<uint16_t>(bytes.data());
  components_ = LoadLittle<uint16_t>(bytes.data() + 2);
  if (step_ == 0 || components_ != header.component_count) return false;
  across_ = header.mcus_across();
  down_ = header.mcus_down();
  in_row_ = EntriesInRow(across_, step_);
  const uint64_t count = static_cast<uint64_t>(in_row_) * down_;
  if (bytes.size() != kHeaderBytes + count * EntryBytes(components_)) return false;
  bytes_ = bytes;
  scan_begin_bits_ = uint64_t{8} * header.scan_begin;
  return true;
}

EntryPoint SeekEntries::Before(int row, int column) const {
  const int place = column / step_;
  const size_t number = static_cast<size_t>(row) * in_row_ + place;
  const char* at = bytes_.data() + kHeaderBytes + number * EntryBytes(components_);
  EntryPoint point;
  point.mcu = static_cast<uint32_t>(row) * across_ + place * step_;
  point.bit_offset = scan_begin_bits_ + LoadLittle<uint32_t>(at);
  for (int c = 0; c < components_; ++c) {
    point.dc[c] =
        static_cast<int16_t>(LoadLittle<uint16_t>(at + sizeof(uint32_t) + c * sizeof(uint16_t)));
  }
  return point;
}

size_t SeekEntries::BytesUpTo(int row, int column, const EntryPoint& point) const {
  const int next = (column / step_ + 1) * step_;
  if (next >= across_ && row + 1 == down_) return std::numeric_limits<size_t>::max() / 2;
  const EntryPoint behind = next < across_ ? Before(row, next) : Before(row + 1, 0);
  return behind.bit_offset > point.bit_offset ? (behind.bit_offset - point.bit_offset) / 8 + 1 : 0;
}

void SeekEntryMaker::Begin(const Header& header, size_t file_bytes) {
  across_ = header.mcus_across();
  components_ = header.component_count;
  scan_begin_bits_ = uint64_t{8} * header.scan_begin;
  const double wanted =
      SeekEntries::kMostShare * static_cast<double>(file_bytes) / EntryBytes(components_);
  const double in_row = std::max(1.0, wanted / header.mcus_down());
  step_ = std::clamp(static_cast<int>(std::ceil(across_ / in_row)), 1, kMostStep);
  left_ = static_cast<int64_t>(EntriesInRow(across_, step_)) * header.mcus_down();
  bytes_.clear();
  bytes_.reserve(SeekEntries::kHeaderBytes + left_ * EntryBytes(components_));
  AppendLittle<uint16_t>(bytes_, static_cast<uint16_t>(step_));
  AppendLittle<uint16_t>(bytes_, static_cast<uint16_t>(components_));
}

void SeekEntryMaker::Add(const EntryPoint& point) {
  const uint64_t bits = point.bit_offset - scan_begin_bits_;
  if (left_ <= 0 || bits > std::numeric_limits<uint32_t>::max()) {
    left_ = -1;
    return;
  }
  AppendLittle<uint32_t>(bytes_, static_cast<uint32_t>(bits));
  for (int c = 0; c < components_; ++c) {
    AppendLittle<uint16_t>(bytes_, static_cast<uint16_t>(point.dc[c]));
  }
  --left_;
}

}  // namespace bulkhead::jpeg
