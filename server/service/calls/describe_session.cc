#include "server/service/calls/describe_session.h"

#include <algorithm>
#include <utility>

#include "server/base/error.h"
#include "server/sampler/batch_plan.h"
#include "server/service/calls/call_after.h"
#include "server/service/raw_messages.h"
#include "server/service/rpc_error.h"
#include "server/spec/selection.h"

namespace bulkhead {
namespace {

constexpr absl::Duration kLook = absl::Seconds(1);

}  // namespace

void DescribeSession::OnRequest(grpc::ByteBuffer bytes) {
  const absl::Status started = context_.sessions->StartThread(
      [session = std::static_pointer_cast<DescribeSession>(shared_from_this()),
       bytes = std::move(bytes)]() mutable {
        const StorageWatch::Scope watched(session->context_.storage, session->caller_);
        absl::StatusOr<v1::Description> description = session->Describe(std::move(bytes));
        if (description.ok()) {
          v1::DescribeResponse response;
          *response.mutable_description() = *std::move(description);
          session->Enqueue(response);
        }
        session->FinishWith(description.status());
      });
  if (started.ok()) {
    CallAfter(context_.loop, absl::ZeroDuration(), this, &DescribeSession::Look);
  } else {
    FinishWith(started);
  }
}

void DescribeSession::Look() {
  {
    absl::MutexLock lock(&mutex_);
    if (finish_called_) return;
  }
  if (const absl::Status stalled = caller_->Stalled(); !stalled.ok()) {
    gone_ = true;
    FinishWith(stalled);
    return;
  }
  CallAfter(context_.loop, kLook, this, &DescribeSession::Look);
}

namespace {

// Adds the number of records selected from each source that has a selection.
void AddSelections(const PreparedPipeline& prepared, v1::Description& description) {
  const v1::PipelineSpec& spec = prepared.spec;
  if (IsSelective(SelectionOf(spec))) {
    *description.add_selections() = CountSelected(spec.source(), prepared.resolved);
  }
  for (int i = 0; i < prepared.resolved.mixed_size(); ++i) {
    if (!IsSelective(SelectionOf(spec, i))) continue;
    *description.add_selections() =
        CountSelected(spec.source().mixture().sources(i).source(), prepared.resolved.mixed(i));
  }
}

}  // namespace

absl::StatusOr<v1::Description> DescribeSession::Describe(grpc::ByteBuffer bytes) {
  BULKHEAD_ASSIGN_OR_RETURN(
      RequestMemory::Place place,
      context_.request_memory->Enter(client_, bytes.Length(), [this] { return gone_.load(); }));
  v1::DescribeRequest request;
  BULKHEAD_RETURN_IF_ERROR(ParseRequest(bytes, request));
  bytes.Clear();
  BULKHEAD_ASSIGN_OR_RETURN(PreparedPipeline prepared,
                            context_.preparer->Understand(request.spec()));
  request.mutable_spec()->clear_input();
  BULKHEAD_RETURN_IF_ERROR(
      place.Understood(prepared.spec.SpaceUsedLong() + prepared.signature.MemoryBytes()));
  place_ = std::move(place);
  if (!request.schema_only()) {
    BULKHEAD_RETURN_IF_ERROR(context_.preparer->FindData(
        request.spec().base_dir(), prepared,
        [this](const v1::Progress& progress) {
          v1::DescribeResponse response;
          *response.mutable_progress() = progress;
          Enqueue(response);
        },
        [this] { return gone_.load() || context_.sessions->draining(); }));
  }
  v1::Description description;
  *description.mutable_schema() = SchemaWithClasses(prepared);
  *description.mutable_memory() = prepared.memory;
  description.set_order_fingerprint(prepared.order_fingerprint);
  description.set_bytes_fingerprint(prepared.bytes_fingerprint);
  if (prepared.samples_per_epoch > 0) {
    BatchPlan::Config config;
    config.samples_per_epoch = prepared.samples_per_epoch;
    config.batch_size = prepared.spec.batch().size();
    config.world_size = std::max(request.world_size(), 1u);
    config.last = prepared.spec.batch().last();
    description.set_samples_per_epoch(prepared.samples_per_epoch);
    description.set_batches_per_epoch(BatchPlan(config).batches_per_epoch());
    AddSelections(prepared, description);
  }
  *description.mutable_spec() = std::move(prepared.spec);
  return description;
}

void DescribeSession::Enqueue(const v1::DescribeResponse& response) {
  absl::MutexLock lock(&mutex_);
  queue_.push_back(Serialize(response));
  WriteNext();
}

void DescribeSession::FinishWith(const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  if (final_status_.has_value()) return;
  const bool drained = !status.ok() && context_.sessions->draining();
  final_status_ = drained ? SessionRegistry::Draining() : status;
  WriteNext();
}

void DescribeSession::OnGone() {
  gone_ = true;
  // Does not wait for the working thread, which may be stuck in storage.
  FinishWith(absl::CancelledError("the client is gone"));
}

void DescribeSession::WriteNext() {
  if (write_active_ || finish_called_) return;
  if (!queue_.empty() && !gone_) {
    writing_ = std::move(queue_.front());
    queue_.pop_front();
    write_active_ = true;
    StartWrite(&writing_);
  } else if (final_status_.has_value()) {
    finish_called_ = true;
    Finish(ToRpcStatus(*final_status_));
  }
}

void DescribeSession::OnWriteDone(bool ok) {
  absl::MutexLock lock(&mutex_);
  write_active_ = false;
  if (!ok) gone_ = true;
  WriteNext();
}

}  // namespace bulkhead
