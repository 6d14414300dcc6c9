#include "server/sampler/order.h"

#include <numeric>

#include "server/base/error.h"
#include "server/sampler/block_order.h"
#include "server/sampler/file_order.h"
#include "server/sampler/global_order.h"
#include "server/sampler/interleave_order.h"
#include "server/sampler/sequential_order.h"

namespace bulkhead {
namespace {

absl::Status Missing(absl::string_view what) {
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kSpecInvalid, std::string(what));
}

// Fields that have a default of true.
template <typename Order>
bool Reshuffles(const Order& order) {
  return !order.has_reshuffle() || order.reshuffle();
}

template <typename Order>
FileOrder FilesOf(const Order& order, uint64_t seed, absl::Span<const uint64_t> file_records) {
  const auto shuffle = !order.shuffle_files() ? FileOrder::Shuffle::kNone
                       : Reshuffles(order)    ? FileOrder::Shuffle::kEveryEpoch
                                              : FileOrder::Shuffle::kOnce;
  return FileOrder(seed, file_records, shuffle);
}

}  // namespace

absl::StatusOr<std::unique_ptr<SampleOrder>> MakeOrder(const v1::Order& order, uint64_t seed,
                                                       absl::Span<const uint64_t> file_records) {
  const uint64_t record_count =
      std::accumulate(file_records.begin(), file_records.end(), uint64_t{0});
  if (record_count == 0) {
    return MakeError(absl::StatusCode::kInvalidArgument, reason::kNoSamples,
                     "the source has no samples, so there is nothing to put in order");
  }
  switch (order.order_case()) {
    case v1::Order::kSequential:
      return MakeSequentialOrder(FilesOf(order.sequential(), seed, file_records));
    case v1::Order::kGlobal:
      return MakeGlobalOrder(seed, record_count, Reshuffles(order.global()));
    case v1::Order::kInterleave:
      if (order.interleave().cycle_length() == 0 || order.interleave().block_length() == 0) {
        return Missing("order.interleave: cycle_length and block_length must be at least 1");
      }
      return MakeInterleaveOrder(FilesOf(order.interleave(), seed, file_records),
                                 order.interleave().cycle_length(),
                                 order.interleave().block_length());
    case v1::Order::kBlock:
      if (order.block().block_size() == 0 || order.block().window() == 0) {
        return Missing("order.block: block_size and window must be at least 1");
      }
      return MakeBlockOrder(seed, record_count, order.block().block_size(), order.block().window(),
                            Reshuffles(order.block()));
    case v1::Order::ORDER_NOT_SET:
      break;
  }
  return Missing("order is not set");
}

}  // namespace bulkhead
