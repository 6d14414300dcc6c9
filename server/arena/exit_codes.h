#ifndef BULKHEAD_SERVER_ARENA_EXIT_CODES_H_
#define BULKHEAD_SERVER_ARENA_EXIT_CODES_H_

namespace bulkhead {

// Exit codes of bulkhead-worker beside 0, agreed between both sides of the process wall.
inline constexpr int kExitOutOfMemory = 70;  // an allocation was refused
inline constexpr int kExitProtocol = 71;  // the supervisor is gone, or what it sent makes no sense

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_ARENA_EXIT_CODES_H_
