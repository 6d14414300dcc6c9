#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/time/time.h"
#include "bulkhead/v1/loader.pb.h"
#include "server/os/process/process_usage.h"
#include "server/service/calls/late_refusal.h"
#include "server/service/calls/question.h"
#include "server/service/calls/raw_service.h"
#include "server/service/limits/client_pace.h"
#include "server/service/limits/open_rate.h"
#include "server/service/recent_looks.h"
#include "server/service/session_context.h"
#include "server/service/stream_opening.h"

namespace bulkhead {

// The handlers of service Loader: a call whose caller has the right becomes a session or a
// question. Batches are sent from the arena without a copy, and requests are parsed by
// ParseRequest.
class LoaderService final : public RawService {
 public:
  // How many questions of one client are answered at once, and how often one in the long run.
  static constexpr int kQuestionsAtOnce = 100;
  static constexpr absl::Duration kQuestionInterval = absl::Milliseconds(50);

  // `log_lines_dropped` may be null. `openings_per_second`: of OpenRate.
  LoaderService(SessionContext context, std::function<uint64_t()> log_lines_dropped,
                double openings_per_second);

  // The answer to GetStatus. Blocks like Supervisor::GetStatus; thread-safe.
  v1::GetStatusResponse Status(bool fresh_memory = false);

 private:
  RawCall* Describe(grpc::CallbackServerContext* rpc);
  RawCall* Stream(grpc::CallbackServerContext* rpc);
  RawCall* Trace(grpc::CallbackServerContext* rpc);
  RawCall* PutDataset(grpc::CallbackServerContext* rpc);
  // A question of a caller who needs `right`.
  RawCall* Ask(grpc::CallbackServerContext* rpc, Right right, Question::Answer answer);
  // Answers to questions; block.
  absl::StatusOr<grpc::ByteBuffer> AnswerStatus(const grpc::ByteBuffer& bytes);
  absl::StatusOr<grpc::ByteBuffer> AnswerRecycle(const grpc::ByteBuffer& bytes);
  absl::StatusOr<grpc::ByteBuffer> AnswerQuarantine(const grpc::ByteBuffer& bytes);

  // Who calls; see AccessRights::Check.
  absl::StatusOr<Caller> CallerOf(const grpc::CallbackServerContext& rpc, Right right) const;
  // The same of a caller that has got a place for a session; see OpenRate and SessionRegistry.
  absl::StatusOr<Caller> AdmitCaller(const grpc::CallbackServerContext& rpc, Right right);
  RawCall* Refuse(const absl::Status& status);
  // Begins a call that has the place `session`, until it is done.
  RawCall* Begin(const std::shared_ptr<RequestCall>& call, uint64_t session);

  const SessionContext context_;
  const std::function<uint64_t()> log_lines_dropped_;
  const absl::Time started_ = absl::Now();
  OpenRate open_rate_;
  RecentLooks recent_looks_{AvailableCpus()};
  ClientPace question_pace_{kQuestionsAtOnce * kQuestionInterval};
  LateRefusals late_refusals_;
};

}  // namespace bulkhead
