#ifndef BULKHEAD_SERVER_ARENA_EXIT_CODES_H_
#define BULKHEAD_SERVER_ARENA_EXIT_CODES_H_

namespace bulkhead {

// Nonzero exit codes of bulkhead-worker, known to worker and supervisor.
inline constexpr int kExitOutOfMemory = 70;  // an allocation was refused
inline constexpr int kExitProtocol = 71;     // the supervisor is gone, or sent an invalid message

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_ARENA_EXIT_CODES_H_
