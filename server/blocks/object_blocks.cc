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
#include "server/os/files/filesystem.h"

namespace bulkhead {
namespace {

// In the byte order of this host, whose processes alone share the files.
struct Header {
  char magic[8] = {'B', 'H', 'B', 'L', 'O', 'C', 'K', '1'};
  uint64_t block_bytes = ObjectBlocks::kBlockBytes;
  uint64_t size_bytes = 0;
  int64_t mtime_ns = 0;
  uint64_t unused[4] = {};
};
static_assert(sizeof(Header) == 64);

constexpr uint64_t kPresent = uint64_t{1} << 32;
// An object of S3 has at most 5 TiB.
constexpr uint64_t kMostBytes = uint64_t{16} << 40;

uint64_t WordOf(absl::string_view bytes) { return kPresent | Crc32c(bytes); }

uint64_t TableBytes(uint64_t size_bytes) {
  const uint64_t blocks = (size_bytes + ObjectBlocks::kBlockBytes - 1) / ObjectBlocks::kBlockBytes;
  return sizeof(Header) + blocks * sizeof(uint64_t);
}

bool ReadAll(int fd, uint64_t offset, char* to, size_t size) {
  while (size > 0) {
    const ssize_t got = pread(fd, to, size, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    offset += static_cast<uint64_t>(got);
    size -= static_cast<size_t>(got);
  }
  return true;
}

absl::Status WriteAll(int fd, uint64_t offset, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return SystemError(put == 0 ? ENOSPC : errno, "writing to the block cache");
    bytes.remove_prefix(static_cast<size_t>(put));
    offset += static_cast<uint64_t>(put);
  }
  return absl::OkStatus();
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

absl::StatusOr<ObjectBlocks> ObjectBlocks::Open(const std::string& path) {
  BULKHEAD_ASSIGN_OR_RETURN(UniqueFd data, OpenFile(path + ".data", /*writable=*/false));
  BULKHEAD_ASSIGN_OR_RETURN(UniqueFd blocks, OpenFile(path + ".blocks", /*writable=*/false));
  BULKHEAD_ASSIGN_OR_RETURN(ObjectBlocks opened,
                            Take(std::move(data), std::move(blocks), /*writable=*/false));
  opened.blocks_fd_.reset();  // the mapping stays; a thread may have many objects open
  return opened;
}

absl::StatusOr<ObjectBlocks> ObjectBlocks::OpenForWriting(const std::string& path,
                                                          const Object& object) {
  if (object.size_bytes > kMostBytes) {
    return absl::InvalidArgumentError("the object is larger than 16 TiB");
  }
  Header header;
  header.size_bytes = object.size_bytes;
  header.mtime_ns = object.mtime_ns;
  const absl::string_view prefix(reinterpret_cast<const char*>(&header), sizeof(header));
  // The table last: whoever finds it finds the data.
  BULKHEAD_RETURN_IF_ERROR(Make(path + ".data", object.size_bytes, ""));
  BULKHEAD_RETURN_IF_ERROR(Make(path + ".blocks", TableBytes(object.size_bytes), prefix));
  BULKHEAD_ASSIGN_OR_RETURN(UniqueFd data, OpenOwnFile(path + ".data", /*writable=*/true));
  BULKHEAD_ASSIGN_OR_RETURN(UniqueFd blocks, OpenOwnFile(path + ".blocks", /*writable=*/true));
  BULKHEAD_ASSIGN_OR_RETURN(ObjectBlocks opened,
                            Take(std::move(data), std::move(blocks), /*writable=*/true));
  const Object& found = opened.object();
  if (found.size_bytes != object.size_bytes || found.mtime_ns != object.mtime_ns) {
    return absl::DataLossError("the block table is of another state of the object");
  }
  return opened;
}

absl::StatusOr<ObjectBlocks> ObjectBlocks::Take(UniqueFd data, UniqueFd blocks, bool writable) {
  Header header;
  const Header expected;
  if (!ReadAll(blocks.get(), 0, reinterpret_cast<char*>(&header), sizeof(header)) ||
      std::memcmp(header.magic, expected.magic, sizeof(header.magic)) != 0 ||
      header.block_bytes != kBlockBytes || header.size_bytes > kMostBytes) {
    return absl::DataLossError("no block table of this version");
  }
  const uint64_t table_bytes = TableBytes(header.size_bytes);
  auto map = writable ? MemoryMap::Map(blocks.get(), table_bytes)
                      : MemoryMap::MapReadOnly(blocks.get(), table_bytes);
  if (!map.ok()) return absl::DataLossError(map.status().message());
  return ObjectBlocks(std::move(data), std::move(blocks), *std::move(map),
                      {header.size_bytes, header.mtime_ns});
}

uint64_t ObjectBlocks::BytesOf(uint64_t block) const {
  const uint64_t begin = block * kBlockBytes;
  return std::min(kBlockBytes, object_.size_bytes - std::min(begin, object_.size_bytes));
}

uint64_t ObjectBlocks::Word(uint64_t block) const {
  const auto* const words =
      reinterpret_cast<const std::atomic<uint64_t>*>(map_.data() + sizeof(Header));
  return words[block].load(std::memory_order_acquire);
}

void ObjectBlocks::SetWord(uint64_t block, uint64_t word) {
  auto* const words = reinterpret_cast<std::atomic<uint64_t>*>(map_.data() + sizeof(Header));
  words[block].store(word, std::memory_order_release);
}

bool ObjectBlocks::Read(uint64_t block, uint64_t offset, char* to, size_t size) const {
  const uint64_t word = Word(block);
  if (word == 0) return false;
  const uint64_t bytes = BytesOf(block);
  if (offset == 0 && size == bytes) {
    return ReadAll(data_fd_.get(), block * kBlockBytes, to, size) && WordOf({to, size}) == word;
  }
  std::array<char, kBlockBytes> whole;
  if (offset + size > bytes || !ReadAll(data_fd_.get(), block * kBlockBytes, whole.data(), bytes) ||
      WordOf({whole.data(), bytes}) != word) {
    return false;
  }
  std::memcpy(to, whole.data() + offset, size);
  return true;
}

absl::Status ObjectBlocks::Write(uint64_t block, absl::string_view bytes) {
  if (bytes.size() != BytesOf(block)) return absl::InternalError("a block of another size");
  BULKHEAD_RETURN_IF_ERROR(WriteAll(data_fd_.get(), block * kBlockBytes, bytes));
  SetWord(block, WordOf(bytes));
  return absl::OkStatus();
}

void ObjectBlocks::Drop(uint64_t begin, uint64_t end) {
  for (uint64_t block = begin; block < end; ++block) SetWord(block, 0);
  if (begin < end) PunchHole(data_fd_.get(), begin * kBlockBytes, (end - begin) * kBlockBytes);
}

}  // namespace bulkhead
