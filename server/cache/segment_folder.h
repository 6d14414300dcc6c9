#ifndef BULKHEAD_SERVER_CACHE_SEGMENT_FOLDER_H_
#define BULKHEAD_SERVER_CACHE_SEGMENT_FOLDER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/os/fd.h"

namespace bulkhead {

// The segments of one cache, in a folder that several services may share: those that are there
// are read by everybody, and each that still has room is written to by one worker at a time. The
// service never looks at what stands in them beyond their headers.
//
// A writer's descriptor holds a lock on its file, which lasts as long as somebody holds that
// descriptor: this object, or a worker that outlives it by a moment.
//
// Not thread-safe. Blocks for the disk, when a segment is made.
class SegmentFolder {
 public:
  struct Config {
    std::string folder;                           // exists; belongs to the user
    std::string prefix;                           // of the segments' names: "seek"
    uint64_t most_bytes = 0;                      // of all segments together
    uint64_t first_bytes = uint64_t{4} << 20;     // of the first segment,
    uint64_t largest_bytes = uint64_t{64} << 20;  // and of any, unless most_bytes is large
  };
  // Every process has all segments open, so there must not be too many of them: with a large bound
  // they are larger.
  static constexpr uint64_t kManySegments = 64;

  // One segment, as others may have it.
  struct Segment {
    uint64_t id = 0;  // from 1, in the order in which this object came to know them
    std::string path;
    uint64_t bytes = 0;
    UniqueFd reading;
    UniqueFd writing;  // with the lock; not open while nobody here writes
    bool lent = false;
    bool earlier = false;  // made before this object
  };

  // Finds what is there, and removes what is no segment but has the name of one.
  static std::unique_ptr<SegmentFolder> Open(Config config);

  uint64_t most_bytes() const { return config_.most_bytes; }
  // Segments that may be read, in the order of their ids.
  const std::vector<std::unique_ptr<Segment>>& segments() const { return segments_; }

  // A segment for one writer, until it is given back: one that has room, else a new one. When all
  // of them together would be too large, segments of earlier runs that nobody writes to go, the
  // oldest first. RESOURCE_EXHAUSTED when there is no room, UNAVAILABLE for other trouble.
  absl::StatusOr<const Segment*> Lend();
  void GiveBack(uint64_t id);

 private:
  explicit SegmentFolder(Config config) : config_(std::move(config)) {}

  void FindSegments();
  Segment* FindWithRoom();
  // Opens a segment for writing and takes its lock; false when another service has it.
  static bool TakeLock(Segment& segment);
  absl::StatusOr<Segment*> Make();
  bool RemoveOldest();
  uint64_t TotalBytes() const;

  const Config config_;
  uint64_t next_id_ = 1;
  std::vector<std::unique_ptr<Segment>> segments_;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_CACHE_SEGMENT_FOLDER_H_
