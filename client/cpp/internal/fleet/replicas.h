#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace bulkhead::client_internal {

// One service of several.
struct Replica {
  std::string target;
  std::string authority;  // the name that its certificate has; empty: the target's

  bool operator<(const Replica& other) const {
    return std::tie(target, authority) < std::tie(other.target, other.authority);
  }
  bool operator==(const Replica& other) const {
    return target == other.target && authority == other.authority;
  }
};

// The targets that `address` names, if it may name several services: targets separated by commas,
// or "dns:///name:port". Else empty.
std::vector<std::string> FleetTargets(const std::string& address);

// Where the replicas of a service are. They may come and go. Used by one thread at a time. Its twin
// is client/python/bulkhead/_fleet/replicas.py.
class Replicas {
 public:
  // `targets` of FleetTargets. `path`: the target file that names them, which is read again when it
  // changes; or empty. UNAVAILABLE (SERVICE_UNAVAILABLE) for a name without addresses.
  static absl::StatusOr<Replicas> Make(std::vector<std::string> targets, const std::string& path);

  const std::vector<Replica>& found() const { return found_; }
  // How long until Look may find others; zero: they do not change.
  absl::Duration look_every() const;
  // Looks again. What cannot be read or resolved leaves them as they are; `warn` is told.
  void Look(const std::function<void(const std::string&)>& warn);

 private:
  using Stamp = std::tuple<uint64_t, int64_t, int64_t, int64_t>;

  Replicas(std::vector<std::string> targets, std::string path);
  Stamp StampOfFile() const;

  std::vector<std::string> targets_;
  std::string path_;
  Stamp stamp_;  // of what was read last; none at first, as the file may have changed meanwhile
  std::vector<Replica> found_;
};

}  // namespace bulkhead::client_internal
