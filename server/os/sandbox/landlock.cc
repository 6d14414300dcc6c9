#include "server/os/sandbox/landlock.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/os/files/fd.h"

namespace bulkhead {
namespace {

// May be missing in the build's headers; the numbers are the kernel's.
struct Attributes {
  uint64_t handled_access_fs = 0;
  uint64_t handled_access_net = 0;  // since ABI 4
  uint64_t scoped = 0;              // since ABI 6
};
constexpr uint64_t kRefer = uint64_t{1} << 13;        // since ABI 2
constexpr uint64_t kTruncate = uint64_t{1} << 14;     // since ABI 3
constexpr uint64_t kIoctlDevice = uint64_t{1} << 15;  // since ABI 5
constexpr uint64_t kBindAndConnectTcp = 3;
constexpr uint64_t kScopeSocketsAndSignals = 3;
constexpr uint64_t kFirstAccesses = (uint64_t{1} << 13) - 1;  // of ABI 1

constexpr uint64_t kReadFile = LANDLOCK_ACCESS_FS_READ_FILE;
constexpr uint64_t kReadFolder = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr uint64_t kWriteFile = LANDLOCK_ACCESS_FS_WRITE_FILE | kTruncate;
constexpr uint64_t kWriteFolder = kReadFolder | kWriteFile | kRefer | LANDLOCK_ACCESS_FS_MAKE_REG |
                                  LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |
                                  LANDLOCK_ACCESS_FS_REMOVE_DIR;

Attributes AttributesOf(long abi) {
  Attributes attributes;
  attributes.handled_access_fs = kFirstAccesses;
  if (abi >= 2) attributes.handled_access_fs |= kRefer;
  if (abi >= 3) attributes.handled_access_fs |= kTruncate;
  if (abi >= 4) attributes.handled_access_net = kBindAndConnectTcp;
  if (abi >= 5) attributes.handled_access_fs |= kIoctlDevice;
  if (abi >= 6) attributes.scoped = kScopeSocketsAndSignals;
  return attributes;
}

size_t AttributesSize(long abi) {
  if (abi >= 6) return sizeof(Attributes);
  return abi >= 4 ? 2 * sizeof(uint64_t) : sizeof(uint64_t);
}

absl::Status Unavailable(int error) {
  if (error == ENOSYS) return absl::UnavailableError("this kernel is built without Landlock");
  if (error == EOPNOTSUPP) {
    return absl::UnavailableError("Landlock is switched off: boot the kernel with lsm=landlock,…");
  }
  return absl::UnavailableError(std::string(SystemError(error, "Landlock").message()));
}

// Allows those of `of_folder` or `of_file` that fit the kind of `path`.
absl::Status Allow(int ruleset, const std::string& path, uint64_t of_folder, uint64_t of_file) {
  const UniqueFd fd(open(path.c_str(), O_PATH | O_CLOEXEC));
  // A path that this process cannot reach needs no rule, and a dead mount must not prevent the
  // sandbox.
  if (!fd) return absl::OkStatus();
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return SystemError(errno, path);
  landlock_path_beneath_attr rule{};
  rule.allowed_access = S_ISDIR(info.st_mode) ? of_folder : of_file;
  rule.parent_fd = fd.get();
  if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) != 0) {
    return SystemError(errno, absl::StrCat("allowing ", path, " to be used"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RestrictFiles(const std::vector<std::string>& readable, const std::string& writable,
                           bool network) {
  const long abi =
      syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (abi < 0) return Unavailable(errno);
  Attributes attributes = AttributesOf(abi);
  if (network) attributes.handled_access_net = 0;
  const UniqueFd ruleset(
      static_cast<int>(syscall(SYS_landlock_create_ruleset, &attributes, AttributesSize(abi), 0)));
  if (!ruleset) return Unavailable(errno);
  for (const std::string& path : readable) {
    BULKHEAD_RETURN_IF_ERROR(Allow(ruleset.get(), path, kReadFolder, kReadFile));
  }
  if (!writable.empty()) {
    const uint64_t known = attributes.handled_access_fs;
    BULKHEAD_RETURN_IF_ERROR(Allow(ruleset.get(), writable, kWriteFolder & known, 0));
    BULKHEAD_RETURN_IF_ERROR(
        Allow(ruleset.get(), "/dev/null", 0, (kReadFile | kWriteFile) & known));
  }
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return Unavailable(errno);
  if (syscall(SYS_landlock_restrict_self, ruleset.get(), 0) != 0) return Unavailable(errno);
  return absl::OkStatus();
}

}  // namespace bulkhead
