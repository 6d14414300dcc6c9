#ifndef BULKHEAD_CLIENT_CPP_INTERNAL_FLEET_KEEPERS_H_
#define BULKHEAD_CLIENT_CPP_INTERNAL_FLEET_KEEPERS_H_

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/cpp/internal/base/steady.h"
#include "client/cpp/internal/fleet/member.h"
#include "client/cpp/internal/fleet/replicas.h"
#include "client/cpp/internal/stream/stream_config.h"

namespace bulkhead::client_internal {

// What keepers tell of their work. "With the mutex": it is held.
class Fleet {
 public:
  virtual ~Fleet() = default;
  // With the mutex: how to open the member's stream.
  virtual StreamConfig ConfigFor(Member* member) = 0;
  // With the mutex: the member's stream is open. An error keeps it out; CANCELLED: it is to be
  // opened again at once.
  virtual absl::Status Admit(const std::shared_ptr<Member>& member) = 0;
  // With the mutex: the member is no longer one of the replicas.
  virtual void Dismiss(Member* member, const absl::Status& error) = 0;
  // With the mutex: there are more or fewer replicas.
  virtual void NoteCount() = 0;
  // An attempt to open the member has failed.
  virtual void NoteAway(Member* member, const absl::Status& error) = 0;
  // A replica gets on with preparing.
  virtual void NoteProgress(const LoaderProgress& progress) = 0;
  // A warning for the program's log; it is told without the mutex.
  virtual void Say(const std::string& text) = 0;
  virtual void Tell() = 0;
};

// A thread for each replica, which opens its stream, again when it was lost; and one that looks for
// other replicas. The mutex is the fleet's and guards the members.
class Keepers {
 public:
  Keepers(Fleet* fleet, absl::Mutex* mutex, Replicas replicas, absl::Duration patience)
      : fleet_(fleet), mutex_(mutex), replicas_(std::move(replicas)), patience_(patience) {}
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
  // Adds replicas that are new, and drops those that are gone.
  void GoBy(const std::vector<Replica>& replicas);
  // The thread of a member's keeper.
  void Keep(const std::shared_ptr<Member>& member);
  // Waits until the member is to be opened. False: not any more.
  bool AwaitTurn(const std::shared_ptr<Member>& member);
  absl::Status Try(const std::shared_ptr<Member>& member);
  bool IsOver(const Member& member) const;

  Fleet* const fleet_;
  absl::Mutex* const mutex_;
  Replicas replicas_;  // of the watcher, once it runs
  const absl::Duration patience_;
  Signal moved_;
  bool closed_ = false;
  uint64_t next_id_ = 0;
  std::vector<std::shared_ptr<Member>> members_;
  std::list<std::thread> threads_;
};

}  // namespace bulkhead::client_internal

#endif  // BULKHEAD_CLIENT_CPP_INTERNAL_FLEET_KEEPERS_H_
