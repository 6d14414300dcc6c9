#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/source/records/record_stream.h"

namespace bulkhead {

// A regular file of a tar.
struct TarMember {
  std::string name;    // as the tar spells it: data, never a path to open
  uint64_t begin = 0;  // offset of its first header, extended headers included
  uint64_t data = 0;   // offset of its bytes
  uint64_t size_bytes = 0;
};

// The parts of a member's name by WebDataset's rule. The key is everything up to the first dot
// behind the last slash, the ending what follows it: `a.b/c.seg.PNG` has the key `a.b/c` and the
// ending `seg.PNG`. Views of the name.
struct TarMemberName {
  absl::string_view key;
  absl::string_view ending;
};
// Absent if the name has no key or no dot behind it (`README`, `.hidden`), or begins and ends with
// `__`: such members belong to no sample.
std::optional<TarMemberName> SplitMemberName(absl::string_view name);

// Whether `head`, the first bytes of a file, begin with a tar's header.
bool BeginsTar(absl::string_view head);

// Walks the headers of a ustar, pax or GNU tar (POSIX.1-2017, pax; GNU tar manual, "Basic Tar
// Format") and passes over the data. Directories, links and devices are passed over. A tar that is
// cut behind a member is a valid shorter one, with or without the two zero blocks at the end; what
// follows a zero block is not read. Not thread-safe.
//
//   TarWalk walk(stream);
//   TarMember member;
//   for (;;) {
//     ASSIGN(const bool more, walk.Next(member));
//     if (!more) break;
//   }
class TarWalk {
 public:
  // `stream` stands at the beginning of the tar, or of a header in it, and outlives the walk.
  explicit TarWalk(RecordStream& stream) : stream_(stream) {}

  // Sets `member` to the next regular file, reusing its memory; false at the end. Sample errors,
  // about the bytes at header(): TRUNCATED_RECORD if the tar ends within a member, CORRUPT_RECORD
  // if a header is damaged or of a kind that is not read (sparse files). Errors of the stream.
  absl::StatusOr<bool> Next(TarMember& member);

  // Where the next header begins, and where the last one that was read did.
  uint64_t position() const { return position_; }
  uint64_t header() const { return header_; }
  // Whether a header was found: else the stream is no tar.
  bool has_begun() const { return has_begun_; }

 private:
  // What extended headers say of the member that follows.
  struct Extended {
    std::optional<std::string> name;
    std::optional<uint64_t> size_bytes;
  };

  // Reads a header; false at the end of the tar.
  absl::StatusOr<bool> ReadHeader(char* header);
  absl::StatusOr<std::string> ReadText(uint64_t size);
  absl::Status ReadPax(uint64_t size, bool global, Extended& extended);
  // Passes over data of `size` bytes and what fills its last block.
  absl::Status Pass(uint64_t size);

  RecordStream& stream_;
  uint64_t position_ = 0;
  uint64_t header_ = 0;  // offset of the last header
  bool has_begun_ = false;
};

}  // namespace bulkhead
