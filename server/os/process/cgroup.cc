#include "server/os/process/cgroup.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/base/error.h"
#include "server/os/files/fd.h"
#include "server/os/files/filesystem.h"

namespace bulkhead {
namespace {

constexpr absl::string_view kPrefix = "bulkhead-";
constexpr size_t kMaxFileBytes = size_t{1} << 16;
// The kernel charges this much at a time, so a group may have met its limit although its usage is
// lower by this.
constexpr uint64_t kChargedAtOnce = uint64_t{256} << 10;
// Weight of one thread of the usual priority, and the kernel's maximum.
constexpr uint32_t kCpuWeight = 100;
constexpr uint32_t kMaxCpuWeight = 10'000;
// For the leaf made as a test.
constexpr CgroupLimits kProbeLimits{uint64_t{1} << 30, 16, 1};

// UNAVAILABLE for EBUSY: processes prevent it.
absl::Status WriteControl(const std::string& path, absl::string_view value) {
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd) return SystemError(errno, path);
  if (write(fd.get(), value.data(), value.size()) != static_cast<ssize_t>(value.size())) {
    const bool busy = errno == EBUSY;
    const absl::Status status = SystemError(errno, absl::StrCat("writing '", value, "' to ", path));
    return busy ? absl::UnavailableError(std::string(status.message())) : status;
  }
  return absl::OkStatus();
}

absl::Status MakeFolder(const std::string& path) {
  if (mkdir(path.c_str(), 0755) == 0 || errno == EEXIST) return absl::OkStatus();
  return SystemError(errno, absl::StrCat("making the cgroup ", path));
}

// A group without processes can be removed, in spite of the kernel's files in it.
absl::Status RemoveFolder(const std::string& path) {
  if (rmdir(path.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
  if (errno == EBUSY) return absl::UnavailableError(absl::StrCat(path, " is not empty"));
  return SystemError(errno, absl::StrCat("removing the cgroup ", path));
}

// Groups under a group, without the kernel's files.
std::vector<std::string> GroupsIn(const std::string& path) {
  std::vector<std::string> groups;
  for (const std::string& name : NamesIn(path)) {
    const auto info = StatFile(absl::StrCat(path, "/", name));
    if (info.ok() && info->is_directory) groups.push_back(name);
  }
  return groups;
}

// The start time of a process in clock ticks since boot. With the pid it identifies a process
// uniquely. Empty if there is no such process, or only a zombie. Field 22 of /proc/PID/stat,
// counted from the end of field 2, a name that may hold anything.
std::string StartTime(pid_t pid) {
  const auto stat = ReadPrefix(absl::StrCat("/proc/", pid, "/stat"), kMaxFileBytes);
  if (!stat.ok()) return "";
  const size_t name_end = stat->rfind(')');
  if (name_end == std::string::npos) return "";
  const std::vector<std::string> fields = absl::StrSplit(stat->substr(name_end + 2), ' ');
  const bool ended = fields[0] == "Z" || fields[0] == "X";
  return fields.size() > 19 && !ended ? fields[19] : "";
}

// Whether the service that owns a tree of this name still runs. Unknown names count as owned.
bool IsOwned(absl::string_view tree) {
  const std::vector<absl::string_view> parts = absl::StrSplit(tree, '.');
  const size_t count = parts.size();  // a name may have dots
  pid_t pid = 0;
  if (count < 3 || !absl::SimpleAtoi(parts[count - 2], &pid)) return true;
  return StartTime(pid) == parts[count - 1];
}

// The number after "KEY " at the start of a line.
std::optional<uint64_t> KeyedNumber(const std::string& text, absl::string_view key) {
  for (const auto& line : absl::StrSplit(text, '\n')) {
    const std::vector<absl::string_view> parts = absl::StrSplit(line, ' ');
    uint64_t number = 0;
    if (parts.size() == 2 && parts[0] == key && absl::SimpleAtoi(parts[1], &number)) return number;
  }
  return std::nullopt;
}

// The number in a file; 0 if there is none.
uint64_t ReadNumber(const std::string& path) {
  const auto text = ReadPrefix(path, kMaxFileBytes);
  uint64_t number = 0;
  return text.ok() && absl::SimpleAtoi(*text, &number) ? number : 0;
}

absl::Status LimitV2(const std::string& folder, const CgroupLimits& limits) {
  absl::Status status = WriteControl(folder + "/memory.max", absl::StrCat(limits.memory_bytes));
  // Absent where swap is not accounted.
  const absl::Status swap = WriteControl(folder + "/memory.swap.max", "0");
  if (status.ok() && !absl::IsNotFound(swap)) status = swap;
  if (status.ok()) status = WriteControl(folder + "/memory.oom.group", "1");
  const absl::Status pids = WriteControl(folder + "/pids.max", absl::StrCat(limits.max_threads));
  if (status.ok() && !absl::IsNotFound(pids)) status = pids;
  // Best effort: thread priorities also limit workers to their share.
  const uint32_t weight = std::min(kMaxCpuWeight, std::max(1u, limits.cpu_threads) * kCpuWeight);
  (void)WriteControl(folder + "/cpu.weight", absl::StrCat(weight));
  return status;
}

absl::Status LimitV1(const std::string& folder, const CgroupLimits& limits) {
  const std::string bytes = absl::StrCat(limits.memory_bytes);
  BULKHEAD_RETURN_IF_ERROR(WriteControl(folder + "/memory.limit_in_bytes", bytes));
  // The same limit for memory and swap together. Where swap is not accounted, it is only
  // discouraged.
  if (!WriteControl(folder + "/memory.memsw.limit_in_bytes", bytes).ok()) {
    (void)WriteControl(folder + "/memory.swappiness", "0");
  }
  return absl::OkStatus();
}

absl::Status Shared(const std::string& group) {
  return absl::FailedPreconditionError(
      absl::StrCat("other processes share the cgroup ", group,
                   " with this service, and cgroup v2 cannot limit groups under such a cgroup; "
                   "start the service in a cgroup of its own (systemd: Delegate=yes)"));
}

}  // namespace

CgroupLeaf::~CgroupLeaf() { (void)Remove(); }

CgroupLeaf& CgroupLeaf::operator=(CgroupLeaf&& other) noexcept {
  std::swap(version_, other.version_);
  std::swap(folders_, other.folders_);
  return *this;
}

absl::Status CgroupLeaf::Add(pid_t pid) const {
  for (const std::string& folder : folders_) {
    BULKHEAD_RETURN_IF_ERROR(WriteControl(folder + "/cgroup.procs", absl::StrCat(pid)));
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> CgroupLeaf::OomKills() const {
  const bool v2 = version_ == CgroupVersion::kV2;
  const std::string file = path() + (v2 ? "/memory.events" : "/memory.oom_control");
  BULKHEAD_ASSIGN_OR_RETURN(const std::string text, ReadPrefix(file, kMaxFileBytes));
  const auto kills = KeyedNumber(text, "oom_kill");
  // In version 1 since Linux 4.13.
  if (!kills.has_value()) return absl::UnimplementedError(absl::StrCat(file, " has no oom_kill"));
  // When a group above meets its limit, processes in any leaf may be killed.
  return MetItsLimit() ? *kills : 0;
}

bool CgroupLeaf::MetItsLimit() const {
  if (version_ == CgroupVersion::kV2) {
    for (const char* file : {"/memory.events.local", "/memory.events"}) {
      const auto text = ReadPrefix(path() + file, kMaxFileBytes);
      if (text.ok()) return KeyedNumber(*text, "oom").value_or(0) > 0;
    }
    return false;
  }
  // Uses the highest usage, because failcnt stays 0 under some kernels. If memory and swap have a
  // common limit, that is the one met.
  for (const std::string kind : {"/memory.", "/memory.memsw."}) {
    const uint64_t limit = ReadNumber(path() + kind + "limit_in_bytes");
    const uint64_t highest = ReadNumber(path() + kind + "max_usage_in_bytes");
    if (limit > 0 && highest + kChargedAtOnce >= limit) return true;
    if (ReadNumber(path() + kind + "failcnt") > 0) return true;
  }
  return false;
}

void CgroupLeaf::Kill() const {
  if (folders_.empty()) return;
  if (WriteControl(path() + "/cgroup.kill", "1").ok()) return;
  const auto text = ReadPrefix(path() + "/cgroup.procs", kMaxFileBytes);
  if (!text.ok()) return;
  for (const auto& line : absl::StrSplit(*text, '\n')) {
    // 0: a process that this pid namespace cannot name.
    if (pid_t pid = 0; absl::SimpleAtoi(line, &pid) && pid > 0) kill(pid, SIGKILL);
  }
}

absl::Status CgroupLeaf::Remove() {
  while (!folders_.empty()) {
    BULKHEAD_RETURN_IF_ERROR(RemoveFolder(folders_.back()));
    folders_.pop_back();
  }
  return absl::OkStatus();
}

CgroupTree::CgroupTree(CgroupLocation own, std::string name)
    : own_(std::move(own)), name_(std::move(name)) {}

absl::StatusOr<std::unique_ptr<CgroupTree>> CgroupTree::Open(const std::string& name,
                                                             const CgroupSources& sources) {
  BULKHEAD_ASSIGN_OR_RETURN(CgroupLocation own, FindOwnCgroup(sources));
  std::unique_ptr<CgroupTree> tree(new CgroupTree(
      std::move(own), absl::StrCat(kPrefix, name, ".", getpid(), ".", StartTime(getpid()))));
  tree->RemoveAbandoned();
  if (tree->version() == CgroupVersion::kV2) {
    BULKHEAD_RETURN_IF_ERROR(tree->EnableControllers());
  }
  BULKHEAD_RETURN_IF_ERROR(tree->MakeLeaf("probe", kProbeLimits).status());
  return tree;
}

CgroupTree::~CgroupTree() {
  const std::string tree = absl::StrCat(own_.memory, "/", name_);
  if (moved_) {
    // A group takes processes back only when its subgroups have no controllers.
    for (const char* off : {"-cpu", "-pids", "-memory"}) {
      (void)WriteControl(tree + "/cgroup.subtree_control", off);
      (void)WriteControl(own_.memory + "/cgroup.subtree_control", off);
    }
    (void)WriteControl(own_.memory + "/cgroup.procs", absl::StrCat(getpid()));
    (void)RemoveFolder(tree + "/supervisor");
  }
  (void)RemoveFolder(tree);
  if (!own_.pids.empty()) (void)RemoveFolder(absl::StrCat(own_.pids, "/", name_));
}

absl::Status CgroupTree::MoveSelfAside() {
  const std::string leaf = absl::StrCat(own_.memory, "/", name_, "/supervisor");
  absl::Status status = MakeFolder(leaf);
  if (status.ok()) status = WriteControl(leaf + "/cgroup.procs", absl::StrCat(getpid()));
  moved_ = status.ok();
  return status;
}

absl::Status CgroupTree::EnableControllers() {
  const std::string tree = absl::StrCat(own_.memory, "/", name_);
  BULKHEAD_RETURN_IF_ERROR(MakeFolder(tree));
  const std::string own_control = own_.memory + "/cgroup.subtree_control";
  const std::string memory = "+memory";
  absl::Status status = WriteControl(own_control, memory);
  if (absl::IsUnavailable(status)) {
    // The group still holds processes, including this one.
    BULKHEAD_RETURN_IF_ERROR(MoveSelfAside());
    status = WriteControl(own_control, memory);
    if (absl::IsUnavailable(status)) return Shared(own_.memory);
  }
  BULKHEAD_RETURN_IF_ERROR(status);
  status = WriteControl(tree + "/cgroup.subtree_control", memory);
  // Limits threads and divides CPU time where the controllers are available. Not CPU time in the
  // root group (which has no type): each of its own processes would weigh as much as the whole
  // tree.
  std::vector<const char*> wanted = {"+pids"};
  if (StatFile(own_.memory + "/cgroup.type").ok()) wanted.push_back("+cpu");
  for (const char* controller : wanted) {
    (void)WriteControl(own_control, controller);
    (void)WriteControl(tree + "/cgroup.subtree_control", controller);
  }
  return status;
}

absl::StatusOr<CgroupLeaf> CgroupTree::MakeLeaf(absl::string_view name,
                                                const CgroupLimits& limits) const {
  const bool v2 = version() == CgroupVersion::kV2;
  const std::string tree = absl::StrCat(own_.memory, "/", name_);
  const std::string folder = absl::StrCat(tree, "/", name);
  BULKHEAD_RETURN_IF_ERROR(MakeFolder(tree));
  // An existing leaf may hold another process.
  if (mkdir(folder.c_str(), 0755) != 0) {
    return SystemError(errno, absl::StrCat("making the cgroup ", folder));
  }
  CgroupLeaf leaf(version(), {folder});
  BULKHEAD_RETURN_IF_ERROR(v2 ? LimitV2(folder, limits) : LimitV1(folder, limits));
  if (v2 || own_.pids.empty()) return leaf;
  // Best effort: the leaf's purpose is memory.
  const std::string pids_tree = absl::StrCat(own_.pids, "/", name_);
  const std::string pids = absl::StrCat(pids_tree, "/", name);
  if (MakeFolder(pids_tree).ok() && MakeFolder(pids).ok()) {
    if (WriteControl(pids + "/pids.max", absl::StrCat(limits.max_threads)).ok()) {
      leaf.folders_.push_back(pids);
    } else {
      (void)RemoveFolder(pids);
    }
  }
  return leaf;
}

bool CgroupTree::RemoveAbandoned() const {
  bool all = true;
  for (const std::string& own : {own_.memory, own_.pids}) {
    for (const std::string& tree : GroupsIn(own)) {
      if (!absl::StartsWith(tree, kPrefix) || IsOwned(tree)) continue;
      const std::string path = absl::StrCat(own, "/", tree);
      for (const std::string& leaf : GroupsIn(path)) {
        (void)RemoveFolder(absl::StrCat(path, "/", leaf));
      }
      all = RemoveFolder(path).ok() && all;
    }
    if (version() == CgroupVersion::kV2) break;
  }
  return all;
}

}  // namespace bulkhead
