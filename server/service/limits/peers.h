#ifndef BULKHEAD_SERVER_SERVICE_LIMITS_PEERS_H_
#define BULKHEAD_SERVER_SERVICE_LIMITS_PEERS_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/base/rate_limit.h"

namespace bulkhead {

// Identifies clients without names (AccessRights): by their process on a Unix socket, by their host
// on TCP. Thread-safe.
class Peers {
 public:
  // Between looks, and more for each connection.
  static constexpr int64_t kLookNanos = 10'000'000;
  static constexpr int64_t kLookNanosOfOne = 20'000;
  // From so much a second on a connection counts as loud; trainers send some hundred bytes a batch.
  static constexpr double kLoudBytesPerSecond = 64 << 10;
  static constexpr uint64_t kLoudBytes = 4 << 10;  // and since the last look

  // Notes a new connection over a Unix socket, before gRPC gets its descriptor. The note stays
  // until another connection has the same descriptor.
  void Connected(int fd, int process) ABSL_LOCKS_EXCLUDED(mutex_);
  // The same over TCP.
  void Connected(int fd) ABSL_LOCKS_EXCLUDED(mutex_);

  // "process 17" or "ipv4:10.0.0.7", of a peer as gRPC names it ("fd:12", "ipv4:10.0.0.7:4321").
  std::string ClientOf(const std::string& peer) const ABSL_LOCKS_EXCLUDED(mutex_);
  // The process, as this host numbers it; 0: it is on another host, or not visible here.
  int ProcessOf(const std::string& peer) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends the connection of `peer`, which makes calls too often; both sides are told.
  void HangUp(const std::string& peer) ABSL_LOCKS_EXCLUDED(mutex_);
  // Of a flood of calls whose connection is not known (gRPC does not name it where the client has
  // cancelled the call already): ends the connection over TCP that has sent most since the last
  // look, if that is more than any client of ours sends. Looks only now and then.
  void HangUpOnLoudest(int64_t now_ns) ABSL_LOCKS_EXCLUDED(mutex_);
  // A name that no other connection has or had.
  std::string ConnectionOf(const std::string& peer) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Connection {
    int process = 0;  // its id, on a Unix socket
    uint64_t number = 0;
    uint64_t socket = 0;  // SocketNumber
    std::string address;  // PeerAddress; empty on a Unix socket
    uint64_t heard = 0;   // bytes that had come by the last look
    int64_t looked_ns = 0;
  };

  void End(int fd, const Connection& connection) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Notes a new connection in the place of the one that had its descriptor before.
  void Note(int fd, Connection connection) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Null if the connection is not over a Unix socket.
  const Connection* Find(const std::string& peer) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t looked_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<int, Connection> connections_ ABSL_GUARDED_BY(mutex_);
  RateLimit told_ ABSL_GUARDED_BY(mutex_){0.1, 1};                 // that connections are ended
  std::map<std::string, int> by_address_ ABSL_GUARDED_BY(mutex_);  // descriptors over TCP
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SERVICE_LIMITS_PEERS_H_
