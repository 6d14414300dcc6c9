#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "server/blocks/object_blocks.h"

namespace bulkhead {

// The block cache: a folder of ObjectBlocks that several services share. Blocks stay as long as
// their object does; an object that no service uses is removed when the room is needed, the least
// recently used one first. So a data set larger than the cache keeps the part that came first,
// which each epoch reads again, where replacing the oldest block would keep none of it.
//
// A disk that fills up, whoever fills it, makes the cache smaller: what is about to be read needs
// room as well.
//
// Used by one thread; blocks for the disk.
class ObjectFolder {
 public:
  // `most_bytes`: limit of all objects' blocks on disk, those of other services included.
  // `kept_free`: bytes of the disk that blocks leave free.
  ObjectFolder(std::string path, uint64_t most_bytes, uint64_t kept_free);
  // For the disk of `path`: as much as a stream reads ahead, but at most a tenth of a small disk.
  static uint64_t KeptFree(const std::string& path);

  const std::string& path() const { return path_; }
  uint64_t used_bytes() const { return used_bytes_; }

  // Opens the object for writing and marks it as in use. The result lives until Close; if the
  // object's files were removed meanwhile, it is of new ones from then on.
  absl::StatusOr<ObjectBlocks*> Open(const std::string& key, const ObjectBlocks::Object& object);
  // The object is in use no longer. An unknown one is ignored.
  void Close(const std::string& key);

  // Removes the files of an object, or of a table of objects, unless a service uses them.
  bool Remove(const std::string& key);

  // Reserves `bytes` if they fit, after unused objects were removed if need be.
  bool Reserve(uint64_t bytes);
  // Gives back so many reserved bytes, of which `written` bytes are on the disk now.
  void Unreserve(uint64_t bytes, uint64_t written) {
    reserved_bytes_ -= bytes;
    used_bytes_ += written;
  }

 private:
  // Counts what all services have written, and what the disk has room for.
  void Measure();
  // Removes the least recently used object that nobody uses; false if there is none.
  bool RemoveOne();

  const std::string path_;
  const uint64_t most_bytes_;
  const uint64_t kept_free_;
  uint64_t room_bytes_ = 0;  // of blocks, when it was last measured
  uint64_t used_bytes_ = 0;
  uint64_t reserved_bytes_ = 0;  // of blocks on their way
  int64_t measured_ns_ = 0;
  bool all_in_use_ = false;                   // when it was last measured
  std::map<std::string, ObjectBlocks> open_;  // by key
};

}  // namespace bulkhead
