#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "bulkhead/credentials.h"
#include "bulkhead/v1/arena.pb.h"
#include "bulkhead/v1/loader.pb.h"
#include "server/doors/arena_door.h"
#include "server/os/event_loop.h"
#include "server/receiver/batch_slots.h"

namespace bulkhead {

// The keys of a call's metadata that say where its stream is, under which name its certificate is
// (absent: the target's), and by what client and service know each other: the fields of
// client_internal::Credentials, of which absent ones are empty.
// client/python/bulkhead/_service/receiver.py writes them.
namespace relay_key {
inline constexpr char kTarget[] = "bulkhead-target-bin";
inline constexpr char kCa[] = "bulkhead-ca-bin";
inline constexpr char kCert[] = "bulkhead-cert-bin";
inline constexpr char kKey[] = "bulkhead-key-bin";
inline constexpr char kTokenFile[] = "bulkhead-token-file-bin";
inline constexpr char kSocketUser[] = "bulkhead-socket-user-bin";
inline constexpr char kAuthority[] = "bulkhead-authority-bin";
}  // namespace relay_key

// One call of Loader.Stream, passed on to the service that its metadata names. Every message goes
// through as it is, but for batches: their bytes are put into slots of an arena of this process,
// and the client is told of each slot as a service on its host would tell it.
//
//   client ──Open──▶ Local ──with TRANSPORT_GRPC──▶ Remote ──▶ service
//     ▲  door: slots, events ◀── BatchSlots ◀── parts ◀── Remote ◀──┘
//     └─ stream: all else     ◀── as it is ◀───────────── Remote
//
// The service's credits go back as slots come back, so at most the client's credits lie here. A
// client without a token of the door, or one that holds batches of two earlier arenas, gets its
// batches as bytes.
//
// Lives until both calls have ended. Thread-safe.
class StreamRelay : public std::enable_shared_from_this<StreamRelay> {
 public:
  // Answers a call. `door` must outlive it. Does not block.
  static grpc::ServerGenericBidiReactor* Begin(std::shared_ptr<EventLoop> loop, ArenaDoor& door,
                                               const grpc::GenericCallbackServerContext& call);

 private:
  class Local;   // the client's call
  class Remote;  // the call that is made for it
  // What waits until a slot is free: a part of a batch, or an event, which comes before its batch.
  using Waiting = std::variant<std::vector<grpc::Slice>, v1::SampleEvent>;

  StreamRelay(std::shared_ptr<EventLoop> loop, ArenaDoor& door,
              const grpc::GenericCallbackServerContext& call);

  // Of the client's call.
  void FromClient(grpc::ByteBuffer message) ABSL_LOCKS_EXCLUDED(mutex_);
  void WrittenToClient() ABSL_LOCKS_EXCLUDED(mutex_);
  void ClientGone() ABSL_LOCKS_EXCLUDED(mutex_);
  void ClientDone() ABSL_LOCKS_EXCLUDED(mutex_);
  // Of the call to the service.
  void FromService(const grpc::ByteBuffer& message) ABSL_LOCKS_EXCLUDED(mutex_);
  void WrittenToService(bool ok) ABSL_LOCKS_EXCLUDED(mutex_);
  void ServiceReadsEnded() ABSL_LOCKS_EXCLUDED(mutex_);
  void ServiceDone(const grpc::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);
  // The client has given the slot back; `left`: it may still read it.
  void SlotReturned(uint32_t slot, bool left) ABSL_LOCKS_EXCLUDED(mutex_);

  void Call(v1::StreamRequest request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Changes the service's answer to what is true of this process.
  void OnOpened(v1::Opened& opened) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status MakeArena(const v1::Opened& opened) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Passes on what waits, as far as slots are free.
  void Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // False if it must wait for a slot.
  bool Pass(const Waiting& waiting) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void HandOutBatch() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Tells the client at the door, or on the stream if the door does not take it.
  void Announce(const v1::ArenaServerMessage& packet, const v1::StreamResponse& response)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReleaseCredits() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void End(const grpc::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ToClient(grpc::ByteBuffer message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ToService(const v1::StreamRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WriteToClient() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WriteToService() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReadFromService() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<EventLoop> loop_;
  ArenaDoor& door_;
  const std::string target_;  // where the service is
  const std::string authority_;
  const Credentials credentials_;

  absl::Mutex mutex_;
  Local* local_ ABSL_GUARDED_BY(mutex_) = nullptr;    // null: it has ended
  Remote* remote_ ABSL_GUARDED_BY(mutex_) = nullptr;  // null: not begun, or nothing more is sent
  bool called_ ABSL_GUARDED_BY(mutex_) = false;       // the service, once
  std::deque<grpc::ByteBuffer> to_client_ ABSL_GUARDED_BY(mutex_);   // the first is being written
  std::deque<grpc::ByteBuffer> to_service_ ABSL_GUARDED_BY(mutex_);  // likewise
  bool writing_to_client_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_to_service_ ABSL_GUARDED_BY(mutex_) = false;
  bool reading_paused_ ABSL_GUARDED_BY(mutex_) = false;  // the client does not read
  std::optional<grpc::Status> service_ended_ ABSL_GUARDED_BY(mutex_);
  std::optional<grpc::Status> end_ ABSL_GUARDED_BY(mutex_);  // behind what is to be written
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t told_ns_ ABSL_GUARDED_BY(mutex_) = 0;  // when the client last heard anything

  v1::Open open_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<ArenaClient> client_ ABSL_GUARDED_BY(mutex_);
  std::optional<BatchSlots> slots_ ABSL_GUARDED_BY(mutex_);  // absent: batches travel as bytes
  uint64_t arena_id_ ABSL_GUARDED_BY(mutex_) = 0;
  bool at_door_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
  // Sequence numbers of batches that arrived whole and whose credit has not gone back.
  std::deque<uint64_t> unreleased_ ABSL_GUARDED_BY(mutex_);
  uint64_t releasable_ ABSL_GUARDED_BY(mutex_) = 0;  // credits that may go back
};

}  // namespace bulkhead
