#pragma once

#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "server/worker/allocation_tracker.h"
#include "server/worker/flight_notes.h"

namespace bulkhead {

inline constexpr uint32_t kStage = 2;
inline constexpr uint32_t kOther = 3;
inline constexpr int64_t kMiB = int64_t{1} << 20;

// Lives as long as the process: its counters are malloc's.
inline const FlightRecorder& Recorder() {
  static const FlightRecorder& recorder = *[] {
    auto* const made = new FlightRecorder(FlightRecorder::Create(2).value());
    made->SetStages(std::vector<std::string>{"worker", "source", "a", "b"});
    AllocationTracker::Start().Attach(*made, true);
    return made;
  }();
  return recorder;
}

struct Live {
  int64_t bytes = 0;
  int64_t blocks = 0;
  bool operator==(const Live& other) const {
    return bytes == other.bytes && blocks == other.blocks;
  }
};
inline std::ostream& operator<<(std::ostream& out, const Live& live) {
  return out << live.blocks << " blocks of " << live.bytes << " bytes";
}

inline Live LiveIn(uint32_t stage) {
  Live live;
  for (const FlightThread* shard :
       {&Recorder().shared(), &Recorder().thread(0), &Recorder().thread(1)}) {
    live.bytes += shard->counters[stage].live_bytes;
    live.blocks += shard->counters[stage].live_blocks;
  }
  return live;
}

// How often `stage` has allocated so far.
inline uint64_t AllocationsIn(uint32_t stage) {
  return Recorder().shared().counters[stage].allocations +
         Recorder().thread(0).counters[stage].allocations +
         Recorder().thread(1).counters[stage].allocations;
}

// Runs `work` on decode thread `thread` as part of `stage`.
inline void RunIn(uint32_t stage, const std::function<void()>& work, uint32_t thread = 0) {
  const FlightRecorder& recorder = Recorder();
  std::thread([&] {
    FlightNotes notes(recorder, thread);
    notes.BeginSample({});
    notes.Enter(stage);
    work();
    notes.Enter(StageObserver::kOutside);
    notes.EndSample();
  }).join();
}

// What `work` leaves behind in the stage that it runs in.
inline Live LeftBy(const std::function<void()>& work) {
  const Live before = LiveIn(kStage);
  RunIn(kStage, work);
  const Live after = LiveIn(kStage);
  return {after.bytes - before.bytes, after.blocks - before.blocks};
}

// Counted with what glibc rounds it up to, the tag included.
inline Live SizeOf(void* block) { return {static_cast<int64_t>(malloc_usable_size(block)) + 8, 1}; }

inline void* MapPages(size_t bytes, int protection = PROT_READ | PROT_WRITE,
                      int flags = MAP_PRIVATE | MAP_ANONYMOUS) {
  void* const mapped = mmap(nullptr, bytes, protection, flags, -1, 0);
  EXPECT_NE(mapped, MAP_FAILED);
  return mapped;
}

// Runs `work` in stage kStage of a child process with a recorder of its own; returns how the child
// ended and what its recorder says then.
struct Ended {
  int status = 0;
  FlightSnapshot recorder;
};
inline Ended RunInChild(const std::function<void(AllocationTracker&)>& prepare,
                        const std::function<void()>& work, bool attribution = true) {
  Recorder();
  const FlightRecorder recorder = FlightRecorder::Create(2).value();
  recorder.SetStages(std::vector<std::string>{"worker", "source", "a", "b"});
  const pid_t child = fork();
  if (child == 0) {
    AllocationTracker& tracker = AllocationTracker::Start();
    tracker.Attach(recorder, true);
    if (!attribution) tracker.Attach(recorder, false);
    std::thread([&] {
      FlightNotes notes(recorder, 1);
      notes.BeginSample({});
      notes.Enter(kStage);
      prepare(tracker);
      work();
      _exit(17);
    }).join();
  }
  Ended ended;
  EXPECT_EQ(waitpid(child, &ended.status, 0), child);
  ended.recorder = recorder.Snapshot();
  return ended;
}

}  // namespace bulkhead
