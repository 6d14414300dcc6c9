#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/base/value_store.h"
#include "server/os/files/fd.h"
#include "server/os/memory/memory_map.h"

namespace bulkhead {

// One file of a cache, as its writer and any number of readers in other processes see it:
//
//   | header, 64 bytes | slots of 32 bytes, found by hash | values, contiguous |
//
// The file has a fixed size and is allocated when it is made, so that no later write fails for lack
// of disk. Values are only added, by one writer at a time. A value exists once its slot says so,
// and every Find copies it and compares its checksum. So a writer that dies while it writes, a
// power failure or a stray write costs a value. A failing disk, or a file that was cut, also costs
// a value, and this object stops using the segment. Little-endian.
//
// A checksum does not make a writer honest: a malicious one can add a wrong value with a right
// checksum. So segments have trust domains. Pipelines of built-in stages share one. A pipeline with
// user code reads theirs and writes its own, which no other pipeline reads.
//
// It is read by the descriptor: a fault for each few mapped pages costs more than the copy, and
// mapped pages would count as the process's memory. It is written by a mapping, since a worker's
// RLIMIT_FSIZE lets it write to no file.
//
// Find may run while another process, or another thread, adds. Only one thread at a time may Add.
class Segment {
 public:
  static constexpr uint64_t kLeastBytes = uint64_t{1} << 16;
  static constexpr uint64_t kMostBytes = uint64_t{16} << 30;
  static constexpr uint64_t kLargeBytes = uint64_t{1} << 30;

  // Makes the empty file `fd` a segment of `bytes`. Blocks for the disk. RESOURCE_EXHAUSTED if the
  // disk is full.
  static absl::Status Format(int fd, uint64_t bytes);

  // DATA_LOSS if `fd`, which stays the caller's, holds no segment of this version.
  static absl::StatusOr<Segment> OpenForReading(int fd);
  static absl::StatusOr<Segment> OpenForWriting(int fd);

  // Whether the file takes no more values, from its header alone. False if it is not a segment.
  static bool IsFull(int fd);

  // ValueStore::Has, which looks at the first one of `key`.
  bool Has(const StoreKey& key) const;

  // ValueStore::Expect; false if there is none.
  bool Expect(const StoreKey& key) const;

  // ValueStore::Warm, for the whole segment, and not too often.
  bool Warm(const StoreKey& key) const;

  // Copies the value of `key` to `value`; false if there is no undamaged one.
  bool Find(const StoreKey& key, std::string& value) const;

  // ValueStore::FindPart.
  std::optional<absl::string_view> FindPart(const StoreKey& key, size_t head_bytes,
                                            ChoosePart choose, std::string& buffer) const;

  // For a segment open for writing. False if there is no room; the file then notes that it is full,
  // which ends further attempts. Also false for a value larger than half the segment, because a few
  // of those would use up segment after segment. If such a value is the first one and the segment
  // is smaller than kLargeBytes, the segment counts as full, to make way for a larger one.
  bool Add(const StoreKey& key, absl::string_view value);
  // Whether it takes no more values, or is unusable.
  bool full() const;

  uint64_t values() const { return values_; }  // of the writer

 private:
  struct Header;
  struct Slot;

  Segment(UniqueFd fd, uint64_t bytes, uint64_t slot_mask)
      : fd_(std::move(fd)), bytes_(bytes), slot_mask_(slot_mask) {}
  static absl::StatusOr<Segment> Open(int fd, bool writable);
  static uint64_t PlaceOfSlot(uint64_t number);
  // Calls `use` with each slot from that of `hash` on, and its number, until it returns true. False
  // if it never did, or the file cannot be read.
  template <uint64_t kAtOnce, typename Use>
  bool ForEachSlot(uint64_t hash, const Use& use) const;
  // Calls `use` with the place in the file and the checksum of each value of `key`, until it
  // returns true.
  template <typename Use>
  bool ForEachValue(const StoreKey& key, const Use& use) const;
  // Of the key and a value; absent if it cannot be read. Takes a megabyte at most.
  std::optional<uint32_t> ChecksumOf(const StoreKey& key, const ValuePart& value) const;
  bool Read(uint64_t place, uint64_t bytes, void* to) const;
  bool Write(uint64_t place, absl::string_view bytes);
  // Sets where the writer continues: after the last valid value.
  void FindEnd();
  void NoteFull();
  // Whether the file has its size and was always readable.
  bool IsWhole() const;
  bool is_unusable() const;
  bool NoteUnusable() const;  // returns false

  UniqueFd fd_;
  MemoryMap map_;         // of the writer
  uint64_t touched_ = 0;  // bytes of it that may be mapped
  uint64_t bytes_ = 0;    // of the file
  uint64_t slot_mask_ = 0;
  uint64_t end_ = 0;               // of the values, from the start of the file
  uint64_t values_ = 0;            // slots in use
  mutable uint32_t unusable_ = 0;  // written by any thread
  mutable int64_t warmed_ns_ = std::numeric_limits<int64_t>::min() / 2;  // likewise
};

}  // namespace bulkhead
