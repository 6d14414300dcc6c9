#include "server/os/process/cgroup_location.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/base/error.h"
#include "server/os/files/filesystem.h"

namespace bulkhead {
namespace {

constexpr size_t kMaxHostFileBytes = size_t{4} << 20;

struct Mount {
  std::string root;   // the mounted part of the hierarchy
  std::string point;  // the mount point
  std::string type;
  std::vector<std::string> options;  // of the file system: the controllers (version 1)
};

// mountinfo escapes spaces and the like as a backslash and three octal digits.
std::string Unescape(absl::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escaped = text[i] == '\\' && i + 3 < text.size();
    if (!escaped) {
      plain += text[i];
      continue;
    }
    plain +=
        static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + text[i + 3] - '0');
    i += 3;
  }
  return plain;
}

// proc(5): "36 35 98:0 /root /point options [optional fields] - type source super-options".
std::optional<Mount> ParseMount(absl::string_view line) {
  const std::vector<absl::string_view> halves = absl::StrSplit(line, absl::MaxSplits(" - ", 1));
  if (halves.size() != 2) return std::nullopt;
  const std::vector<absl::string_view> left = absl::StrSplit(halves[0], ' ');
  const std::vector<absl::string_view> right = absl::StrSplit(halves[1], ' ');
  if (left.size() < 6 || right.size() < 3) return std::nullopt;
  Mount mount;
  mount.root = Unescape(left[3]);
  mount.point = Unescape(left[4]);
  mount.type = std::string(right[0]);
  mount.options = absl::StrSplit(right[2], ',');
  return mount;
}

// Where a mount shows a group of the hierarchy.
std::string FolderOf(const Mount& mount, const std::string& group) {
  std::string below = group;
  if (mount.root != "/") {
    // A container without a cgroup namespace may have its group mounted as the root.
    below = IsBeneath(group, mount.root) ? group.substr(mount.root.size()) : "";
  }
  return below.empty() || below == "/" ? mount.point : mount.point + below;
}

class Finder {
 public:
  Finder(std::string groups, std::vector<Mount> mounts, pid_t pid)
      : groups_(std::move(groups)), mounts_(std::move(mounts)), pid_(pid) {}

  std::optional<std::string> V2() {
    const auto group = GroupPath(groups_, "");
    for (const Mount& mount : mounts_) {
      if (mount.type != "cgroup2" || !group.has_value()) continue;
      const std::string folder = FolderOf(mount, *group);
      const auto controllers = ReadPrefix(folder + "/cgroup.controllers", kMaxHostFileBytes);
      if (!controllers.ok()) continue;
      for (const auto& name : absl::StrSplit(*controllers, absl::ByAnyChar(" \n"))) {
        if (name == "memory" && HoldsThisProcess(folder)) return folder;
      }
    }
    return std::nullopt;
  }

  std::optional<std::string> V1(const std::string& controller) {
    const auto group = GroupPath(groups_, controller);
    for (const Mount& mount : mounts_) {
      const bool serves =
          std::find(mount.options.begin(), mount.options.end(), controller) != mount.options.end();
      if (mount.type != "cgroup" || !serves || !group.has_value()) continue;
      const std::string folder = FolderOf(mount, *group);
      const auto info = StatFile(folder);
      if (info.ok() && info->is_directory && HoldsThisProcess(folder)) return folder;
    }
    return std::nullopt;
  }

  // Why folders were rejected; empty: none was.
  const std::string& passed_over() const { return passed_over_; }

 private:
  bool HoldsThisProcess(const std::string& folder) {
    const auto procs = ReadPrefix(folder + "/cgroup.procs", kMaxHostFileBytes);
    if (procs.ok()) {
      for (const absl::string_view line : absl::StrSplit(*procs, '\n')) {
        if (pid_t pid = 0; absl::SimpleAtoi(line, &pid) && pid == pid_) return true;
      }
    }
    absl::StrAppend(&passed_over_, passed_over_.empty() ? "" : "; ", folder,
                    procs.ok() ? " does not list this process, so it is another group"
                               : ": its processes cannot be read");
    return false;
  }

  const std::string groups_;
  const std::vector<Mount> mounts_;
  const pid_t pid_;
  std::string passed_over_;
};

}  // namespace

std::optional<std::string> GroupPath(const std::string& groups, absl::string_view controller) {
  for (const auto& line : absl::StrSplit(groups, '\n')) {
    const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const std::vector<absl::string_view> controllers = absl::StrSplit(parts[1], ',');
    const auto found = std::find(controllers.begin(), controllers.end(), controller);
    if (found != controllers.end()) return std::string(parts[2]);
  }
  return std::nullopt;
}

absl::StatusOr<CgroupLocation> FindOwnCgroup(const CgroupSources& sources) {
  BULKHEAD_ASSIGN_OR_RETURN(const std::string mount_text,
                            ReadPrefix(sources.mounts, kMaxHostFileBytes));
  BULKHEAD_ASSIGN_OR_RETURN(std::string groups, ReadPrefix(sources.groups, kMaxHostFileBytes));
  std::vector<Mount> mounts;
  for (const auto& line : absl::StrSplit(mount_text, '\n')) {
    if (auto mount = ParseMount(line); mount.has_value()) mounts.push_back(*std::move(mount));
  }
  Finder finder(std::move(groups), std::move(mounts), sources.pid);
  if (const auto v2 = finder.V2()) return CgroupLocation{CgroupVersion::kV2, *v2, *v2};
  if (const auto memory = finder.V1("memory")) {
    return CgroupLocation{CgroupVersion::kV1, *memory, finder.V1("pids").value_or("")};
  }
  return absl::FailedPreconditionError(
      absl::StrCat("no cgroup with a memory controller is mounted that this process can see",
                   finder.passed_over().empty() ? "" : " (", finder.passed_over(),
                   finder.passed_over().empty() ? "" : ")"));
}

}  // namespace bulkhead
