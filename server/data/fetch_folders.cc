#include "server/data/fetch_folders.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/blocks/object_blocks.h"
#include "server/os/files/filesystem.h"
#include "server/os/files/random_name.h"

namespace bulkhead {
namespace {

constexpr char kSpare[] = "spare-";

}  // namespace

FetchFolders::FetchFolders(std::string folder)
    : folder_(std::move(folder)),
      blocks_(absl::StrCat(folder_, "/blocks")),
      spare_(absl::StrCat(folder_, "/", kSpare, RandomName(8))) {}

FetchFolders::~FetchFolders() { RemoveTree(spare_); }

absl::Status FetchFolders::Make() {
  BULKHEAD_RETURN_IF_ERROR(MakeDirectories(blocks_));
  if (!spare_lock_ || !StatFile(spare_).ok()) BULKHEAD_RETURN_IF_ERROR(TakeSpareFolder());
  inodes_ = Inodes();
  return absl::OkStatus();
}

bool FetchFolders::HaveChanged() {
  const std::vector<uint64_t> now = Inodes();
  return std::exchange(inodes_, now) != now;
}

internal::v1::ResolvedFile FetchFolders::Resolve(const internal::v1::FoundObject& object) const {
  internal::v1::ResolvedFile file;
  *file.mutable_object() = object.object();
  const std::string& key = object.object().key();
  file.set_path(absl::StrCat(blocks_, "/", key));
  file.mutable_object()->set_spare_path(absl::StrCat(spare_, "/", key));
  file.set_size_bytes(object.size_bytes());
  file.set_mtime_ns(object.mtime_ns());
  file.set_inode(ObjectBlocks::NumberOf(key));
  return file;
}

internal::v1::TableOfObjects FetchFolders::TableOf(const std::string& key) const {
  internal::v1::TableOfObjects table;
  table.set_key(key);
  table.set_path(absl::StrCat(blocks_, "/", key));
  table.set_spare_path(absl::StrCat(spare_, "/", key));
  return table;
}

absl::Status FetchFolders::TakeSpareFolder() {
  for (const std::string& name : NamesIn(folder_)) {
    const std::string folder = absl::StrCat(folder_, "/", name);
    if (!absl::StartsWith(name, kSpare)) continue;
    const auto lock = OpenOwnFile(absl::StrCat(folder, "/lock"), /*writable=*/true);
    if (lock.ok() && TryLockFile(lock->get())) RemoveTree(folder);
  }
  BULKHEAD_RETURN_IF_ERROR(MakeDirectories(spare_));
  BULKHEAD_ASSIGN_OR_RETURN(UniqueFd lock, CreateUnnamedFile(spare_));
  if (!TryLockFile(lock.get())) return absl::InternalError("a new file is locked");
  BULKHEAD_RETURN_IF_ERROR(NameFile(lock.get(), absl::StrCat(spare_, "/lock")));
  spare_lock_ = std::move(lock);
  return absl::OkStatus();
}

// 0 for a folder that is not there.
std::vector<uint64_t> FetchFolders::Inodes() const {
  std::vector<uint64_t> inodes;
  for (const std::string* folder : {&folder_, &blocks_, &spare_}) {
    const absl::StatusOr<FileInfo> info = StatFile(*folder);
    inodes.push_back(info.ok() ? info->inode : 0);
  }
  return inodes;
}

}  // namespace bulkhead
