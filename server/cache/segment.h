#ifndef BULKHEAD_SERVER_CACHE_SEGMENT_H_
#define BULKHEAD_SERVER_CACHE_SEGMENT_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/base/value_store.h"
#include "server/os/memory/memory_map.h"

namespace bulkhead {

// One file of a cache, as its writer and any number of readers in other processes see it:
//
//   | header, 64 bytes | slots of 32 bytes, found by hash | values, one behind the other |
//
// Its size is fixed and its blocks are allocated when it is made, so that no later write can fail
// for want of disk. Values are only ever added, by one writer at a time. A value counts from the
// moment its slot says so, and every Find compares its checksum, with a copy of it: a writer that
// died in the middle, a machine that lost power, and a stray write cost a value. So does a disk
// that fails, or a file that was cut: such a segment is not touched again by this object.
// Little-endian.
//
// A checksum does not make a writer honest: one that means harm can add a wrong value with a right
// checksum. So segments have trust domains. Pipelines of built-in stages share one; a pipeline with
// user code reads theirs and writes its own, which no other pipeline reads.
//
// What was found or added is not left in the process's memory: the page cache has it, as long as
// there is room.
//
// Find may be called while another process, or another thread, adds. Add is for one thread at a
// time.
class Segment {
 public:
  static constexpr uint64_t kLeastBytes = uint64_t{1} << 16;
  static constexpr uint64_t kMostBytes = uint64_t{16} << 30;
  static constexpr uint64_t kLargeBytes = uint64_t{1} << 30;

  // Makes the empty file `fd` a segment of `bytes`. Blocks for the disk. RESOURCE_EXHAUSTED when it
  // is full.
  static absl::Status Format(int fd, uint64_t bytes);

  // DATA_LOSS when `fd` holds no segment of this version.
  static absl::StatusOr<Segment> OpenForReading(int fd);
  static absl::StatusOr<Segment> OpenForWriting(int fd);

  // Whether the file takes no more values, from its header alone. False if it is not a segment.
  static bool IsFull(int fd);

  // Copies the value of `key` to `value`; false if there is no undamaged one.
  bool Find(const StoreKey& key, std::string& value) const;

  // Of a segment that is open for writing: false when there is no room, which is then noted in the
  // file, so that there are no further attempts; and for a value of more than half the segment,
  // which is not kept: a few of those would use up segment after segment. But one that no other
  // value is in, up to kLargeBytes, is full then, to make way for a larger one.
  bool Add(const StoreKey& key, absl::string_view value);
  // Whether it takes no more, or cannot be used any more.
  bool full() const;

  uint64_t values() const { return values_; }  // of the writer's

 private:
  struct Header;
  struct Slot;

  explicit Segment(MemoryMap map) : map_(std::move(map)) {}
  static absl::StatusOr<Segment> Open(int fd, bool writable);
  Header& header() const;
  Slot& slot(uint64_t number) const;
  // Find, Add and full, which touch the mapped file and end in the middle where that faults.
  bool FindMapped(const StoreKey& key, std::string& value) const;
  bool AddMapped(const StoreKey& key, absl::string_view value);
  // Where the writer continues: after the last valid value.
  void FindEnd();
  void NoteFull();
  bool is_unusable() const;
  bool NoteUnusable() const;  // false
  // Notes that a value was touched; now and then takes what was touched out of the process.
  void Touched(uint64_t bytes) const;

  MemoryMap map_;
  uint64_t slot_mask_ = 0;
  uint64_t end_ = 0;     // of the values, from the beginning of the file
  uint64_t values_ = 0;  // slots that are taken
  // Bytes of the file that may be mapped by now; written by whichever thread.
  mutable uint64_t touched_ = 0;
  mutable uint32_t unusable_ = 0;  // written by whichever thread
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_CACHE_SEGMENT_H_
