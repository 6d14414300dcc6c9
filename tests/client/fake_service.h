#ifndef BULKHEAD_TESTS_CLIENT_FAKE_SERVICE_H_
#define BULKHEAD_TESTS_CLIENT_FAKE_SERVICE_H_

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "bulkhead/v1/loader.grpc.pb.h"

namespace bulkhead {

// The schema of the fake's batches of 8: `index` (int64) at 0 and `pix` (uint8, 3) at 64.
v1::BatchSchema FakeSchema();

// A small service for the client's tests: 20 samples in batches of 8, two epochs. `index` is the
// position plus 1000 × epoch, `pix` its low byte three times. The spec's text names what it does
// wrong: "spec_error", "silent", "stall", "progress", "data_error", "die", "die_again", "credit",
// "endless". Keeps credits. Thread-safe.
class FakeService : public v1::Loader::Service {
 public:
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
  bool SendBatch(Session& session, uint64_t epoch, uint64_t first, uint64_t count);

  std::mutex mutex_;
  std::vector<v1::Open> opens_;
  uint64_t most_outstanding_ = 0;
};

}  // namespace bulkhead

#endif  // BULKHEAD_TESTS_CLIENT_FAKE_SERVICE_H_
