#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "server/data/data_finder.h"
#include "server/data/object_fetcher.h"
#include "server/source/file.h"
#include "tools/local/stored_files.h"

namespace bulkhead::tools {

// A file of this host, or an object of a store, that is looked at.
class InspectedFile {
 public:
  explicit InspectedFile(std::string path) : name_(std::move(path)) {}
  InspectedFile(std::shared_ptr<ObjectFetcher> objects, internal::v1::ResolvedFile found);

  // The path, or the URL as messages show it.
  const std::string& name() const { return name_; }
  bool is_object() const { return objects_ != nullptr; }
  // What was found of an object.
  const internal::v1::ResolvedFile& found() const { return found_; }
  // 0 if it is not there.
  uint64_t size_bytes() const;

  // Calls `read` with the file; of an object again from the beginning, each time that it returns
  // NOT_FETCHED, once the missing bytes are on this host and twice as many behind them as before.
  // Blocks. Errors: those of DataFile, of `read` and of the store.
  absl::Status Read(absl::FunctionRef<absl::Status(const DataFile& file)> read) const;
  // The first bytes, at most 512; none if they cannot be read.
  std::string Head() const;

 private:
  std::string name_;
  std::shared_ptr<ObjectFetcher> objects_;  // null: a file
  internal::v1::ResolvedFile found_;
};

// What names of data stand for.
struct InspectedData {
  // Paths as they are, what globs find, and objects; or one folder of this host.
  std::vector<InspectedFile> files;
  std::shared_ptr<ObjectFetcher> objects;  // null: there is no URL
  std::unique_ptr<StoredFiles> folder;     // not null: instead of files, all below the one URL

  // The first file that is not empty: a shard without records is nothing unusual. The first one if
  // all are.
  const InspectedFile& first() const;
};

// Blocks for the store, and tells `progress` what is listed. NOT_FOUND when a name stands for
// nothing; SPEC_INVALID for what is neither file nor folder, and for a folder beside others; the
// store's errors.
absl::StatusOr<InspectedData> FindData(const std::vector<std::string>& names,
                                       const FindProgressFn& progress);

}  // namespace bulkhead::tools
