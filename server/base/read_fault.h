#pragma once

#include <type_traits>

namespace bulkhead {

// Accesses to a mapped file can fault if the disk fails or the file was cut. The kernel then sends
// SIGBUS, which would end the process; here it ends only the access.

// Prepares the process for RunGuarded. Call it before starting other threads. The previous handler
// of SIGBUS stays in effect outside RunGuarded.
void CatchReadFaults();

// Runs `body(argument)`. False if an access faulted: `body` was then aborted at that point, without
// destructors. So while it accesses such memory it must hold no lock and own nothing.
bool RunGuarded(void (*body)(void*), void* argument);

// The same for a lambda: `if (!ReadGuarded([&] { sum = Crc32c(mapped); })) …`. Costs 10 ns.
template <typename Body>
bool ReadGuarded(Body body) {
  static_assert(std::is_trivially_destructible_v<Body>);
  return RunGuarded([](void* argument) { (*static_cast<Body*>(argument))(); }, &body);
}

}  // namespace bulkhead
