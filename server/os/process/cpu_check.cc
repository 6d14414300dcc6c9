// Ends a program on a CPU that lacks what it was compiled for: with a sentence, where the first
// such instruction would end it with SIGILL. Part of each program that users run; it runs before
// main and before the program's own static objects are made.
#include <unistd.h>

namespace {

__attribute__((constructor(101))) void CheckCpu() {
#ifdef __x86_64__
  __builtin_cpu_init();
  // The newest of what x86-64-v2 asks for: who has SSE 4.2 has the others.
  if (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt")) return;
  static constexpr char kSentence[] =
      "bulkhead: this CPU is too old: it has no SSE 4.2 (x86-64-v2, CPUs from 2009 on), which this "
      "program needs. In a virtual machine, choose a newer CPU model for it\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kSentence, sizeof(kSentence) - 1);
  _exit(1);
#endif
}

}  // namespace
