#ifndef BULKHEAD_SERVER_SERVICE_LOADER_SERVICE_H_
#define BULKHEAD_SERVER_SERVICE_LOADER_SERVICE_H_

#include <cstdint>
#include <functional>
#include <utility>

#include "absl/time/time.h"
#include "bulkhead/v1/loader.grpc.pb.h"
#include "server/os/process/process_usage.h"
#include "server/service/limits/client_pace.h"
#include "server/service/limits/late_refusal.h"
#include "server/service/limits/open_rate.h"
#include "server/service/recent_looks.h"
#include "server/service/session_context.h"
#include "server/service/stream_opening.h"

namespace bulkhead {

template <typename Service>
using RawMethods = v1::Loader::WithRawCallbackMethod_Describe<
    v1::Loader::WithRawCallbackMethod_Stream<v1::Loader::WithRawCallbackMethod_GetStatus<
        v1::Loader::WithRawCallbackMethod_Recycle<v1::Loader::WithRawCallbackMethod_Quarantine<
            v1::Loader::WithRawCallbackMethod_Trace<Service>>>>>>;

// The handlers of service Loader: each call becomes a session. All are handled as raw bytes, so
// that batches are sent from the arena without a copy, and requests are parsed by ParseRequest.
class LoaderService final : public RawMethods<v1::Loader::Service> {
 public:
  // How many questions of one client are answered at once, and how often one in the long run.
  static constexpr int kQuestionsAtOnce = 100;
  static constexpr absl::Duration kQuestionInterval = absl::Milliseconds(50);

  // `log_lines_dropped` may be null. `openings_per_second`: of OpenRate.
  LoaderService(SessionContext context, std::function<uint64_t()> log_lines_dropped,
                double openings_per_second)
      : context_(std::move(context)),
        log_lines_dropped_(std::move(log_lines_dropped)),
        open_rate_(openings_per_second) {}

  grpc::ServerWriteReactor<grpc::ByteBuffer>* Describe(grpc::CallbackServerContext* rpc,
                                                       const grpc::ByteBuffer* bytes) override;
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Stream(
      grpc::CallbackServerContext* rpc) override;
  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* rpc,
                                      const grpc::ByteBuffer* bytes,
                                      grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Recycle(grpc::CallbackServerContext* rpc, const grpc::ByteBuffer* bytes,
                                    grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Quarantine(grpc::CallbackServerContext* rpc,
                                       const grpc::ByteBuffer* bytes,
                                       grpc::ByteBuffer* response) override;

  grpc::ServerWriteReactor<grpc::ByteBuffer>* Trace(grpc::CallbackServerContext* rpc,
                                                    const grpc::ByteBuffer* bytes) override;

  // The answer to GetStatus. Blocks like Supervisor::GetStatus; thread-safe.
  v1::GetStatusResponse Status(bool fresh_memory = false);

 private:
  // If the caller has `right`, finishes its call with the result of `answer`, when its client's
  // pace allows. `answer` runs on a thread of its own, since it may block and gRPC has few threads.
  grpc::ServerUnaryReactor* FinishAside(grpc::CallbackServerContext* rpc, Right right,
                                        std::function<absl::Status()> answer);

  // Who calls; see AccessRights::Check.
  absl::StatusOr<Caller> CallerOf(const grpc::CallbackServerContext& rpc, Right right) const;
  // The same of a caller that has got a place for a session; see OpenRate and SessionRegistry.
  absl::StatusOr<Caller> AdmitCaller(const grpc::CallbackServerContext& rpc, Right right);
  // The reactor of a call that is refused.
  template <typename Reactor>
  Reactor* Refuse(const absl::Status& status);

  const SessionContext context_;
  const std::function<uint64_t()> log_lines_dropped_;
  const absl::Time started_ = absl::Now();
  OpenRate open_rate_;
  RecentLooks recent_looks_{AvailableCpus()};
  ClientPace question_pace_{kQuestionsAtOnce * kQuestionInterval};
  LateRefusals late_refusals_;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SERVICE_LOADER_SERVICE_H_
