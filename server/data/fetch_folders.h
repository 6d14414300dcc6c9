#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "bulkhead/internal/v1/fetch.pb.h"
#include "server/os/files/fd.h"

namespace bulkhead {

// Where a service's bulkhead-fetch keeps objects: blocks/, which services share, and a spare-NAME/
// of its own, which is locked, and removed when this goes. Resolve and TableOf are thread-safe.
class FetchFolders {
 public:
  explicit FetchFolders(std::string folder);
  ~FetchFolders();
  FetchFolders(const FetchFolders&) = delete;
  FetchFolders& operator=(const FetchFolders&) = delete;

  const std::string& folder() const { return folder_; }
  const std::string& blocks() const { return blocks_; }
  const std::string& spare() const { return spare_; }

  // Makes those that are missing, and removes the spare folders of services that were killed.
  absl::Status Make();
  // Whether one of them was removed, or another one lies in its place, since the last call or Make.
  bool HaveChanged();

  // An object with the paths where its blocks will lie.
  internal::v1::ResolvedFile Resolve(const internal::v1::FoundObject& object) const;
  // Where the table of this key and the bytes of its objects lie.
  internal::v1::TableOfObjects TableOf(const std::string& key) const;

 private:
  absl::Status TakeSpareFolder();
  std::vector<uint64_t> Inodes() const;

  const std::string folder_;
  const std::string blocks_;
  const std::string spare_;
  UniqueFd spare_lock_;
  std::vector<uint64_t> inodes_;
};

}  // namespace bulkhead
