#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/blocks/object_table.h"
#include "server/os/files/fd.h"
#include "server/os/files/filesystem.h"
#include "server/os/memory/memory_map.h"

namespace bulkhead {

// The parts of one object of an object store that are on this host, in two files of a folder:
//
//   KEY.data    the object's bytes; sparse, so that missing blocks take no disk
//   KEY.blocks  a header, then a word for each block: 0, or "present" with the block's CRC-32C
//
// bulkhead-fetch writes them; workers read. A block's word is set after its bytes were written, and
// readers compare the checksum. So a block is right or absent, whoever was killed in between, and
// after a power failure too. Several processes may write the same object: they write the same
// bytes, since the key names one state of the object (KeyOf).
//
// The objects of a table (object_table.h) lie in one such pair of files, in which each of them is a
// block: a data set of many small objects then takes two files and two descriptors, not two for
// each of them.
//
// Reading is thread-safe and may run beside a writer. One thread of a process writes.
class ObjectBlocks {
 public:
  static constexpr uint64_t kBlockBytes = uint64_t{16} << 10;
  // An object of S3 has at most 5 TiB.
  static constexpr uint64_t kMostBytes = uint64_t{16} << 40;

  // The object's state, as the store told it.
  struct Object {
    uint64_t size_bytes = 0;
    int64_t mtime_ns = 0;
    // The objects that are the blocks; null: it is one object, in blocks of kBlockBytes.
    std::shared_ptr<const ObjectTable> table = nullptr;
  };
  // A block while it is written: how much of it, and the CRC-32C of that.
  struct Part {
    uint64_t bytes = 0;
    uint32_t crc = 0;
  };

  // The name of one state of the object at `url`: 32 hex digits.
  static std::string KeyOf(absl::string_view url, absl::string_view etag, const Object& object);

  // A number that stands for the key where files have inode numbers.
  static uint64_t NumberOf(absl::string_view key);

  // Opens both files for reading; `path`: without their endings. NOT_FOUND if they are not there,
  // DATA_LOSS if they are not files of this version, or of another table.
  static absl::StatusOr<ObjectBlocks> Open(const std::string& path,
                                           std::shared_ptr<const ObjectTable> table = nullptr);
  // Opens them for reading and writing, and makes them if need be. Blocks for the disk.
  // RESOURCE_EXHAUSTED if it is full; DATA_LOSS as Open's, or if they are of another `object`.
  static absl::StatusOr<ObjectBlocks> OpenForWriting(const std::string& path, const Object& object);

  const Object& object() const { return object_; }
  uint64_t block_count() const { return block_count_; }
  // 0 also if the table's entry is damaged.
  uint64_t BytesOf(uint64_t block) const;
  // What these take on disk.
  uint64_t DiskBytesOf(uint64_t block) const;
  // Disk that the table takes.
  uint64_t table_bytes() const { return (map_.size() + 4095) / 4096 * 4096; }

  bool Has(uint64_t block) const { return Word(block) != 0; }
  // Reads bytes [offset, offset + size) of one block. False if it is absent or damaged, or the disk
  // fails.
  bool Read(uint64_t block, uint64_t offset, char* to, size_t size) const;
  // Whether the whole block is there and undamaged.
  bool IsRight(uint64_t block) const;
  // Lets the kernel fetch the block into its cache, without waiting for it. Best effort.
  void Prefetch(uint64_t block) const;

  // Writes the bytes that follow `part`, and adds them to it; the last ones make the block present.
  // RESOURCE_EXHAUSTED if the disk is full.
  absl::Status WritePart(uint64_t block, Part& part, absl::string_view bytes);
  // Makes blocks [begin, end) absent and gives their disk back.
  void Drop(uint64_t begin, uint64_t end);

  // Marks the object as in use, until this closes (ObjectFolder).
  bool Share() const { return ShareFile(blocks_fd_.get()); }
  // Whether `path` still leads to these files.
  bool IsAt(const std::string& path) const {
    return IsFileAt(blocks_fd_.get(), path + ".blocks") && IsFileAt(data_fd_.get(), path + ".data");
  }
  // Notes the time of this use.
  void NoteUse() const { bulkhead::NoteUse(blocks_fd_.get()); }

 private:
  // Where a block lies in the data.
  struct Extent {
    uint64_t begin = 0;
    uint64_t bytes = 0;
  };

  ObjectBlocks(UniqueFd data, UniqueFd blocks, MemoryMap map, Object object, uint64_t block_count)
      : data_fd_(std::move(data)),
        blocks_fd_(std::move(blocks)),
        map_(std::move(map)),
        object_(std::move(object)),
        block_count_(block_count) {}

  static absl::StatusOr<ObjectBlocks> Take(UniqueFd data, UniqueFd blocks,
                                           std::shared_ptr<const ObjectTable> table, bool writable);
  // Absent: there is no such block, or the table's entry is damaged.
  std::optional<Extent> Find(uint64_t block) const;
  uint64_t Word(uint64_t block) const;
  bool SetWord(uint64_t block, uint64_t word);  // false if the file was cut

  UniqueFd data_fd_;
  UniqueFd blocks_fd_;
  MemoryMap map_;
  Object object_;
  uint64_t block_count_ = 0;
};

}  // namespace bulkhead
