#include "server/base/read_fault.h"

#include <pthread.h>

#include <csetjmp>
#include <csignal>

namespace bulkhead {
namespace {

// The thread's sigjmp_buf to continue at after a fault; null outside RunGuarded. Not thread_local:
// that could be initialized on first use, inside the signal handler, or use up the room for
// libraries loaded late.
pthread_key_t ResumeKey() {
  static const pthread_key_t key = [] {
    pthread_key_t made{};
    pthread_key_create(&made, nullptr);
    return made;
  }();
  return key;
}

struct sigaction previous;

void OnBusError(int signal, siginfo_t*, void*) {
  if (void* const target = pthread_getspecific(ResumeKey()); target != nullptr) {
    siglongjmp(*static_cast<sigjmp_buf*>(target), 1);
  }
  // Not our fault: act as if this handler were not installed.
  sigaction(signal, &previous, nullptr);
  raise(signal);
}

}  // namespace

void CatchReadFaults() {
  ResumeKey();
  struct sigaction action = {};
  sigaction(SIGBUS, nullptr, &action);
  if (action.sa_sigaction == OnBusError) return;
  action = {};
  action.sa_sigaction = OnBusError;
  // Jumping out of the handler does not unblock the signal, so it must not be blocked.
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  sigaction(SIGBUS, &action, &previous);
}

bool RunGuarded(void (*body)(void*), void* argument) {
  sigjmp_buf here;
  if (sigsetjmp(here, /*savemask=*/0) != 0) {
    pthread_setspecific(ResumeKey(), nullptr);
    return false;
  }
  pthread_setspecific(ResumeKey(), &here);
  body(argument);
  pthread_setspecific(ResumeKey(), nullptr);
  return true;
}

}  // namespace bulkhead
