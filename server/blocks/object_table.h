#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/os/files/fd.h"
#include "server/os/memory/memory_map.h"

namespace bulkhead {

// The objects that are the images of a folder or a list, as a store told of them: a file KEY.table
// on this host. bulkhead-fetch writes it, and alone decides what is in it: whoever asks for an
// object afterwards names its number, and can so ask for no other.
//
//   header │ base │ entries: size, time, name, ETag │ a slot for each, by name: where it lies, its
//   place, a CRC-32C
//
// The name of an object is its URL without the base. An object's place is where its bytes lie in
// the data file of ObjectBlocks. An entry is copied and checked at each use, so one that is damaged
// or was cut off is an error, and never another object or, after CatchReadFaults, a SIGBUS. KEY is
// of the content: a table of the same objects has the same key.
//
// Immutable; thread-safe. Takes no memory but the page cache: 50 bytes an object, and its name and
// ETag.
class ObjectTable {
 public:
  // bulkhead-fetch holds 16 bytes for each while it lists them.
  static constexpr uint64_t kMostObjects = 5'000'000;
  // Places are multiples of this, so that the disk of each object can be given back alone.
  static constexpr uint64_t kPlaceBytes = 4096;

  struct Entry {
    std::string name;
    std::string etag;  // with its quotes; empty: the store has none
    uint64_t size_bytes = 0;
    int64_t mtime_ns = 0;  // 0: unknown
    uint64_t place = 0;
  };

  // `path`: without the ending. NOT_FOUND; DATA_LOSS if it is no table of this version.
  static absl::StatusOr<std::shared_ptr<const ObjectTable>> Open(const std::string& path);

  const std::string& base() const { return base_; }
  uint64_t count() const { return count_; }
  // The end of the last place.
  uint64_t data_bytes() const { return data_bytes_; }

  // DATA_LOSS if the entry is damaged, or there is none.
  absl::StatusOr<Entry> Get(uint64_t number) const;
  // The number of the object `name`. NOT_FOUND; DATA_LOSS.
  absl::StatusOr<uint64_t> Find(absl::string_view name) const;
  // ObjectBlocks::KeyOf of an entry's state.
  std::string KeyOf(const Entry& entry) const;
  std::string UrlOf(const Entry& entry) const;

 private:
  explicit ObjectTable(MemoryMap map) : map_(std::move(map)) {}

  MemoryMap map_;
  std::string base_;
  uint64_t count_ = 0;
  uint64_t slots_ = 0;  // where they begin
  uint64_t data_bytes_ = 0;
};

// Writes a table. Not thread-safe; blocks for the disk.
class ObjectTableWriter {
 public:
  // In `folder`, where nothing is named before Finish.
  static absl::StatusOr<ObjectTableWriter> Create(std::string folder, std::string base);

  // In any order. RESOURCE_EXHAUSTED: the disk is full, or there are too many objects.
  absl::Status Add(const ObjectTable::Entry& entry);
  uint64_t count() const { return starts_.size(); }

  // Sorts the objects by name, each once, gives each its place, and names the file. Returns its
  // key.
  absl::StatusOr<std::string> Finish();

 private:
  ObjectTableWriter(std::string folder, std::string base, UniqueFd fd)
      : folder_(std::move(folder)), base_(std::move(base)), fd_(std::move(fd)) {}
  absl::Status Append(absl::string_view bytes);
  absl::Status Flush();
  // Sorts `starts_`, each name once. False if the file cannot be read.
  bool Sort(const char* file);

  std::string folder_;
  std::string base_;
  UniqueFd fd_;
  std::string buffer_;
  uint64_t written_ = 0;
  std::deque<uint64_t> starts_;  // of the entries; a vector would take more while it grows
};

}  // namespace bulkhead
