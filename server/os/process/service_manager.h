#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace bulkhead {

// What started this process and wants to know how it is: systemd, for units of Type=notify
// (sd_notify(3)). Does nothing without a service manager. Thread-safe.
class ServiceManager {
 public:
  ServiceManager() = default;
  // Reads NOTIFY_SOCKET, and takes it from the environment: it is not for child processes. Call it
  // before other threads run.
  static ServiceManager FromEnvironment();

  // It serves.
  void TellReady(absl::string_view status) const;
  // It reads its options again; TellReady follows.
  void TellReloading() const;
  void TellStopping() const;

 private:
  explicit ServiceManager(std::string address) : address_(std::move(address)) {}

  // One datagram. Does not wait: if the manager does not listen, the datagram is lost.
  void Tell(const std::string& state) const;

  std::string address_;  // a path, or "@" and an abstract name; empty: nothing asked
};

}  // namespace bulkhead
