#include "server/blocks/object_blocks.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/base/checksum.h"
#include "server/base/error.h"
#include "server/base/read_fault.h"
#include "server/os/files/read_ahead.h"

namespace bulkhead {
namespace {

// In the byte order of this host, whose processes alone share the files.
struct Header {
  char magic[8] = {'B', 'H', 'B', 'L', 'O', 'C', 'K', '2'};
  uint64_t block_bytes = ObjectBlocks::kBlockBytes;  // 0: a block is an object of a table
  uint64_t size_bytes = 0;
  int64_t mtime_ns = 0;
  uint64_t block_count = 0;
  uint64_t unused[3] = {};
};
static_assert(sizeof(Header) == 64);

constexpr uint64_t kPresent = uint64_t{1} << 32;
constexpr size_t kCheckBytes = 64 << 10;

Header HeaderOf(const ObjectBlocks::Object& object) {
  Header header;
  header.size_bytes = object.size_bytes;
  header.mtime_ns = object.mtime_ns;
  header.block_count =
      (object.size_bytes + ObjectBlocks::kBlockBytes - 1) / ObjectBlocks::kBlockBytes;
  if (object.table != nullptr) {
    header.block_bytes = 0;
    header.size_bytes = object.table->data_bytes();
    header.block_count = object.table->count();
  }
  return header;
}

uint64_t TableBytes(const Header& header) {
  return sizeof(Header) + header.block_count * sizeof(uint64_t);
}

// Makes a file of `bytes` zeros that begins with `prefix`, unless there is one. Without a prefix it
// takes no disk; with one it has all of it, since writing to its mapping must not fail later.
absl::Status Make(const std::string& path, uint64_t bytes, absl::string_view prefix) {
  const std::string folder = path.substr(0, path.rfind('/'));
  BULKHEAD_ASSIGN_OR_RETURN(const UniqueFd made, CreateUnnamedFile(folder));
  if (!prefix.empty()) {
    BULKHEAD_RETURN_IF_ERROR(AllocateFile(made.get(), bytes));
  } else if (ftruncate(made.get(), static_cast<off_t>(bytes)) != 0) {
    return SystemError(errno, absl::StrCat("making ", path));
  }
  BULKHEAD_RETURN_IF_ERROR(WriteExactly(made.get(), 0, prefix));
  const absl::Status named = NameFile(made.get(), path);
  return absl::IsAlreadyExists(named) ? absl::OkStatus() : named;
}

}  // namespace

std::string ObjectBlocks::KeyOf(absl::string_view url, absl::string_view etag,
                                const Object& object) {
  Sha256 hash;
  hash.Update(absl::StrCat("bulkhead object 1\n", url, "\n", etag, "\n", object.size_bytes, "\n",
                           object.mtime_ns, "\n"));
  return hash.FinishHex().substr(0, 32);
}

uint64_t ObjectBlocks::NumberOf(absl::string_view key) {
  uint64_t number = 0;
  (void)absl::SimpleHexAtoi(key.substr(0, 16), &number);
  return number;
}

absl::StatusOr<ObjectBlocks> ObjectBlocks::Open(const std::string& path,
                                                std::shared_ptr<const ObjectTable> table) {
  BULKHEAD_ASSIGN_OR_RETURN(UniqueFd data, OpenFile(path + ".data", /*writable=*/false));
  BULKHEAD_ASSIGN_OR_RETURN(UniqueFd blocks, OpenFile(path + ".blocks", /*writable=*/false));
  BULKHEAD_ASSIGN_OR_RETURN(ObjectBlocks opened, Take(std::move(data), std::move(blocks),
                                                      std::move(table), /*writable=*/false));
  opened.blocks_fd_.reset();  // the mapping stays; a thread may have many objects open
  return opened;
}

absl::StatusOr<ObjectBlocks> ObjectBlocks::OpenForWriting(const std::string& path,
                                                          const Object& object) {
  const Header header = HeaderOf(object);
  if (header.size_bytes > kMostBytes) {
    return absl::InvalidArgumentError("the object is larger than 16 TiB");
  }
  const absl::string_view prefix(reinterpret_cast<const char*>(&header), sizeof(header));
  // The table last: whoever finds it finds the data.
  BULKHEAD_RETURN_IF_ERROR(Make(path + ".data", header.size_bytes, ""));
  BULKHEAD_RETURN_IF_ERROR(Make(path + ".blocks", TableBytes(header), prefix));
  BULKHEAD_ASSIGN_OR_RETURN(UniqueFd data, OpenOwnFile(path + ".data", /*writable=*/true));
  BULKHEAD_ASSIGN_OR_RETURN(UniqueFd blocks, OpenOwnFile(path + ".blocks", /*writable=*/true));
  BULKHEAD_ASSIGN_OR_RETURN(ObjectBlocks opened, Take(std::move(data), std::move(blocks),
                                                      object.table, /*writable=*/true));
  const Object& found = opened.object();
  if (found.size_bytes != header.size_bytes || found.mtime_ns != header.mtime_ns) {
    return absl::DataLossError("the block table is of another state of the object");
  }
  return opened;
}

absl::StatusOr<ObjectBlocks> ObjectBlocks::Take(UniqueFd data, UniqueFd blocks,
                                                std::shared_ptr<const ObjectTable> table,
                                                bool writable) {
  Header header;
  const Header expected;
  if (!ReadExactly(blocks.get(), 0, reinterpret_cast<char*>(&header), sizeof(header)) ||
      std::memcmp(header.magic, expected.magic, sizeof(header.magic)) != 0 ||
      header.size_bytes > kMostBytes) {
    return absl::DataLossError("no block table of this version");
  }
  const Object object{header.size_bytes, header.mtime_ns, std::move(table)};
  const Header wanted = HeaderOf(object);
  if (header.block_bytes != wanted.block_bytes || header.size_bytes != wanted.size_bytes ||
      header.block_count != wanted.block_count) {
    return absl::DataLossError("no block table of this version");
  }
  const uint64_t table_bytes = TableBytes(header);
  auto map = writable ? MemoryMap::Map(blocks.get(), table_bytes)
                      : MemoryMap::Map(blocks.get(), table_bytes, MemoryMap::Access::kRead);
  if (!map.ok()) return absl::DataLossError(map.status().message());
  return ObjectBlocks(std::move(data), std::move(blocks), *std::move(map), object,
                      header.block_count);
}

std::optional<ObjectBlocks::Extent> ObjectBlocks::Find(uint64_t block) const {
  if (block >= block_count_) return std::nullopt;
  if (object_.table == nullptr) {
    const uint64_t begin = block * kBlockBytes;
    return Extent{begin, std::min(kBlockBytes, object_.size_bytes - begin)};
  }
  const auto entry = object_.table->Get(block);
  const bool lies_inside = entry.ok() && entry->place <= object_.size_bytes &&
                           entry->size_bytes <= object_.size_bytes - entry->place;
  if (!lies_inside) return std::nullopt;
  return Extent{entry->place, entry->size_bytes};
}

uint64_t ObjectBlocks::BytesOf(uint64_t block) const {
  return Find(block).value_or(Extent()).bytes;
}

uint64_t ObjectBlocks::DiskBytesOf(uint64_t block) const {
  const uint64_t bytes = BytesOf(block);
  if (object_.table == nullptr) return bytes;
  return (bytes + ObjectTable::kPlaceBytes - 1) / ObjectTable::kPlaceBytes *
         ObjectTable::kPlaceBytes;
}

uint64_t ObjectBlocks::Word(uint64_t block) const {
  const auto* const words =
      reinterpret_cast<const std::atomic<uint64_t>*>(map_.data() + sizeof(Header));
  uint64_t word = 0;
  const bool is_read = ReadGuarded([&] { word = words[block].load(std::memory_order_acquire); });
  return is_read ? word : 0;
}

bool ObjectBlocks::SetWord(uint64_t block, uint64_t word) {
  auto* const words = reinterpret_cast<std::atomic<uint64_t>*>(map_.data() + sizeof(Header));
  return ReadGuarded([&] { words[block].store(word, std::memory_order_release); });
}

bool ObjectBlocks::Read(uint64_t block, uint64_t offset, char* to, size_t size) const {
  const std::optional<Extent> extent = Find(block);
  const uint64_t word = extent.has_value() ? Word(block) : 0;
  if (word == 0) return false;
  const size_t bytes = extent->bytes;
  if (offset == 0 && size == bytes) {
    return ReadExactly(data_fd_.get(), extent->begin, to, size) &&
           (kPresent | Crc32c({to, size})) == word;
  }
  if (offset > bytes || size > bytes - offset) return false;
  std::array<char, kBlockBytes> small;
  std::string large(bytes > small.size() ? bytes : 0, '\0');
  char* const whole = large.empty() ? small.data() : large.data();
  if (!ReadExactly(data_fd_.get(), extent->begin, whole, bytes) ||
      (kPresent | Crc32c({whole, bytes})) != word) {
    return false;
  }
  std::memcpy(to, whole + offset, size);
  return true;
}

bool ObjectBlocks::IsRight(uint64_t block) const {
  const std::optional<Extent> extent = Find(block);
  if (!extent.has_value() || Word(block) == 0) return false;
  std::array<char, kCheckBytes> part;
  uint32_t crc = 0;
  for (uint64_t done = 0; done < extent->bytes;) {
    const size_t size = std::min<uint64_t>(part.size(), extent->bytes - done);
    if (!ReadExactly(data_fd_.get(), extent->begin + done, part.data(), size)) return false;
    crc = Crc32c({part.data(), size}, crc);
    done += size;
  }
  return (kPresent | crc) == Word(block);
}

absl::Status ObjectBlocks::WritePart(uint64_t block, Part& part, absl::string_view bytes) {
  const std::optional<Extent> extent = Find(block);
  if (!extent.has_value() || bytes.size() > extent->bytes - std::min(part.bytes, extent->bytes)) {
    return absl::InternalError("a block of another size");
  }
  BULKHEAD_RETURN_IF_ERROR(WriteExactly(data_fd_.get(), extent->begin + part.bytes, bytes));
  part.crc = Crc32c(bytes, part.crc);
  part.bytes += bytes.size();
  if (part.bytes == extent->bytes && !SetWord(block, kPresent | part.crc)) {
    return absl::DataLossError("the block table was cut");
  }
  return absl::OkStatus();
}

void ObjectBlocks::Prefetch(uint64_t block) const {
  const Extent extent = Find(block).value_or(Extent());
  ReadAhead(data_fd_.get(), extent.begin, extent.bytes);
}

void ObjectBlocks::Drop(uint64_t begin, uint64_t end) {
  if (begin >= end) return;
  for (uint64_t block = begin; block < end; ++block) SetWord(block, 0);
  const std::optional<Extent> first = Find(begin);
  const std::optional<Extent> last = Find(end - 1);
  // With a damaged entry it is not known where; other objects lie there too.
  if (!first.has_value() || !last.has_value()) return;
  const uint64_t behind = last->begin + DiskBytesOf(end - 1);
  if (behind > first->begin) PunchHole(data_fd_.get(), first->begin, behind - first->begin);
}

}  // namespace bulkhead
