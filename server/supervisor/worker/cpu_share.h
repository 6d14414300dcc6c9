#pragma once

#include <cstdint>

#include "server/os/process/thread_priority.h"

namespace bulkhead {

// Limits one worker to its share of the CPUs, which is that of its decode threads. The kernel
// shares CPU time among threads, so a library that runs threads of its own would take time from the
// trainer and other workers. While more threads want to run than the worker has decode threads, all
// its threads are made nicer, so that together they weigh as much as the decode threads alone. This
// costs nothing while the CPUs are otherwise idle.
//
// Lives on the supervisor's thread.
class CpuShare {
 public:
  explicit CpuShare(uint32_t decode_threads) : decode_threads_(decode_threads) {}

  // Checks the `threads` threads of the worker `pid`, at most every 200 ms, and sets their
  // priority. Call it often.
  void Watch(pid_t pid, uint64_t threads, int64_t now_ns);

  // The priority (server/os/process/thread_priority.h) at which `runnable` threads weigh as much as
  // `decode_threads` of priority 0.
  static int PriorityOf(double runnable, uint32_t decode_threads);

 private:
  const uint32_t decode_threads_;
  int64_t looked_ns_ = 0;
  double runnable_ = 0;        // a mean that rises faster than it falls
  int priority_ = 0;           // the priority that was set
  bool may_take_back_ = true;  // the service may lower nice values; found by trying
};

}  // namespace bulkhead
