#include "server/spec/normalize/normalize_order.h"

#include <string>

#include "server/spec/declared_options.h"

namespace bulkhead {
namespace {

// A shuffle of the files; `Files` is an order that has one.
template <typename Files>
void NormalizeFileShuffle(Files& order, const std::string& path, SpecProblems& problems) {
  if (order.shuffle_files()) {
    if (!order.has_reshuffle()) order.set_reshuffle(true);
  } else if (order.has_reshuffle()) {
    problems.Add(path + ".reshuffle", "goes with shuffle_files: true only");
  }
}

void NormalizeInterleave(v1::InterleaveOrder& order, SpecProblems& problems) {
  DeclaredOptions(v1::InterleaveOrder::descriptor())
      ->Normalize(order, "order.interleave", problems);
  NormalizeFileShuffle(order, "order.interleave", problems);
}

void NormalizeBlock(v1::BlockOrder& order, SpecProblems& problems) {
  DeclaredOptions(v1::BlockOrder::descriptor())->Normalize(order, "order.block", problems);
  if (!order.has_reshuffle()) order.set_reshuffle(true);
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
      if (!order.global().has_reshuffle()) order.mutable_global()->set_reshuffle(true);
      break;
    case v1::Order::kInterleave:
      NormalizeInterleave(*order.mutable_interleave(), problems);
      break;
    case v1::Order::kBlock:
      NormalizeBlock(*order.mutable_block(), problems);
      break;
  }
}

}  // namespace bulkhead
