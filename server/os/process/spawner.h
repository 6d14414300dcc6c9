#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/os/process/child_process.h"

namespace bulkhead {

// Starts child processes for a thread that must not wait for the storage of their programs: exec
// returns only when that answers. Threads of its own do it. A child dies with the thread that
// spawned it, so these threads live as long as this object. It is used by one thread.
class Spawner {
 public:
  using SpawnFn = std::function<absl::StatusOr<ChildProcess>(const SpawnSpec&)>;

  // Starts that hang at a time, each in a thread.
  static constexpr size_t kMostThreads = 4;

  explicit Spawner(absl::Duration patience = absl::Seconds(2), SpawnFn spawn = ChildProcess::Spawn);
  // Ends the children, but none whose start hangs.
  ~Spawner();
  Spawner(const Spawner&) = delete;
  Spawner& operator=(const Spawner&) = delete;

  // Like ChildProcess::Spawn, but waits at most `patience`, and not at all while an earlier start
  // of the same program hangs. Then the error is UNAVAILABLE and names the program, and a process
  // that starts after all is killed.
  absl::StatusOr<ChildProcess> Spawn(const SpawnSpec& spec);

 private:
  struct Seat;

  static void Work(Seat& seat, const SpawnFn& spawn);
  // A thread that does nothing.
  absl::StatusOr<std::shared_ptr<Seat>> FreeSeat();

  const absl::Duration patience_;
  const SpawnFn spawn_;
  std::vector<std::shared_ptr<Seat>> seats_;
};

}  // namespace bulkhead
