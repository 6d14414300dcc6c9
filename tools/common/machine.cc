#include "tools/common/machine.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <iterator>
#include <sstream>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace bulkhead::tools {
namespace {

std::string ReadAll(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::string CpuModel() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) == 0 && line.find(':') != std::string::npos) {
      return std::string(absl::StripAsciiWhitespace(line.substr(line.find(':') + 1)));
    }
  }
  return "unknown";
}

}  // namespace

int UsableCpus() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

JsonObject DescribeMachine() {
  return JsonObject().Add("cpu", CpuModel()).Add("cores", UsableCpus());
}

std::string CommandLine() {
  std::string line;
  std::vector<std::string> words = absl::StrSplit(ReadAll("/proc/self/cmdline"), '\0');
  words.pop_back();  // behind the last terminator
  for (const std::string& word : words) {
    const bool quote = word.empty() || word.find(' ') != std::string::npos;
    absl::StrAppend(&line, line.empty() ? "" : " ", quote ? "'" : "", word, quote ? "'" : "");
  }
  return line;
}

absl::Duration ProcessAge() {
  // proc(5): starttime is field 22; counting starts behind the name, which may hold anything.
  const std::string stat = ReadAll("/proc/self/stat");
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return absl::ZeroDuration();
  const std::vector<std::string> fields =
      absl::StrSplit(stat.substr(name_end + 1), ' ', absl::SkipEmpty());
  uint64_t start_ticks = 0;
  if (fields.size() < 20 || !absl::SimpleAtoi(fields[19], &start_ticks)) {
    return absl::ZeroDuration();
  }
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  const double started = static_cast<double>(start_ticks) / sysconf(_SC_CLK_TCK);
  return std::max(absl::ZeroDuration(), absl::DurationFromTimespec(now) - absl::Seconds(started));
}

double OwnCpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return absl::ToDoubleSeconds(absl::DurationFromTimeval(usage.ru_utime) +
                               absl::DurationFromTimeval(usage.ru_stime));
}

uint64_t OwnMemoryBytes() {
  // Private_Dirty and Private_Clean are what would be freed if this process ended.
  uint64_t kib = 0;
  std::istringstream file(ReadAll("/proc/self/smaps_rollup"));
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    uint64_t value = 0;
    if (words.size() >= 2 && (words[0] == "Private_Clean:" || words[0] == "Private_Dirty:") &&
        absl::SimpleAtoi(words[1], &value)) {
      kib += value;
    }
  }
  return kib * 1024;
}

}  // namespace bulkhead::tools
