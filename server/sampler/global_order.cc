#include "server/sampler/global_order.h"

#include "server/base/random.h"
#include "server/sampler/keyed_permutation.h"

namespace bulkhead {
namespace {

class GlobalOrder final : public SampleOrder {
 public:
  GlobalOrder(uint64_t seed, uint64_t record_count, bool reshuffle)
      : seed_(MixBits(seed, StableHash("order/global"))),
        record_count_(record_count),
        reshuffle_(reshuffle) {}

  uint64_t RecordAt(uint64_t epoch, uint64_t position) const override {
    const uint64_t key = MixBits(seed_, reshuffle_ ? epoch : 0);
    return KeyedPermutation(key, record_count_).At(position);
  }

 private:
  const uint64_t seed_;
  const uint64_t record_count_;
  const bool reshuffle_;
};

}  // namespace

std::unique_ptr<SampleOrder> MakeGlobalOrder(uint64_t seed, uint64_t record_count, bool reshuffle) {
  return std::make_unique<GlobalOrder>(seed, record_count, reshuffle);
}

}  // namespace bulkhead
