#ifndef BULKHEAD_SERVER_SOURCE_TAR_TAR_WALK_H_
#define BULKHEAD_SERVER_SOURCE_TAR_TAR_WALK_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/source/tfrecord/record_stream.h"

namespace bulkhead {

// A regular file of a tar.
struct TarMember {
  std::string name;    // as the tar spells it: data, never a path to open
  uint64_t begin = 0;  // offset of its first header, extended headers included
  uint64_t data = 0;   // offset of its bytes
  uint64_t size_bytes = 0;
};

// The parts of a member's name by WebDataset's rule. The key is everything up to the first dot
// behind the last slash, the field what follows it, in lower case: `a.b/c.seg.PNG` has the key
// `a.b/c` and the field `seg.png`. Views of the name, except the field.
struct TarMemberName {
  absl::string_view key;
  std::string field;
};
// Absent if the name has no key or no dot behind it (`README`, `.hidden`), or begins and ends with
// `__`: WebDataset passes over such members.
std::optional<TarMemberName> SplitMemberName(absl::string_view name);

// Walks the headers of a ustar, pax or GNU tar (POSIX.1-2017, pax; GNU tar manual, "Basic Tar
// Format") and passes over the data. Directories, links and devices are passed over. A tar that is
// cut behind a member is a valid shorter one, with or without the two zero blocks at the end; what
// follows a zero block is not read. Not thread-safe.
//
//   TarWalk walk(*stream, file.name());
//   for (;;) {
//     ASSIGN(std::optional<TarMember> member, walk.Next());
//     if (!member) break;
//   }
class TarWalk {
 public:
  // `stream` stands at the beginning of the tar; both outlive the walk.
  TarWalk(RecordStream& stream, absl::string_view name) : stream_(stream), name_(name) {}

  // The next regular file; absent at the end. DATA_LOSS with file@offset: TRUNCATED_RECORD if the
  // file ends within a member, CORRUPT_RECORD if a header is damaged or of a kind that is not read
  // (sparse files). Errors of the stream.
  absl::StatusOr<std::optional<TarMember>> Next();

 private:
  // What extended headers say of the member that follows.
  struct Extended {
    std::optional<std::string> name;
    std::optional<uint64_t> size_bytes;
  };

  // Reads a header; false at the end of the tar.
  absl::StatusOr<bool> ReadHeader(char* header);
  absl::Status CheckHeader(const char* header) const;
  absl::StatusOr<std::string> ReadText(uint64_t size);
  absl::Status ReadPax(uint64_t size, bool global, Extended& extended);
  // Passes over data of `size` bytes and what fills its last block.
  absl::Status Pass(uint64_t size);
  absl::Status Truncated(absl::string_view where) const;
  absl::Status Corrupt(absl::string_view what) const;
  absl::Status Error(absl::string_view why, absl::string_view what) const;

  RecordStream& stream_;
  const absl::string_view name_;
  uint64_t position_ = 0;
  uint64_t header_ = 0;  // offset of the last header
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SOURCE_TAR_TAR_WALK_H_
