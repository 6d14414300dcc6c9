#include "tools/explain/loader_memory.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/byte_size.h"
#include "server/data/fetch_child.h"

namespace bulkhead::tools {
namespace {

// A part of less than one of so many of the whole is not worth a line.
constexpr uint64_t kWorthALine = 100;

uint64_t Larger(const ExplainedMemory& part) { return std::max(part.shm_bytes, part.grpc_bytes); }

ExplainedMemory OfService(std::string what, std::string how, uint64_t bytes) {
  return {std::move(what), std::move(how), bytes, bytes, false};
}

// How many batches a client's credits let it have.
uint64_t CreditBatches(uint64_t batch_bytes) {
  const LoaderOptions defaults;
  const uint64_t by_bytes = defaults.credit_bytes / std::max<uint64_t>(1, batch_bytes);
  return std::min<uint64_t>(defaults.credit_batches, std::max<uint64_t>(1, by_bytes));
}

}  // namespace

uint64_t ClientBytesOverGrpc(uint64_t batch_bytes) {
  return (CreditBatches(batch_bytes) + 1) * batch_bytes;
}

std::vector<ExplainedMemory> MemoryParts(const StreamMemory& plan, const v1::MemoryBudget& budget,
                                         const v1::BatchSchema& schema, bool reads_objects) {
  std::vector<ExplainedMemory> parts = {
      OfService(
          "workers",
          absl::StrCat(plan.workers, " of ", plan.threads_per_worker,
                       plan.threads_per_worker == 1 ? " thread" : " threads", ", quota ",
                       FormatBytes(plan.worker_quota_bytes), " each: a bound, not what they take"),
          plan.workers * plan.worker_quota_bytes),
      OfService("replacement", "one worker beside the one it replaces", budget.replacement_bytes()),
      OfService("supervisor", "set aside", budget.supervisor_bytes()),
  };
  if (reads_objects) {
    parts.push_back(OfService("bulkhead-fetch",
                              absl::StrCat("reads the object stores; takes ",
                                           FormatBytes(FetchChild::kUsualBytes), " as a rule"),
                              FetchChild::kQuotaBytes));
  }
  uint64_t left = plan.arena_bytes;
  for (const v1::TensorSchema& tensor : schema.tensors()) {
    const uint64_t bytes = tensor.sample_bytes() * schema.batch_size();
    parts.push_back(OfService(absl::StrCat("arena: ", tensor.name()),
                              absl::StrCat(plan.slot_count, " slots, ", FormatBytes(bytes),
                                           " of each, shared with the trainer"),
                              bytes * plan.slot_count));
    left -= std::min(left, parts.back().shm_bytes);
  }
  if (left > 0) parts.push_back(OfService("arena: rounding", "to whole pages", left));
  const uint64_t batch_bytes = schema.batch_bytes();
  parts.push_back({"client",
                   absl::StrCat("the trainer's: in shared memory views of the arena; over gRPC ",
                                CreditBatches(batch_bytes), " batches ahead, and the one in use"),
                   0, ClientBytesOverGrpc(batch_bytes), true});
  return parts;
}

ExplainedMemory SumOf(const std::vector<ExplainedMemory>& parts) {
  ExplainedMemory sum;
  for (const ExplainedMemory& part : parts) {
    sum.shm_bytes += part.shm_bytes;
    sum.grpc_bytes += part.grpc_bytes;
  }
  return sum;
}

RankedMemory RankMemory(std::vector<ExplainedMemory> parts) {
  RankedMemory ranked;
  ranked.together = SumOf(parts);
  std::ranges::stable_sort(parts, std::greater(), Larger);
  const auto is_small = [&](const ExplainedMemory& part) {
    return !part.of_client && Larger(part) < Larger(ranked.together) / kWorthALine;
  };
  // A line that says "remaining 1" says less than the part's own.
  const bool several = std::count_if(parts.begin(), parts.end(), is_small) > 1;
  for (ExplainedMemory& part : parts) {
    auto& list = several && is_small(part) ? ranked.remaining : ranked.shown;
    list.push_back(std::move(part));
  }
  return ranked;
}

}  // namespace bulkhead::tools
