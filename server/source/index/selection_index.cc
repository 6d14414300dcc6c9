#include "server/source/index/selection_index.h"

#include <bit>
#include <string>
#include <utility>

#include "server/base/checksum.h"
#include "server/base/error.h"
#include "server/base/little_endian.h"

namespace bulkhead {
namespace {

constexpr uint64_t kSelectionBlockBytes = 64;
constexpr uint64_t kBitWords = 6;
constexpr uint64_t kBlockRecords = kBitWords * 64;
constexpr uint64_t kChecksumAt = (1 + kBitWords) * 8;

// Also tells one block from another. Masked, so that the index's checksum sees the block.
uint64_t BlockChecksum(uint64_t block, absl::string_view bytes) {
  return MaskCrc32c(Crc32c(bytes.substr(0, kChecksumAt), static_cast<uint32_t>(block)));
}

}  // namespace

absl::Status SelectionWriter::Add(bool keep) {
  const uint64_t bit = indexed_ % kBlockRecords;
  if (keep) {
    words_[1 + bit / 64] |= uint64_t{1} << (bit % 64);
    ++kept_;
  }
  ++indexed_;
  return bit + 1 == kBlockRecords ? Flush() : absl::OkStatus();
}

absl::Status SelectionWriter::Flush() {
  std::string block;
  for (uint64_t& word : words_) {
    AppendLittle<uint64_t>(block, word);
    word = 0;
  }
  AppendLittle<uint64_t>(block, BlockChecksum((indexed_ - 1) / kBlockRecords, block));
  words_[0] = kept_;
  return out_.Append(block);
}

absl::Status SelectionWriter::Finish(IndexHeader header) {
  if (indexed_ % kBlockRecords != 0) BULKHEAD_RETURN_IF_ERROR(Flush());
  header.kind += IndexHeader::kSelection;
  header.record_count = kept_;
  header.indexed_count = indexed_;
  return out_.Finish(header);
}

absl::StatusOr<SelectionIndex> SelectionIndex::Open(const internal::v1::ResolvedFile& file,
                                                    uint32_t kind) {
  BULKHEAD_ASSIGN_OR_RETURN(
      MappedIndex mapped,
      MappedIndex::Open(file.selection_path(), file.name(), kind + IndexHeader::kSelection,
                        MappedIndex::Checks::kOnUse));
  SelectionIndex index(std::move(mapped), file.name());
  index.blocks_ =
      index.indexed_count() / kBlockRecords + (index.indexed_count() % kBlockRecords == 0 ? 0 : 1);
  const absl::string_view payload = index.index_.payload();
  if (payload.size() % kSelectionBlockBytes != 0 ||
      payload.size() / kSelectionBlockBytes != index.blocks_) {
    return IndexDamaged(file.name(), "has a selection of the wrong size");
  }
  uint64_t kept = 0;
  if (index.blocks_ > 0) {
    BULKHEAD_ASSIGN_OR_RETURN(const Block last, index.Read(index.blocks_ - 1));
    kept = last[0];
    for (uint64_t word = 1; word <= kBitWords; ++word) {
      kept += static_cast<uint64_t>(std::popcount(last[word]));
    }
  }
  if (kept != index.kept_count()) {
    return IndexDamaged(file.name(), "has a selection that miscounts its records");
  }
  return index;
}

absl::StatusOr<SelectionIndex::Block> SelectionIndex::Read(uint64_t block) const {
  BULKHEAD_RETURN_IF_ERROR(index_.Verify(block * kSelectionBlockBytes, kSelectionBlockBytes));
  const absl::string_view bytes =
      index_.payload().substr(block * kSelectionBlockBytes, kSelectionBlockBytes);
  // Again at each use: the file may have been overwritten since.
  if (LoadLittle<uint64_t>(bytes.data() + kChecksumAt) != BlockChecksum(block, bytes)) {
    return IndexDamaged(name_, "has a selection that does not match its checksum");
  }
  Block words;
  for (uint64_t word = 0; word < words.size(); ++word) {
    words[word] = LoadLittle<uint64_t>(bytes.data() + word * 8);
  }
  return words;
}

absl::StatusOr<uint64_t> SelectionIndex::Select(uint64_t k) const {
  // The last block with at most k records before it; the first has none.
  uint64_t block = 0;
  for (uint64_t end = blocks_; end - block > 1;) {
    const uint64_t middle = block + (end - block) / 2;
    BULKHEAD_ASSIGN_OR_RETURN(const Block words, Read(middle));
    (words[0] <= k ? block : end) = middle;
  }
  BULKHEAD_ASSIGN_OR_RETURN(const Block words, Read(block));
  k -= words[0];
  uint64_t record = block * kBlockRecords;
  for (uint64_t word = 1; word <= kBitWords; ++word, record += 64) {
    uint64_t bits = words[word];
    const uint64_t count = static_cast<uint64_t>(std::popcount(bits));
    if (k >= count) {
      k -= count;
      continue;
    }
    for (; k > 0; --k) bits &= bits - 1;
    return record + static_cast<uint64_t>(std::countr_zero(bits));
  }
  return indexed_count();  // not reached: the checksum vouches for the counts
}

}  // namespace bulkhead
