#include "server/base/read_fault.h"

#include <csetjmp>
#include <csignal>

namespace bulkhead {
namespace {

// Where this thread goes on after a fault; null outside of RunGuarded. Read by a signal handler, so
// it must not be made at its first use.
thread_local constinit sigjmp_buf* volatile resume __attribute__((tls_model("initial-exec"))) =
    nullptr;

struct sigaction previous;

void OnBusError(int signal, siginfo_t*, void*) {
  if (resume != nullptr) {
    sigjmp_buf* const target = resume;
    resume = nullptr;
    siglongjmp(*target, 1);
  }
  // Somebody else's: as if this handler were not here.
  sigaction(signal, &previous, nullptr);
  raise(signal);
}

}  // namespace

void CatchReadFaults() {
  struct sigaction action = {};
  action.sa_sigaction = OnBusError;
  // Leaving the handler by a jump does not unblock the signal, so it is not blocked.
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  sigaction(SIGBUS, &action, &previous);
}

bool RunGuarded(void (*body)(void*), void* argument) {
  sigjmp_buf here;
  if (sigsetjmp(here, /*savemask=*/0) != 0) return false;
  resume = &here;
  body(argument);
  resume = nullptr;
  return true;
}

}  // namespace bulkhead
