#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/os/files/fd.h"

namespace bulkhead {

// The segments of one cache, in a folder that several services may share: they read each other's,
// and together stay within the limit. A segment with room has at most one writing worker at a time.
// The service reads only headers of segments.
//
// A checksum does not prove honesty: a segment's writer can store what was never decoded. So each
// segment belongs to a trust domain, and only workers of that domain write to it. Pipelines of
// built-in stages share kBuiltIn, which every pipeline reads; a pipeline with user code has a
// domain of its own, which no other reads. The domain is part of the file's name, because the
// file's content is under its writer's control.
//
// Files that are not ours (filesystem.h, OpenOwnFile) are not opened, and reported in refused(). A
// folder that vanishes is made again with the next segment.
//
// A writer's descriptor locks its file for as long as it is open, in this object or in a worker
// that briefly outlives it.
//
// Not thread-safe; blocks for the disk. A segment's constants, and `writing` of a lent one, may be
// read on any thread.
class SegmentFolder {
 public:
  static constexpr char kBuiltIn[] = "builtin";

  struct Config {
    std::string folder;                        // must belong to the user
    std::string prefix;                        // of the segments' names: "seek"
    uint64_t most_bytes = 0;                   // of all segments together
    uint64_t first_bytes = uint64_t{4} << 20;  // of a segment while none is full,
    uint64_t largest_bytes = uint64_t{64}
                             << 20;  // limit of any segment, unless most_bytes is large
    // Whether what kBuiltIn keeps serves other domains, too, and so makes no room for them.
    bool builtin_serves_all = true;
  };
  // Every process opens all segments, so their number is bounded: with a large most_bytes segments
  // are larger.
  static constexpr uint64_t kManySegments = 64;

  // One segment, as its users see it.
  struct Segment {
    uint64_t id = 0;  // from 1, in order of discovery
    std::string path;
    std::string domain;
    uint64_t bytes = 0;
    UniqueFd reading;
    UniqueFd writing;  // holds the lock; closed while this service does not write
    bool lent = false;
    bool earlier = false;  // made before this object
  };

  // Finds existing segments, and removes files with a segment's name that are none.
  static std::unique_ptr<SegmentFolder> Open(Config config);

  // Segments that their domain may read, by ascending id.
  const std::vector<std::shared_ptr<Segment>>& segments() const { return segments_; }
  // Why files named like segments were not opened.
  const std::vector<absl::Status>& refused() const { return refused_; }

  // Lends a segment to one writer of `domain` (lower-case letters and digits) until GiveBack: one
  // with room, else a new one. If the total would be too large, removes the oldest segments without
  // a writer: of other domains first, but not of kBuiltIn where those serve every pipeline; then
  // of earlier runs. RESOURCE_EXHAUSTED if there is no room; other errors of the disk.
  absl::StatusOr<std::shared_ptr<const Segment>> Lend(const std::string& domain);
  void GiveBack(uint64_t id);

 private:
  explicit SegmentFolder(Config config) : config_(std::move(config)) {}

  // Those that this object does not know yet.
  void FindSegments(bool earlier);
  bool IsKnown(const std::string& path) const;
  void Adopt(const std::string& path, const std::string& domain, bool earlier);
  std::shared_ptr<Segment> FindWithRoom(const std::string& domain);
  // Opens a segment for writing and locks it; false if another service holds the lock.
  static bool TakeLock(Segment& segment);
  absl::StatusOr<std::shared_ptr<Segment>> Make(const std::string& domain);
  // Creates an unnamed file in the folder, which is made again if needed.
  absl::StatusOr<UniqueFd> CreateFile();
  // For a new segment of `domain`.
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
