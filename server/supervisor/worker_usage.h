#ifndef BULKHEAD_SERVER_SUPERVISOR_WORKER_USAGE_H_
#define BULKHEAD_SERVER_SUPERVISOR_WORKER_USAGE_H_

#include <cstdint>
#include <string>

#include "bulkhead/v1/loader.pb.h"
#include "server/supervisor/worker_process.h"

namespace bulkhead {

// The record of an exit, without the place (slot, generation) that the process had.
v1::WorkerExit MakeWorkerExit(pid_t pid, const ProcessExit& exit, const std::string& reason,
                              uint64_t peak_memory_bytes);

// Fills in what a living process is and uses: pid, state, memory, CPU. `peak_memory_bytes` is
// raised to what is seen.
void FillWorkerProcess(const WorkerProcess& process, uint32_t leases, uint64_t& peak_memory_bytes,
                       v1::WorkerStatus& status);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SUPERVISOR_WORKER_USAGE_H_
