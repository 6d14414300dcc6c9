#include "server/sampler/order.h"

#include "server/base/error.h"
#include "tests/sampler/order_records.h"

namespace bulkhead {
namespace {

std::string ReasonOf(const v1::Order& order, const std::vector<uint64_t>& files) {
  const auto made = MakeOrder(order, 1, files);
  if (made.ok()) return "OK";
  EXPECT_EQ(made.status().code(), absl::StatusCode::kInvalidArgument);
  return GetErrorInfo(made.status())->reason;
}

TEST(MakeOrderTest, RefusesAnEmptySource) {
  v1::Order order;
  order.mutable_global();
  EXPECT_EQ(ReasonOf(order, {}), reason::kNoSamples);
  EXPECT_EQ(ReasonOf(order, {0, 0}), reason::kNoSamples);
  EXPECT_EQ(ReasonOf(order, {0, 1}), "OK");
}

TEST(MakeOrderTest, RefusesWhatIsNotNormalized) {
  v1::Order order;
  EXPECT_EQ(ReasonOf(order, {3}), reason::kSpecInvalid);
  order.mutable_interleave()->set_block_length(1);
  EXPECT_EQ(ReasonOf(order, {3}), reason::kSpecInvalid);
  order.mutable_block()->set_window(1);
  EXPECT_EQ(ReasonOf(order, {3}), reason::kSpecInvalid);
}

}  // namespace
}  // namespace bulkhead
