#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/data/data_finder.h"
#include "server/data/object_fetcher.h"
#include "tools/local/stored_files.h"

namespace bulkhead::tools {

// The folder of a list, a path or a URL.
std::string FolderOfList(const std::string& list);

// Where the image of a line lies: a path, or a URL. `folder`: that of the list, a path or a URL;
// `image`: as the line has it.
std::string PlaceOfImage(const std::string& folder, const std::string& image);

// The images that the lines of a list name: files of this host, and objects. Not thread-safe.
class ListImages {
 public:
  // `objects`: null if none was needed yet.
  explicit ListImages(std::shared_ptr<ObjectFetcher> objects) : objects_(std::move(objects)) {}

  // Looks for objects, in the lines' order, of which the first `headers` that are there will be
  // read. Blocks for the store, and tells `progress`. Errors: those of the store.
  absl::Status LookFor(const std::vector<std::string>& urls, uint64_t headers,
                       const FindProgressFn& progress);

  // Whether there is such a file; of objects only those of LookFor.
  bool Has(const std::string& place) const;
  // As ReadImageHead; of an object, one of those that will be read, all bytes.
  absl::StatusOr<std::string> Read(const std::string& place);

 private:
  std::shared_ptr<ObjectFetcher> objects_;
  std::unique_ptr<StoredFiles> stored_;      // null: all are files
  std::vector<uint64_t> numbers_;            // of the objects that will be read
  std::map<std::string, uint64_t> read_as_;  // by URL: which of these
  std::optional<StoredFiles::Reader> reader_;
};

}  // namespace bulkhead::tools
