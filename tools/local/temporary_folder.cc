#include "tools/local/temporary_folder.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/base/error.h"

namespace bulkhead::tools {

namespace fs = std::filesystem;

absl::Status Unwritable(const std::string& path, int error) {
  return MakeError(absl::StatusCode::kUnavailable, reason::kFileUnreadable,
                   absl::StrCat(path, ": ", std::generic_category().message(error),
                                "; set TMPDIR to a folder that can be written to and has room"),
                   {{"file", path}});
}

namespace {

constexpr char kPrefix[] = "bulkhead-tool-";
// A folder is locked right after it was made.
constexpr auto kYoung = std::chrono::minutes(1);

// A lock that the system takes back when the process ends; none if another has it.
UniqueFd Lock(const fs::path& folder) {
  UniqueFd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (fd && flock(fd.get(), LOCK_EX | LOCK_NB) != 0) fd.reset();
  return fd;
}

// Removes what this user's processes left there when they were killed.
void RemoveLeftovers(const fs::path& parent) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(parent, error)) {
    if (!absl::StartsWith(entry.path().filename().string(), kPrefix)) continue;
    const UniqueFd lock = Lock(entry.path());
    struct stat info = {};
    if (!lock || fstat(lock.get(), &info) != 0 || info.st_uid != geteuid()) continue;
    const auto made = std::chrono::system_clock::from_time_t(info.st_mtime);
    if (std::chrono::system_clock::now() - made > kYoung) fs::remove_all(entry.path(), error);
  }
}

}  // namespace

absl::StatusOr<TemporaryFolder> TemporaryFolder::Make(const std::string& name, std::string parent) {
  std::error_code error;
  if (parent.empty()) parent = fs::temp_directory_path(error).string();
  if (error) parent = "/tmp";
  RemoveLeftovers(parent);
  std::string path = absl::StrCat(parent, "/", kPrefix, name, "-XXXXXX");
  if (mkdtemp(path.data()) == nullptr) return Unwritable(path, errno);
  TemporaryFolder folder;
  folder.lock_ = Lock(path);
  folder.path_ = std::move(path);
  return folder;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

TemporaryFolder::TemporaryFolder(TemporaryFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})), lock_(std::move(other.lock_)) {}

TemporaryFolder& TemporaryFolder::operator=(TemporaryFolder&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(lock_, other.lock_);
  return *this;
}

}  // namespace bulkhead::tools
