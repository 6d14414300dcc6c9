#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "server/blocks/object_table.h"
#include "server/data/data_finder.h"
#include "server/data/found_objects.h"
#include "server/source/images/stored_images.h"
#include "tools/local/parts_ahead.h"

namespace bulkhead::tools {

// The largest file of an image that is read.
inline constexpr uint64_t kMostImageFileBytes = uint64_t{1} << 30;

// Images in a store, each by its number in their table. Immutable; thread-safe.
class StoredFiles {
 public:
  // All below a folder of s3 or gs, except what is hidden; their names are relative to it. Blocks
  // for the store; tells `progress` how many there are so far. Errors: those of the store.
  static absl::StatusOr<std::unique_ptr<StoredFiles>> OfFolder(
      std::shared_ptr<ObjectFetcher> objects, const std::string& url,
      const FindProgressFn& progress);
  // Those of `urls` that are there; their names are the URLs.
  static absl::StatusOr<std::unique_ptr<StoredFiles>> Named(std::shared_ptr<ObjectFetcher> objects,
                                                            const std::vector<std::string>& urls,
                                                            const FindProgressFn& progress);

  const ObjectTable& table() const { return *table_; }

  // For one thread.
  class Reader {
   public:
    // `number_of`: the object of a record.
    Reader(const StoredFiles& files, std::function<uint64_t(uint64_t record)> number_of);
    void WillRead(uint64_t first, uint64_t end) { ahead_.WillRead(first, end); }
    // All bytes of a record's object, which is fetched once more if they are no image. Errors:
    // those of the store; FILE_CHANGED; RESOURCE_EXHAUSTED if it has more than kMostImageFileBytes.
    absl::StatusOr<std::string> Read(uint64_t record);

   private:
    const StoredFiles& files_;
    const std::function<uint64_t(uint64_t)> number_of_;
    PartsAhead ahead_;
  };

 private:
  static absl::StatusOr<std::unique_ptr<StoredFiles>> Open(
      std::shared_ptr<ObjectFetcher> objects, const internal::v1::TableOfObjects& table);
  absl::StatusOr<ImageRow::Image> ImageOf(uint64_t number) const;

  std::shared_ptr<ObjectFetcher> objects_;
  std::shared_ptr<const ObjectTable> table_;
  std::unique_ptr<const StoredImages> images_;
  std::shared_ptr<const FoundObjects> found_;
};

}  // namespace bulkhead::tools
