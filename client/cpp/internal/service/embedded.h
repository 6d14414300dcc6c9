#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "bulkhead/loader.h"

namespace bulkhead::client_internal {

// The service program by EmbeddedOptions::program's rules; NOT_FOUND (SERVICE_NOT_FOUND).
absl::StatusOr<std::string> FindServiceProgram(const EmbeddedOptions& options);

// A service that this process started for itself.
//
//   Acquire ──spawn──▶ starting ──"ready"──▶ serving ──last holder gone──▶ TERM … KILL, reaped
//
// It listens on a socket in a folder that only this user can enter; its standard error is read by a
// thread that keeps the end of it for error messages. Loaders with equal options share one; one
// that died is replaced by the next Acquire. At exit those still running are ended. A forked
// child leaves its parent's services alone. A trainer that ignores SIGCHLD, or reaps all children
// itself, only costs the words about how a service ended. Thread-safe.
class EmbeddedService {
 public:
  // `cancelled` is called repeatedly while a service starts. When it returns true, the service is
  // ended and the error is LOADER_CLOSED.
  static absl::StatusOr<std::shared_ptr<EmbeddedService>> Acquire(
      const EmbeddedOptions& options, absl::Duration deadline,
      const std::function<bool()>& cancelled = [] { return false; });
  ~EmbeddedService();

  const std::string& target() const { return target_; }
  pid_t pid() const { return pid_; }
  // The path of its log, which survives it; empty: it keeps none.
  const std::string& log() const { return log_; }
  // How it ended and the end of its standard error; empty while it runs. Waits a moment for the
  // kernel to report the end.
  std::string PostMortem();
  bool Alive();
  // Kills a service that does not answer; the next Acquire starts another.
  void Kill();
  // Ends it: TERM, after a grace KILL; reaps it and removes its folder. May be called twice.
  void Stop();

 private:
  EmbeddedService() = default;
  static absl::StatusOr<std::shared_ptr<EmbeddedService>> Spawn(
      const std::string& program, const EmbeddedOptions& options, absl::Duration deadline,
      const std::function<bool()>& cancelled);
  absl::Status MakeFolder();
  absl::Status Launch(const std::string& program, const EmbeddedOptions& options, int* ready_fd);
  absl::Status AwaitReady(int ready_fd, absl::Duration deadline,
                          const std::function<bool()>& cancelled);
  void KeepLastWords();
  // Takes what it has said by now; false when it says no more.
  bool TakeWords();
  // Whether it has ended by now, or within `patience`.
  bool Reap(absl::Duration patience);
  std::string Describe();

  pid_t owner_ = 0;  // the process that spawned it
  pid_t pid_ = -1;
  int pidfd_ = -1;
  std::string folder_;
  std::string target_;
  std::string log_;
  int stderr_fd_ = -1;
  int stop_fd_ = -1;  // an eventfd that ends the thread
  std::thread stderr_thread_;
  std::mutex mutex_;  // guards the rest
  bool reaped_ = false;
  std::optional<int> wait_status_;  // absent if other code reaped it
  std::string last_words_;
};

}  // namespace bulkhead::client_internal
