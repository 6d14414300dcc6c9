#pragma once

namespace bulkhead {

// Nonzero exit codes of bulkhead-worker, known to worker and supervisor.
inline constexpr int kExitOutOfMemory = 70;  // an allocation was refused
inline constexpr int kExitProtocol = 71;     // the supervisor is gone, or sent an invalid message

}  // namespace bulkhead
