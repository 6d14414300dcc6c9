#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "bulkhead/v1/loader.grpc.pb.h"
#include "tests/client/fake_door.h"

namespace bulkhead {

// The schema of the fake's batches of 8: `index` (int64) at 0 and `pix` (uint8, 3) at 64.
v1::BatchSchema FakeSchema();

// A small service for the client's tests: 20 samples in batches of 8, two epochs. `index` is the
// position plus 1000 × epoch, `pix` its low byte three times. The spec's text names what it does
// wrong: "spec_error", "long_error", "silent", "stall", "mute" (opened, then not even heartbeats),
// "progress", "data_error", "die", "die_again", "freeze" (it stops itself before its second batch),
// "cut" (the first stream is lost before its third batch), "ends_early" (it ends well there),
// "credit", "endless", "unordered" (each epoch's batches come as 1, 2, 0), "padded" (one sample of
// each batch is not genuine), "no_shm", "unsealed", "wrong_slot". Keeps credits. With a door it
// gives slots to those who come through it. Thread-safe.
class FakeService : public v1::Loader::Service {
 public:
  explicit FakeService(FakeDoor* door = nullptr) : door_(door) {}

  grpc::Status Stream(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<v1::StreamResponse, v1::StreamRequest>* stream) override;
  grpc::Status GetStatus(grpc::ServerContext* context, const v1::GetStatusRequest* request,
                         v1::GetStatusResponse* response) override;
  grpc::Status Describe(grpc::ServerContext* context, const v1::DescribeRequest* request,
                        grpc::ServerWriter<v1::DescribeResponse>* writer) override;

  std::vector<v1::Open> opens();
  uint64_t most_outstanding();

 private:
  struct Session;
  grpc::Status Deliver(Session& session);
  grpc::Status DeliverUnordered(Session& session);
  void SendQuarantined(Session& session, const std::string& record);
  void ChooseTransport(Session& session, v1::Opened* opened);
  v1::BatchHeader MakeHeader(const Session& session, uint64_t epoch, uint64_t first,
                             uint64_t count);
  bool SendSlot(Session& session, const std::string& memory, const v1::BatchHeader& header);
  bool SendBatch(Session& session, uint64_t epoch, uint64_t first, uint64_t count);

  FakeDoor* const door_;
  uint64_t left_ = 0;  // of the epoch, in an unordered stream
  std::mutex mutex_;
  std::vector<v1::Open> opens_;
  uint64_t most_outstanding_ = 0;
};

}  // namespace bulkhead
