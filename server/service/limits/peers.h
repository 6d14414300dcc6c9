#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/base/rate_limit.h"
#include "server/service/limits/byte_allowance.h"

namespace bulkhead {

// Knows the connections. Identifies clients without names (AccessRights): by their process on a
// Unix socket, by their host on TCP. Ends connections over TCP that send more than they may
// (ByteAllowance): what gRPC reads before a call begins is counted to no limit of its own.
// Thread-safe.
class Peers {
 public:
  // Between looks at connections without an allowed call, and more for each; and at others.
  static constexpr absl::Duration kWatch = absl::Milliseconds(10);
  static constexpr absl::Duration kWatchOfOne = absl::Microseconds(20);
  static constexpr absl::Duration kWatchAllowed = absl::Milliseconds(200);
  // In a flood of calls: between looks, and more for each connection.
  static constexpr int64_t kLookNanos = 10'000'000;
  static constexpr int64_t kLookNanosOfOne = 20'000;
  // From so much a second on a connection counts as loud; trainers send some hundred bytes a batch.
  static constexpr double kLoudBytesPerSecond = 64 << 10;
  static constexpr uint64_t kLoudBytes = 4 << 10;  // and since the last look
  // A client of ours makes its first call sooner than this after it has connected, and sends less
  // than this between two looks until it is allowed, unless its spec or cursor is large.
  static constexpr absl::Duration kNewcomer = absl::Seconds(2);
  static constexpr uint64_t kNewcomerBytes = 16 << 10;
  // What may wait to be read of a connection over TCP after a call of it was allowed; before, as
  // much as the kernel lets. It is read at once, and a call may take 35 bytes there and 10 KiB of
  // memory.
  static constexpr int kReceiveBytesOfAllowed = 256 << 10;

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
  // A call of `peer` has been allowed.
  void Allow(const std::string& peer) ABSL_LOCKS_EXCLUDED(mutex_);
  // `bytes` of what `peer` has sent do not count (ByteAllowance::Forgive).
  void Forgive(const std::string& peer, uint64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends the connections over TCP that have sent more than they may. Returns when to look again.
  absl::Duration HangUpOnExcess(int64_t now_ns) ABSL_LOCKS_EXCLUDED(mutex_);
  // Of a flood of calls whose connection is not known (gRPC does not name it where the client has
  // cancelled the call already): ends the connections over TCP that have had no call allowed and
  // have sent anything since the last look, newcomers if they have sent much. If there was none for
  // a second, the flood comes from others: then the loudest of all. Looks only now and then.
  void HangUpOnLoudest(int64_t now_ns) ABSL_LOCKS_EXCLUDED(mutex_);
  // A name that no other connection has or had.
  std::string ConnectionOf(const std::string& peer) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Connection {
    int process = 0;  // its id, on a Unix socket
    uint64_t number = 0;
    uint64_t socket = 0;  // SocketNumber
    std::string address;  // PeerAddress; empty on a Unix socket
    ByteAllowance allowance;
    int64_t watched_ns = 0;  // the last look of HangUpOnExcess
    int64_t began_ns = 0;
    uint64_t heard = 0;  // bytes that had come by the last look of HangUpOnLoudest
    int64_t looked_ns = 0;
  };

  // Ends it, and says why: "makes calls too often".
  void End(int fd, const Connection& connection, absl::string_view why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Forgets connections over TCP that are gone.
  void ForgetGone() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of a peer as gRPC names it, over whatever socket; -1: none.
  int DescriptorOf(const std::string& peer) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Notes a new connection in the place of the one that had its descriptor before.
  void Note(int fd, Connection connection) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Null if the connection is not over a Unix socket.
  const Connection* Find(const std::string& peer) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t looked_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  // When a connection without an allowed call was last ended, or was a part of a flood.
  int64_t stranger_ns_ ABSL_GUARDED_BY(mutex_) = INT64_MIN / 2;
  std::map<int, Connection> connections_ ABSL_GUARDED_BY(mutex_);
  RateLimit told_ ABSL_GUARDED_BY(mutex_){0.1, 1};  // that connections are ended
  // Descriptors over TCP; the latest, where a client has connected from one port to two addresses.
  std::map<std::string, int> by_address_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace bulkhead
