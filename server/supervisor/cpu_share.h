#ifndef BULKHEAD_SERVER_SUPERVISOR_CPU_SHARE_H_
#define BULKHEAD_SERVER_SUPERVISOR_CPU_SHARE_H_

#include <cstdint>

#include "server/os/process/thread_priority.h"

namespace bulkhead {

// One worker's share of the CPUs: as much as its decode threads would take. The kernel shares CPU
// time out among threads; so a worker in which libraries run threads of their own would take it
// from the workers of other pipelines, and from the trainer. Whenever more threads of a worker want
// to run than it has decode threads, all of them are made nice, by so much that together they weigh
// as much as the decode threads alone. Where nobody else wants the CPUs, that costs them nothing.
//
// Lives on the supervisor's thread.
class CpuShare {
 public:
  explicit CpuShare(uint32_t decode_threads) : decode_threads_(decode_threads) {}

  // Looks at the threads of the worker `pid`, which has `threads` of them, at most every 200 ms,
  // and sets their priority. To be called now and then while the worker lives.
  void Watch(pid_t pid, uint64_t threads, int64_t now_ns);

  // The priority (server/os/process/thread_priority.h) at which that many threads weigh as much as
  // `decode_threads` of priority 0.
  static int PriorityOf(double runnable, uint32_t decode_threads);

 private:
  const uint32_t decode_threads_;
  int64_t looked_ns_ = 0;
  double runnable_ = 0;        // a mean, that rises faster than it falls
  int priority_ = 0;           // that was set
  bool may_take_back_ = true;  // this service has the right to; found out by trying
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SUPERVISOR_CPU_SHARE_H_
