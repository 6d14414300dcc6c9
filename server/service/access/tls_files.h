#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/os/files/io_thread.h"

namespace bulkhead {

// The files by which service and clients authenticate each other, read again when they change.
//
// Read ─▶ current … Refresh ─▶ current (the new content, or the last valid one) …
//
// While a file is half written, or a key does not fit its certificate yet, the last valid content
// stays in use, so files need not be replaced all at once. Thread-safe.
class TlsFiles {
 public:
  // Of each file its path, or what is in it.
  struct Files {
    std::string certificate;  // PEM; the service's own first, then those that signed it
    std::string key;          // PEM
    std::string client_ca;    // PEM; signs clients' certificates. Empty: clients need none
    std::string token;        // one line, the same in the clients' file. Empty: there is none
    bool operator==(const Files&) const = default;
  };
  using Paths = Files;
  using Content = Files;  // the token without surrounding spaces

  // A shorter token could be guessed.
  static constexpr size_t kFewestTokenBytes = 16;

  // Blocks for the disk. INVALID_ARGUMENT names the option, the file, and what is wrong with it.
  static absl::StatusOr<std::shared_ptr<TlsFiles>> Read(const Paths& paths);

  const Paths& paths() const { return paths_; }
  std::shared_ptr<const Content> current() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Reads the files again. Logs a change, and each problem once; returns the problem, as Read does.
  // Blocks for the disk.
  absl::Status Refresh() ABSL_LOCKS_EXCLUDED(mutex_);
  // The same on `io`, unless `io` still waits for the disk.
  static void RefreshSoon(const std::shared_ptr<TlsFiles>& files, IoThread& io);

 private:
  TlsFiles(Paths paths, Content content)
      : paths_(std::move(paths)), content_(std::make_shared<const Content>(std::move(content))) {}

  const Paths paths_;
  std::atomic<bool> refreshing_{false};
  mutable absl::Mutex mutex_;
  std::shared_ptr<const Content> content_ ABSL_GUARDED_BY(mutex_);
  std::string told_ ABSL_GUARDED_BY(mutex_);  // the current problem with the files; empty: none
};

}  // namespace bulkhead
