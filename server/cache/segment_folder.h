#ifndef BULKHEAD_SERVER_CACHE_SEGMENT_FOLDER_H_
#define BULKHEAD_SERVER_CACHE_SEGMENT_FOLDER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/os/files/fd.h"

namespace bulkhead {

// The segments of one cache, in a folder that several services may share: each that still has room
// is written to by one worker at a time. The service never looks at what stands in them beyond
// their headers.
//
// A checksum does not prove honesty: a segment's writer can store what was never decoded. So
// each segment belongs to a trust domain, and only workers of that domain write to it: those of all
// pipelines of built-in stages share kBuiltIn, which everybody reads; a pipeline that runs code of
// the user's has a domain of its own, which no other pipeline reads. The domain stands in the
// file's name, as what is in the file is its writer's.
//
// Files that are not ours (filesystem.h, OpenOwnFile) are not opened; a warning of whoever made the
// object is due. A folder that vanishes is made again when a segment is.
//
// A writer's descriptor holds a lock on its file, which lasts as long as somebody holds that
// descriptor: this object, or a worker that outlives it by a moment.
//
// Not thread-safe. Blocks for the disk. What is constant of a segment, and `writing` of one that is
// lent, may be read on any thread.
class SegmentFolder {
 public:
  static constexpr char kBuiltIn[] = "builtin";

  struct Config {
    std::string folder;                           // belongs to the user
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
    std::string domain;
    uint64_t bytes = 0;
    UniqueFd reading;
    UniqueFd writing;  // with the lock; not open while nobody here writes
    bool lent = false;
    bool earlier = false;  // made before this object
  };

  // Finds what is there, and removes what is no segment but has the name of one.
  static std::unique_ptr<SegmentFolder> Open(Config config);

  // Segments that may be read by their domain, in the order of their ids.
  const std::vector<std::shared_ptr<Segment>>& segments() const { return segments_; }
  // Why files were not opened, which have the names of segments.
  const std::vector<absl::Status>& refused() const { return refused_; }

  // A segment for one writer of `domain` (lower-case letters and digits), until it is given back:
  // one that has room, else a new one. When all of them together would be too large, segments that
  // nobody writes to go, the oldest first: those of earlier runs, and those of other domains that
  // have no writer. RESOURCE_EXHAUSTED when there is no room, other errors of the disk.
  absl::StatusOr<std::shared_ptr<const Segment>> Lend(const std::string& domain);
  void GiveBack(uint64_t id);

 private:
  explicit SegmentFolder(Config config) : config_(std::move(config)) {}

  void FindSegments();
  void Adopt(const std::string& path, const std::string& domain);
  std::shared_ptr<Segment> FindWithRoom(const std::string& domain);
  // Opens a segment for writing and takes its lock; false when another service has it.
  static bool TakeLock(Segment& segment);
  absl::StatusOr<std::shared_ptr<Segment>> Make(const std::string& domain);
  // A file without a name, in the folder, which is made again if it is gone.
  absl::StatusOr<UniqueFd> CreateFile();
  // In favour of `domain`.
  absl::Status MakeRoom(const std::string& domain);
  bool RemoveOldest(const std::string& domain);
  bool HasWriter(const std::string& domain) const;
  uint64_t TotalBytes() const;

  const Config config_;
  uint64_t next_id_ = 1;
  std::vector<std::shared_ptr<Segment>> segments_;
  std::vector<absl::Status> refused_;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_CACHE_SEGMENT_FOLDER_H_
