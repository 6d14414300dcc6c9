#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/cpp/internal/base/steady.h"
#include "client/cpp/internal/fleet/member.h"
#include "client/cpp/internal/fleet/replicas.h"

namespace bulkhead::client_internal {

class FleetStream;

// A thread for each replica, which opens its stream, again when it was lost; and one that looks for
// other replicas. Tells the fleet of its work; "the mutex" is the fleet's, and guards the members.
class Keepers {
 public:
  Keepers(FleetStream* fleet, Replicas replicas, absl::Duration patience)
      : fleet_(fleet), replicas_(std::move(replicas)), patience_(patience) {}
  ~Keepers() { Close(); }

  // RESOURCE_EXHAUSTED (OUT_OF_THREADS).
  absl::Status Start();
  // With the mutex: a member is away.
  void Wake() { moved_.Notify(); }
  // With the mutex.
  const std::vector<std::shared_ptr<Member>>& members() const { return members_; }
  // Ends all streams and threads. Without the mutex.
  void Close();

 private:
  absl::Status Add(const Replica& replica);
  // The watcher's thread.
  void Watch();
  // With the mutex: adds replicas that are new, and drops those that are gone.
  void GoBy(const std::vector<Replica>& replicas);
  // The thread of a member's keeper.
  void Keep(const std::shared_ptr<Member>& member);
  // Waits until the member is to be opened. False: not any more.
  bool AwaitTurn(const std::shared_ptr<Member>& member);
  absl::Status Try(const std::shared_ptr<Member>& member);
  bool IsOver(const Member& member) const;

  FleetStream* const fleet_;
  Replicas replicas_;  // of the watcher, once it runs
  const absl::Duration patience_;
  Signal moved_;
  bool closed_ = false;
  uint64_t next_id_ = 0;
  std::vector<std::shared_ptr<Member>> members_;
  std::list<std::thread> threads_;
};

}  // namespace bulkhead::client_internal
