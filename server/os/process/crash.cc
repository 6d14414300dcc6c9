#include "server/os/process/crash.h"

#include <array>
#include <atomic>
#include <csignal>

namespace bulkhead {
namespace {

constexpr std::array<int, 4> kSignals = {SIGSEGV, SIGABRT, SIGFPE, SIGILL};

// Written before the handlers are installed.
void (*note_crash)() = nullptr;
std::array<struct sigaction, kSignals.size()> actions_before{};

void OnCrash(int signal, siginfo_t* info, void*) {
  static std::atomic_flag noted;
  if (!noted.test_and_set()) note_crash();
  for (size_t i = 0; i < kSignals.size(); ++i) {
    if (kSignals[i] == signal) sigaction(signal, &actions_before[i], nullptr);
  }
  // On return a fault happens again; a signal that was sent must be raised again.
  if (info->si_code <= 0) raise(signal);
}

}  // namespace

void NoteCrashes(void (*note)()) {
  note_crash = note;
  struct sigaction action {};
  action.sa_sigaction = &OnCrash;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &actions_before[i]);
}

}  // namespace bulkhead
