#ifndef BULKHEAD_SERVER_SERVICE_LIMITS_PEERS_H_
#define BULKHEAD_SERVER_SERVICE_LIMITS_PEERS_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace bulkhead {

// Identifies clients without names (AccessRights): by their process on a Unix socket, by their host
// on TCP. Thread-safe.
class Peers {
 public:
  // Notes a new connection over a Unix socket, before gRPC gets its descriptor. The note stays
  // until another connection has the same descriptor.
  void Connected(int fd, int process) ABSL_LOCKS_EXCLUDED(mutex_);

  // "process 17" or "ipv4:10.0.0.7", of a peer as gRPC names it ("fd:12", "ipv4:10.0.0.7:4321").
  std::string ClientOf(const std::string& peer) const ABSL_LOCKS_EXCLUDED(mutex_);
  // The process, as this host numbers it; 0: it is on another host, or not visible here.
  int ProcessOf(const std::string& peer) const ABSL_LOCKS_EXCLUDED(mutex_);
  // A name that no other connection has or had.
  std::string ConnectionOf(const std::string& peer) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Connection {
    int process = 0;  // its id
    uint64_t number = 0;
  };

  // Null if the connection is not over a Unix socket.
  const Connection* Find(const std::string& peer) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<int, Connection> connections_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SERVICE_LIMITS_PEERS_H_
