#include "server/source/images/image_rows.h"

#include <cstring>
#include <utility>

#include "server/base/error.h"
#include "server/base/little_endian.h"

namespace bulkhead {
namespace {

// A row: u64 line, labels, then for every image u64 size, i64 time of modification, u64 inode, u32
// length of the path, the path; at its end a u32 checksum.
constexpr size_t kImageBytes = 28;
constexpr size_t kChecksumBytes = 4;
// u32 bytes of labels, u32 images of a row.
constexpr size_t kFooterBytes = 8;

// Also tells one row from another: a damaged offset may point to a row that is whole. Masked,
// because a CRC over bytes and their own CRC is the same whatever the bytes: the table's checksum,
// by which two indexes are told apart, would see no row.
uint32_t RowChecksum(uint64_t i, absl::string_view row) {
  return MaskCrc32c(Crc32c(row, static_cast<uint32_t>(i)));
}

}  // namespace

absl::Status ImageRowsWriter::AddNames(const ClassNames& names) {
  if (names.empty() || !IsTellable(names)) return absl::OkStatus();
  const std::string bytes = SerializeClassNames(names);
  names_bytes_ = bytes.size();
  return out_.Append(bytes);
}

absl::Status ImageRowsWriter::Add(const ImageRow& row) {
  AppendLittle<uint64_t>(offsets_, out_.payload_bytes());
  std::string bytes;
  AppendLittle<uint64_t>(bytes, row.line);
  bytes.append(row.labels.data(), row.labels.size());
  for (const ImageRow::Image& image : row.images) {
    AppendLittle<uint64_t>(bytes, image.file.size_bytes);
    sizes_.Update(absl::string_view(bytes).substr(bytes.size() - 8));
    AppendLittle<int64_t>(bytes, image.file.mtime_ns);
    AppendLittle<uint64_t>(bytes, image.file.inode);
    AppendLittle<uint32_t>(bytes, static_cast<uint32_t>(image.path.size()));
    bytes.append(image.path.data(), image.path.size());
  }
  AppendLittle<uint32_t>(bytes, RowChecksum(count_, bytes));
  label_bytes_ = static_cast<uint32_t>(row.labels.size());
  image_count_ = static_cast<uint32_t>(row.images.size());
  ++count_;
  return out_.Append(bytes);
}

absl::Status ImageRowsWriter::Finish(uint32_t kind, absl::string_view text_digest,
                                     uint64_t file_size_bytes, int64_t file_mtime_ns) {
  AppendLittle<uint64_t>(offsets_, out_.payload_bytes());
  AppendLittle<uint32_t>(offsets_, label_bytes_);
  AppendLittle<uint32_t>(offsets_, image_count_);
  BULKHEAD_RETURN_IF_ERROR(out_.Append(offsets_));
  Sha256 identity;
  identity.Update(text_digest);
  identity.Update(sizes_.Finish());
  const std::string digest = identity.Finish();
  IndexHeader header;
  header.kind = kind;
  header.record_count = count_;
  header.file_size_bytes = file_size_bytes;
  header.file_mtime_ns = file_mtime_ns;
  header.names_bytes = names_bytes_;
  std::memcpy(header.checksum.data(), digest.data(), header.checksum.size());
  return out_.Finish(header);
}

absl::StatusOr<ImageRows> ImageRows::Open(const internal::v1::ResolvedFile& file, uint32_t kind,
                                          uint32_t image_count, uint32_t label_bytes) {
  const std::string& name = file.name().empty() ? file.path() : file.name();
  BULKHEAD_ASSIGN_OR_RETURN(MappedIndex mapped, MappedIndex::Open(file.index_path(), name, kind,
                                                                  MappedIndex::Checks::kOnUse));
  ImageRows rows(std::move(mapped));
  rows.name_ = name;
  rows.image_count_ = image_count;
  rows.label_bytes_ = label_bytes;
  const absl::string_view payload = rows.index_.payload();
  const uint64_t count = rows.record_count();
  if (payload.size() < kFooterBytes || count >= payload.size() / 8 ||
      payload.size() - kFooterBytes < (count + 1) * 8) {
    return IndexDamaged(name, "has the wrong size");
  }
  BULKHEAD_RETURN_IF_ERROR(rows.index_.Verify(payload.size() - kFooterBytes, kFooterBytes));
  const char* footer = payload.data() + payload.size() - kFooterBytes;
  if (LoadLittle<uint32_t>(footer) != label_bytes ||
      LoadLittle<uint32_t>(footer + 4) != image_count) {
    return IndexDamaged(name, "was made for other columns");
  }
  rows.rows_bytes_ = payload.size() - kFooterBytes - (count + 1) * 8;
  rows.offsets_ = payload.data() + rows.rows_bytes_;
  return rows;
}

absl::StatusOr<absl::string_view> ImageRows::RowOf(uint64_t i) const {
  BULKHEAD_RETURN_IF_ERROR(index_.Verify(rows_bytes_ + 8 * i, 16));
  const uint64_t begin = LoadLittle<uint64_t>(offsets_ + 8 * i);
  const uint64_t end = LoadLittle<uint64_t>(offsets_ + 8 * (i + 1));
  if (begin > end || end > rows_bytes_ || end - begin < 8 + label_bytes_ + kChecksumBytes) {
    return Damaged();
  }
  BULKHEAD_RETURN_IF_ERROR(index_.Verify(begin, end - begin));
  const absl::string_view row = index_.payload().substr(begin, end - begin - kChecksumBytes);
  if (LoadLittle<uint32_t>(row.data() + row.size()) != RowChecksum(i, row)) return Damaged();
  return row;
}

absl::Status ImageRows::Damaged() const { return IndexDamaged(name_, "has an impossible row"); }

bool ImageRows::TakeImage(absl::string_view& bytes, ImageRow::Image& image) {
  if (bytes.size() < kImageBytes) return false;
  image.file = {LoadLittle<uint64_t>(bytes.data()), LoadLittle<int64_t>(bytes.data() + 8),
                LoadLittle<uint64_t>(bytes.data() + 16)};
  const uint32_t length = LoadLittle<uint32_t>(bytes.data() + 24);
  bytes.remove_prefix(kImageBytes);
  if (bytes.size() < length) return false;
  image.path = bytes.substr(0, length);
  bytes.remove_prefix(length);
  return true;
}

absl::Status ImageRows::Get(uint64_t i, ImageRow& row) const {
  BULKHEAD_ASSIGN_OR_RETURN(absl::string_view bytes, RowOf(i));
  row.line = LoadLittle<uint64_t>(bytes.data());
  row.labels = bytes.substr(8, label_bytes_);
  bytes.remove_prefix(8 + label_bytes_);
  row.images.resize(image_count_);
  for (ImageRow::Image& image : row.images) {
    if (!TakeImage(bytes, image)) return Damaged();
  }
  return absl::OkStatus();
}

absl::StatusOr<ImageRow::Image> ImageRows::FirstImage(uint64_t i, uint64_t& line) const {
  BULKHEAD_ASSIGN_OR_RETURN(absl::string_view bytes, RowOf(i));
  line = LoadLittle<uint64_t>(bytes.data());
  bytes.remove_prefix(8 + label_bytes_);
  ImageRow::Image image;
  if (!TakeImage(bytes, image)) return Damaged();
  return image;
}

}  // namespace bulkhead
