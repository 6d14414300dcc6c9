#include "client/cpp/internal/stream/incarnation.h"

#include <time.h>

#include <algorithm>
#include <fstream>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"

namespace bulkhead::client_internal {
namespace {

constexpr char kBootIdFile[] = "/proc/sys/kernel/random/boot_id";
constexpr size_t kBootIdDigits = 32;

// 16 bytes; empty when it cannot be read.
std::string MachineBoot() {
  std::string text;
  std::ifstream(kBootIdFile) >> text;
  const std::string digits = absl::StrReplaceAll(text, {{"-", ""}});
  const bool is_id = digits.size() == kBootIdDigits &&
                     std::all_of(digits.begin(), digits.end(), absl::ascii_isxdigit);
  return is_id ? absl::HexStringToBytes(digits) : "";
}

}  // namespace

Incarnation Incarnation::Now() {
  Incarnation now;
  now.wall_ns = static_cast<uint64_t>(std::max<int64_t>(absl::GetCurrentTimeNanos(), 0));
  timespec since_boot{};
  if (clock_gettime(CLOCK_BOOTTIME, &since_boot) != 0) return now;
  now.machine_boot = MachineBoot();
  now.since_boot_ns =
      static_cast<uint64_t>(absl::ToInt64Nanoseconds(absl::DurationFromTimespec(since_boot)));
  return now;
}

Incarnation Incarnations::Next(Incarnation now) {
  absl::MutexLock lock(&mutex_);
  now.wall_ns = last_wall_ns_ = std::max(last_wall_ns_ + 1, now.wall_ns);
  if (now.machine_boot.empty()) {
    now.since_boot_ns = 0;
  } else {
    now.since_boot_ns = last_since_boot_ns_ = std::max(last_since_boot_ns_ + 1, now.since_boot_ns);
  }
  return now;
}

}  // namespace bulkhead::client_internal
