#include <string>

#include "server/spec/declared_options.h"
#include "server/spec/normalize/normalize_parts.h"

namespace bulkhead {
namespace {

// A shuffle of the files; `Files` is an order that has one.
template <typename Files>
void NormalizeFileShuffle(Files& order, const std::string& path, SpecProblems& problems) {
  const bool given = order.has_reshuffle();
  NormalizeOptions(order, path, problems);
  if (order.shuffle_files()) return;
  if (given) problems.Add(path + ".reshuffle", "goes with shuffle_files: true only");
  order.clear_reshuffle();
}

}  // namespace

void NormalizeOrder(v1::Order& order, SpecProblems& problems) {
  switch (order.order_case()) {
    case v1::Order::ORDER_NOT_SET:
      order.mutable_sequential();
      break;
    case v1::Order::kSequential:
      NormalizeFileShuffle(*order.mutable_sequential(), "order.sequential", problems);
      break;
    case v1::Order::kGlobal:
      NormalizeOptions(*order.mutable_global(), "order.global", problems);
      break;
    case v1::Order::kInterleave:
      NormalizeFileShuffle(*order.mutable_interleave(), "order.interleave", problems);
      break;
    case v1::Order::kBlock:
      NormalizeOptions(*order.mutable_block(), "order.block", problems);
      break;
  }
}

}  // namespace bulkhead
