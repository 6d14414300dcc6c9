#pragma once

namespace bulkhead {

// From now on calls `note` once, before the first SIGSEGV, SIGABRT, SIGFPE or SIGILL takes effect,
// in a signal handler of the thread that it hit: `note` may take no locks and allocate nothing.
// Then the handler that was there before is in effect again. Call it once.
void NoteCrashes(void (*note)());

}  // namespace bulkhead
