#include "server/os/process/process_usage.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/base/error.h"
#include "server/os/files/fd.h"
#include "server/os/process/cgroup_location.h"

namespace bulkhead {
namespace {

// A change of resident file pages for which the private ones are not counted anew, as a share of
// all and in bytes.
constexpr uint64_t kNegligibleShare = 16;  // one of so many
constexpr uint64_t kNegligibleBytes = 1 << 20;

// Content of a small file of /proc or /sys; absent if it cannot be read.
std::optional<std::string> ReadSmallFile(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The value in bytes of a "Key:   123 kB" line; 0 if there is none.
uint64_t KilobytesLine(const std::string& text, const std::string& key) {
  const size_t at = text.find("\n" + key + ":");
  if (at == std::string::npos) return 0;
  return std::strtoull(text.c_str() + at + key.size() + 2, nullptr, 10) * 1024;
}

// utime + stime: fields 14 and 15 of /proc/PID/stat, counted from the end of field 2, a name that
// may hold anything.
double CpuSeconds(const std::string& stat) {
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return 0;
  const std::vector<std::string> fields = absl::StrSplit(stat.substr(name_end + 2), ' ');
  if (fields.size() < 13) return 0;
  return static_cast<double>(std::strtoull(fields[11].c_str(), nullptr, 10) +
                             std::strtoull(fields[12].c_str(), nullptr, 10)) /
         static_cast<double>(sysconf(_SC_CLK_TCK));
}

// The path of this process's cgroup below the mount point, for a v1 controller or v2 (empty
// controller).
std::optional<std::string> CgroupPath(const std::string& controller) {
  const auto text = ReadSmallFile("/proc/self/cgroup");
  const auto path = text.has_value() ? GroupPath(*text, controller) : std::nullopt;
  return path == "/" ? "" : path;
}

// A cgroup file of this process, or at the root of the mount, as containers often see it.
std::optional<std::string> ReadCgroupFile(const std::string& mount, const std::string& controller,
                                          const std::string& file) {
  const auto path = CgroupPath(controller);
  if (!path.has_value()) return std::nullopt;
  if (auto text = ReadSmallFile(absl::StrCat(mount, *path, "/", file))) return text;
  return ReadSmallFile(absl::StrCat(mount, "/", file));
}

// The lowest number in a file of this process's cgroup and of its visible ancestors: each group's
// limit covers all groups under it.
std::optional<uint64_t> LowestCgroupLimit(const std::string& mount, const std::string& controller,
                                          const std::string& file) {
  std::optional<uint64_t> lowest;
  for (std::string group = CgroupPath(controller).value_or("");; group.resize(group.rfind('/'))) {
    const auto text = ReadSmallFile(absl::StrCat(mount, group, "/", file));
    uint64_t bytes = 0;
    if (text.has_value() && absl::SimpleAtoi(*text, &bytes) && bytes > 0) {
      lowest = std::min(lowest.value_or(bytes), bytes);
    }
    if (group.empty()) return lowest;
  }
}

// CPU quota of the cgroup in CPUs; absent if unlimited.
std::optional<double> CgroupCpus() {
  if (const auto v2 = ReadCgroupFile("/sys/fs/cgroup", "", "cpu.max")) {
    std::istringstream text(*v2);
    std::string quota;
    double period = 0;
    if (text >> quota >> period && quota != "max" && period > 0) {
      return std::strtod(quota.c_str(), nullptr) / period;
    }
  }
  const auto quota = ReadCgroupFile("/sys/fs/cgroup/cpu", "cpu", "cpu.cfs_quota_us");
  const auto period = ReadCgroupFile("/sys/fs/cgroup/cpu", "cpu", "cpu.cfs_period_us");
  if (!quota.has_value() || !period.has_value()) return std::nullopt;
  const double quota_us = std::strtod(quota->c_str(), nullptr);
  const double period_us = std::strtod(period->c_str(), nullptr);
  if (quota_us <= 0 || period_us <= 0) return std::nullopt;
  return quota_us / period_us;
}

// Walks all memory of the process, and stalls it meanwhile.
uint64_t PrivateFileBytes(pid_t pid) {
  const auto rollup = ReadSmallFile(absl::StrCat("/proc/", pid, "/smaps_rollup"));
  return rollup.has_value() ? KilobytesLine(*rollup, "Private_Clean") : 0;
}

void SetPrivateFileBytes(uint64_t bytes, ProcessUsage& usage) {
  usage.private_file_bytes = bytes;
  usage.memory_bytes = usage.anonymous_bytes + bytes;
}

}  // namespace

absl::StatusOr<ProcessUsage> ReadProcessUsageFast(pid_t pid) {
  const std::string folder = absl::StrCat("/proc/", pid);
  const auto status = ReadSmallFile(folder + "/status");
  const auto stat = ReadSmallFile(folder + "/stat");
  if (!status.has_value() || !stat.has_value()) {
    return absl::NotFoundError(absl::StrCat("no process ", pid));
  }
  ProcessUsage usage;
  usage.anonymous_bytes = KilobytesLine(*status, "RssAnon");
  usage.file_bytes = KilobytesLine(*status, "RssFile");
  usage.data_bytes = KilobytesLine(*status, "VmData");
  usage.cpu_seconds = CpuSeconds(*stat);
  usage.memory_bytes = usage.anonymous_bytes;
  return usage;
}

absl::StatusOr<ProcessUsage> ReadProcessUsage(pid_t pid) {
  BULKHEAD_ASSIGN_OR_RETURN(ProcessUsage usage, ReadProcessUsageFast(pid));
  SetPrivateFileBytes(PrivateFileBytes(pid), usage);
  return usage;
}

absl::StatusOr<ProcessUsage> ReadProcessUsageSince(pid_t pid, const ProcessUsage& before) {
  BULKHEAD_ASSIGN_OR_RETURN(ProcessUsage usage, ReadProcessUsageFast(pid));
  const uint64_t change =
      std::max(usage.file_bytes, before.file_bytes) - std::min(usage.file_bytes, before.file_bytes);
  if (change > std::max(kNegligibleBytes, before.file_bytes / kNegligibleShare)) {
    SetPrivateFileBytes(PrivateFileBytes(pid), usage);
  } else {
    SetPrivateFileBytes(before.private_file_bytes, usage);
    usage.file_bytes = before.file_bytes;  // so that small changes add up
  }
  return usage;
}

absl::Status LowerLimit(int resource, uint64_t most, absl::string_view reading,
                        absl::string_view setting) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0) return SystemError(errno, reading);
  limit.rlim_max = std::min<rlim_t>(limit.rlim_max, most);
  limit.rlim_cur = limit.rlim_max;
  return setrlimit(resource, &limit) == 0 ? absl::OkStatus() : SystemError(errno, setting);
}

absl::Status LimitDataMemory(uint64_t bytes) {
  return LowerLimit(RLIMIT_DATA, bytes, "reading the data limit",
                    absl::StrCat("limiting private memory to ", bytes, " bytes"));
}

double AvailableCpuTime() {
  cpu_set_t set;
  double cpus = 1;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) cpus = CPU_COUNT(&set);
  if (const auto quota = CgroupCpus()) cpus = std::min(cpus, *quota);
  return cpus;
}

int AvailableCpus() { return std::max(static_cast<int>(std::ceil(AvailableCpuTime())), 1); }

namespace {

// Memory of the cgroup's processes without reclaimable file pages; 0: unknown.
uint64_t CgroupUsedBytes() {
  struct Names {
    const char* mount;
    const char* controller;
    const char* usage;
    const char* inactive_files;
  };
  for (const Names& names :
       {Names{"/sys/fs/cgroup", "", "memory.current", "inactive_file"},
        Names{"/sys/fs/cgroup/memory", "memory", "memory.usage_in_bytes", "total_inactive_file"}}) {
    const auto usage = ReadCgroupFile(names.mount, names.controller, names.usage);
    const auto stat = ReadCgroupFile(names.mount, names.controller, "memory.stat");
    uint64_t used = 0;
    if (!usage.has_value() || !stat.has_value() || !absl::SimpleAtoi(*usage, &used)) continue;
    std::istringstream lines(*stat);
    std::string name;
    uint64_t bytes = 0;
    while (lines >> name >> bytes) {
      if (name == names.inactive_files) return used - std::min(used, bytes);
    }
  }
  return 0;
}

}  // namespace

uint64_t AvailableMemoryBytes() {
  const uint64_t limit = MemoryLimitBytes();
  uint64_t available = limit - std::min(limit, CgroupUsedBytes());
  if (const auto meminfo = ReadSmallFile("/proc/meminfo")) {
    const uint64_t of_machine = KilobytesLine(*meminfo, "MemAvailable");
    if (of_machine > 0) available = std::min(available, of_machine);
  }
  return available;
}

uint64_t MemoryLimitBytes() {
  uint64_t limit =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  for (const auto& of_cgroup :
       {LowestCgroupLimit("/sys/fs/cgroup", "", "memory.max"),
        LowestCgroupLimit("/sys/fs/cgroup/memory", "memory", "memory.limit_in_bytes")}) {
    limit = std::min(limit, of_cgroup.value_or(limit));
  }
  return limit;
}

}  // namespace bulkhead
