#ifndef BULKHEAD_SERVER_SERVICE_LOADER_SERVICE_H_
#define BULKHEAD_SERVER_SERVICE_LOADER_SERVICE_H_

#include <cstdint>
#include <functional>
#include <utility>

#include "absl/time/time.h"
#include "bulkhead/v1/loader.grpc.pb.h"
#include "server/service/session_context.h"

namespace bulkhead {

// The handlers of service Loader: each call becomes a session. Stream is handled as raw bytes, so
// that batches are sent from the arena's own memory.
class LoaderService final
    : public v1::Loader::WithCallbackMethod_Describe<v1::Loader::WithRawCallbackMethod_Stream<
          v1::Loader::WithCallbackMethod_GetStatus<v1::Loader::WithCallbackMethod_Recycle<
              v1::Loader::WithCallbackMethod_Quarantine<v1::Loader::Service>>>>> {
 public:
  // `log_lines_dropped` may be null.
  LoaderService(SessionContext context, std::function<uint64_t()> log_lines_dropped)
      : context_(std::move(context)), log_lines_dropped_(std::move(log_lines_dropped)) {}

  grpc::ServerWriteReactor<v1::DescribeResponse>* Describe(
      grpc::CallbackServerContext* rpc, const v1::DescribeRequest* request) override;
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Stream(
      grpc::CallbackServerContext* rpc) override;
  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* rpc,
                                      const v1::GetStatusRequest* request,
                                      v1::GetStatusResponse* response) override;
  grpc::ServerUnaryReactor* Recycle(grpc::CallbackServerContext* rpc,
                                    const v1::RecycleRequest* request,
                                    v1::RecycleResponse* response) override;
  grpc::ServerUnaryReactor* Quarantine(grpc::CallbackServerContext* rpc,
                                       const v1::QuarantineRequest* request,
                                       v1::QuarantineResponse* response) override;

  // What GetStatus answers. Blocks as Supervisor::GetStatus does; any thread.
  v1::GetStatusResponse Status() const;

 private:
  // Finishes a call with what `answer` returns, which it may wait for on a thread of its own: gRPC
  // has few.
  grpc::ServerUnaryReactor* FinishAside(grpc::CallbackServerContext* rpc,
                                        std::function<absl::Status()> answer) const;

  const SessionContext context_;
  const std::function<uint64_t()> log_lines_dropped_;
  const absl::Time started_ = absl::Now();
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SERVICE_LOADER_SERVICE_H_
