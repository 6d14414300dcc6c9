#include "server/sampler/block_order.h"

#include <algorithm>

#include "server/base/random.h"
#include "server/sampler/keyed_permutation.h"

namespace bulkhead {
namespace {

// Shuffled blocks stand in *places* 0 … block_count − 1. All are equally long but the last block of
// the data set, which may stand anywhere. A position is therefore looked for in a *padded* epoch,
// in which that block is as long as all others: behind it, padded and real positions differ by what
// it lacks.
//
//   blocks      [0 1 2][3 4 5][6]       block_size 3, window 2; lacking 2
//   shuffled    [3 4 5][6][0 1 2]       short_place 1
//   windows     [5 6 3 4][1 0 2]
class BlockOrder final : public SampleOrder {
 public:
  BlockOrder(uint64_t seed, uint64_t record_count, uint64_t block_size, uint64_t window,
             bool reshuffle)
      : blocks_seed_(MixBits(seed, StableHash("order/block/blocks"))),
        records_seed_(MixBits(seed, StableHash("order/block/records"))),
        block_size_(std::min(block_size, record_count)),
        block_count_((record_count - 1) / block_size_ + 1),
        window_(std::min(window, block_count_)),
        lacking_(block_size_ - 1 - (record_count - 1) % block_size_),
        reshuffle_(reshuffle) {}

  uint64_t RecordAt(uint64_t epoch, uint64_t position) const override {
    if (!reshuffle_) epoch = 0;
    const KeyedPermutation blocks(MixBits(blocks_seed_, epoch), block_count_);
    const uint64_t short_place = lacking_ == 0 ? block_count_ : blocks.IndexOf(block_count_ - 1);

    // The window, and its records by their positions.
    const uint64_t window_records = window_ * block_size_;
    const bool behind = position >= BeginOfWindow(short_place / window_ + 1, short_place);
    const uint64_t window = (position + (behind ? lacking_ : 0)) / window_records;
    const uint64_t begin = BeginOfWindow(window, short_place);
    const uint64_t end = BeginOfWindow(window + 1, short_place);

    const KeyedPermutation records(MixBits(MixBits(records_seed_, epoch), window), end - begin);
    const uint64_t index = records.At(position - begin);
    const uint64_t first_place = window * window_;
    const bool past_short = short_place >= first_place && short_place < first_place + window_ &&
                            index >= (short_place - first_place + 1) * block_size_ - lacking_;
    const uint64_t padded = index + (past_short ? lacking_ : 0);
    return blocks.At(first_place + padded / block_size_) * block_size_ + padded % block_size_;
  }

 private:
  // The position at which a window begins; for the window behind the last, the number of records.
  uint64_t BeginOfWindow(uint64_t window, uint64_t short_place) const {
    const uint64_t place = std::min(window * window_, block_count_);
    return place * block_size_ - (place > short_place ? lacking_ : 0);
  }

  const uint64_t blocks_seed_;
  const uint64_t records_seed_;
  const uint64_t block_size_;
  const uint64_t block_count_;
  const uint64_t window_;
  const uint64_t lacking_;  // records by which the last block is shorter than the others
  const bool reshuffle_;
};

}  // namespace

std::unique_ptr<SampleOrder> MakeBlockOrder(uint64_t seed, uint64_t record_count,
                                            uint64_t block_size, uint64_t window, bool reshuffle) {
  return std::make_unique<BlockOrder>(seed, record_count, block_size, window, reshuffle);
}

}  // namespace bulkhead
