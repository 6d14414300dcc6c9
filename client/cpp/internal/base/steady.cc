#include "client/cpp/internal/base/steady.h"

namespace bulkhead::client_internal {
namespace {

// Far enough for any wait, near enough that no clock overflows.
constexpr absl::Duration kLongestWait = absl::Hours(24);

struct Lockable {
  absl::Mutex* mutex;
  void lock() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex->Lock(); }
  void unlock() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex->Unlock(); }
};

}  // namespace

std::string SecondsText(absl::Duration time) {
  return absl::FormatDuration(absl::Trunc(time, absl::Milliseconds(1)));
}

void Signal::Wait(absl::Mutex* mutex, absl::Duration longest) {
  Lockable lockable{mutex};
  condition_.wait_for(lockable, absl::ToChronoNanoseconds(std::min(longest, kLongestWait)));
}

}  // namespace bulkhead::client_internal
