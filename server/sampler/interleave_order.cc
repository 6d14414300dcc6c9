#include "server/sampler/interleave_order.h"

#include <utility>

#include "server/sampler/interleave_table.h"
#include "server/sampler/variant_cache.h"

namespace bulkhead {
namespace {

class InterleaveOrder final : public SampleOrder {
 public:
  InterleaveOrder(FileOrder files, uint64_t cycle_length, uint64_t block_length)
      : files_(std::move(files)), cycle_length_(cycle_length), block_length_(block_length) {}

  uint64_t RecordAt(uint64_t epoch, uint64_t position) const override {
    const auto table = tables_.Get(files_.VariantOf(epoch), [this](uint64_t variant) {
      return std::make_unique<InterleaveTable>(files_.Files(variant), cycle_length_, block_length_);
    });
    return table->RecordAt(position);
  }

 private:
  const FileOrder files_;
  const uint64_t cycle_length_;
  const uint64_t block_length_;
  mutable VariantCache<InterleaveTable> tables_;
};

}  // namespace

std::unique_ptr<SampleOrder> MakeInterleaveOrder(FileOrder files, uint64_t cycle_length,
                                                 uint64_t block_length) {
  return std::make_unique<InterleaveOrder>(std::move(files), cycle_length, block_length);
}

}  // namespace bulkhead
