#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "server/data/index_kind.h"
#include "server/data/object_fetcher.h"
#include "tools/local/temporary_folder.h"

namespace bulkhead::tools {

// A file of this host with the name and the bytes of an object, for what looks at files: a text is
// copied whole, of anything else the beginning, by which it is told. Goes with this object.
class ObjectCopy {
 public:
  // Of a text: the limit of COCO JSON; a list of 5 million images has half of it.
  static constexpr uint64_t kMostTextBytes = uint64_t{4} << 30;

  struct Options {
    uint64_t most_text_bytes = kMostTextBytes;
    ObjectFetcher::Trust trust = internal::v1::FetchParts::TRUST_UNSPECIFIED;  // of the block cache
    FindProgressFn progress = nullptr;                                         // may be null
  };

  // Blocks for the network. `found`: of ObjectFetcher::Find. Errors: those of the store;
  // LIST_INVALID of a text that is too large; FILE_UNREADABLE if the copy cannot be written, or
  // TMPDIR has no room for it.
  static absl::StatusOr<ObjectCopy> Make(ObjectFetcher& objects,
                                         const internal::v1::ResolvedFile& found,
                                         const Options& options);

  const std::string& path() const { return path_; }
  // Whether the other copy has the same bytes.
  bool IsAs(const ObjectCopy& other) const { return checksum_ == other.checksum_; }
  // What was said of the copy, and of what is named beside it, as of the object.
  std::string AsOfObject(absl::string_view text) const;
  absl::Status AsOfObject(const absl::Status& status) const;

 private:
  TemporaryFolder folder_;
  std::string path_;
  std::string url_folder_;
  std::string checksum_;
};

}  // namespace bulkhead::tools
