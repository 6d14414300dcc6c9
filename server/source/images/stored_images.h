#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "server/blocks/object_blocks.h"
#include "server/blocks/object_table.h"
#include "server/source/images/image_rows.h"
#include "server/source/objects.h"

namespace bulkhead {

// Opens the table of the objects that the source `name` names. FILE_UNREADABLE (UNAVAILABLE) if it
// is damaged, or gone with the cache folder. Blocks for the disk.
absl::StatusOr<std::shared_ptr<const ObjectTable>> OpenTable(
    const internal::v1::TableOfObjects& table, absl::string_view name);

// The images of a source that are objects of a store: what this host has of them. In the index
// their FileIdentity.inode is the number in the table. Thread-safe.
class StoredImages {
 public:
  // Errors: those of OpenTable.
  static absl::StatusOr<std::unique_ptr<StoredImages>> Open(
      const internal::v1::TableOfObjects& table, absl::string_view name);

  // What has to be on this host for Read.
  ObjectPart PartOf(const ImageRow::Image& image) const;
  // Lets the kernel fetch what is on this host into its cache, without waiting for it.
  void Prefetch(const ImageRow::Image& image) const;
  // Reads all of an image to `to`, and returns what identifies it. Blocks for the disk. NOT_FETCHED
  // (UNAVAILABLE) as Source::Read; INDEX_DAMAGED if the table has another object there.
  absl::StatusOr<FileIdentity> Read(const ImageRow::Image& image, char* to) const;

 private:
  // What all services of this host keep, and this one.
  struct Places {
    std::optional<ObjectBlocks> cached;
    std::optional<ObjectBlocks> spare;
  };

  StoredImages(const internal::v1::TableOfObjects& table, absl::string_view name,
               std::shared_ptr<const ObjectTable> objects)
      : table_(table), name_(name), objects_(std::move(objects)) {}

  // Opened now if `again`, else perhaps before.
  std::shared_ptr<const Places> Opened(bool again) const ABSL_LOCKS_EXCLUDED(mutex_);

  const internal::v1::TableOfObjects table_;
  const std::string name_;
  const std::shared_ptr<const ObjectTable> objects_;
  mutable absl::Mutex mutex_;
  mutable std::shared_ptr<const Places> places_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace bulkhead
