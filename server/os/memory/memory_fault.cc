#include "server/os/memory/memory_fault.h"

#include <ucontext.h>

#include <csignal>

namespace bulkhead {
namespace {

// Written before the handler is installed; only the handler reads it.
void (*note_fault)(const MemoryFault&) = nullptr;
struct sigaction action_before {};

MemoryFault::Access AccessOf(const void* context) {
#if defined(__x86_64__)
  constexpr greg_t kWrite = 2;
  const auto* const machine = &static_cast<const ucontext_t*>(context)->uc_mcontext;
  return (machine->gregs[REG_ERR] & kWrite) != 0 ? MemoryFault::Access::kWrite
                                                 : MemoryFault::Access::kRead;
#else
  (void)context;
  return MemoryFault::Access::kUnknown;
#endif
}

void OnSegv(int, siginfo_t* info, void* context) {
  // A signal sent by a process has no address.
  if (info->si_code == SEGV_ACCERR) {
    note_fault({reinterpret_cast<uintptr_t>(info->si_addr), AccessOf(context)});
  }
  // On return the access faults again; a signal sent by a process must be raised again.
  sigaction(SIGSEGV, &action_before, nullptr);
  if (info->si_code <= 0) raise(SIGSEGV);
}

}  // namespace

void NoteMemoryFaults(void (*note)(const MemoryFault& fault)) {
  note_fault = note;
  sigaction(SIGSEGV, nullptr, &action_before);
  struct sigaction action {};
  action.sa_sigaction = &OnSegv;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &action, nullptr);
}

}  // namespace bulkhead
