#include "server/sampler/order.h"

#include "server/base/error.h"
#include "server/base/random.h"

namespace bulkhead {
namespace {

class Sequential final : public SampleOrder {
 public:
  uint64_t RecordAt(uint64_t epoch, uint64_t position) const override { return position; }
};

// A keyed bijection of 0 … record_count − 1: a balanced Feistel network over the smallest domain of
// 2^(2·half_bits) that holds them all, walked along its cycles until the value falls inside (Black
// and Rogaway, "Ciphers with Arbitrary Finite Domains", CT-RSA 2002). The domain is less than four
// times too large, so a walk takes fewer than four steps on average.
class Global final : public SampleOrder {
 public:
  Global(uint64_t seed, uint64_t record_count, bool reshuffle)
      : seed_(MixBits(seed, StableHash("order/global"))),
        record_count_(record_count),
        reshuffle_(reshuffle) {
    while (half_bits_ < 32 && (uint64_t{1} << (2 * half_bits_)) < record_count) ++half_bits_;
  }

  uint64_t RecordAt(uint64_t epoch, uint64_t position) const override {
    const uint64_t key = MixBits(seed_, reshuffle_ ? epoch : 0);
    uint64_t value = position;
    do {
      value = Permute(key, value);
    } while (value >= record_count_);
    return value;
  }

 private:
  static constexpr uint64_t kRounds =
      8;  // four make a strong permutation; small domains profit from more

  uint64_t Permute(uint64_t key, uint64_t value) const {
    const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
    uint64_t left = value >> half_bits_;
    uint64_t right = value & mask;
    for (uint64_t round = 0; round < kRounds; ++round) {
      const uint64_t next = left ^ (MixBits(round << 32 | right, key) & mask);
      left = right;
      right = next;
    }
    return left << half_bits_ | right;
  }

  const uint64_t seed_;
  const uint64_t record_count_;
  const bool reshuffle_;
  int half_bits_ = 1;
};

}  // namespace

absl::StatusOr<std::unique_ptr<SampleOrder>> MakeOrder(const v1::Order& order, uint64_t seed,
                                                       uint64_t record_count) {
  if (record_count == 0) {
    return MakeError(absl::StatusCode::kInvalidArgument, reason::kNoSamples,
                     "the source has no samples, so there is nothing to put in order");
  }
  switch (order.order_case()) {
    case v1::Order::kSequential:
      return std::make_unique<Sequential>();
    case v1::Order::kGlobal:
      return std::make_unique<Global>(
          seed, record_count, order.global().has_reshuffle() ? order.global().reshuffle() : true);
    case v1::Order::ORDER_NOT_SET:
      break;
  }
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kSpecInvalid, "order is not set");
}

}  // namespace bulkhead
