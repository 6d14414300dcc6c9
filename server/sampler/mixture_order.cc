#include "server/sampler/mixture_order.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/random.h"
#include "server/sampler/apportionment.h"
#include "server/sampler/variant_cache.h"

namespace bulkhead {
namespace {

constexpr uint64_t kMinBlock = 16;
constexpr uint64_t kMaxBlock = 4096;
constexpr double kRarestInABlock = 4;
// Records are numbered through all sources.
constexpr uint64_t kMaxRecords = std::numeric_limits<uint64_t>::max();

uint64_t BlockLength(const Apportionment& apportionment) {
  const double wanted = std::ceil(kRarestInABlock / apportionment.smallest_share());
  if (!(wanted < static_cast<double>(kMaxBlock))) return kMaxBlock;
  return std::max(kMinBlock, static_cast<uint64_t>(wanted));
}

class MixtureOrder final : public SampleOrder {
 public:
  struct Part {
    std::unique_ptr<SampleOrder> order;
    uint64_t first_record = 0;
    uint64_t records = 0;
    uint64_t draws_per_epoch = 0;
  };

  MixtureOrder(Apportionment apportionment, std::vector<Part> parts, uint64_t seed,
               uint64_t samples_per_epoch)
      : apportionment_(std::move(apportionment)),
        block_length_(BlockLength(apportionment_)),
        parts_(std::move(parts)),
        seed_(seed),
        samples_per_epoch_(samples_per_epoch) {
    const std::vector<uint64_t> draws = apportionment_.Counts(samples_per_epoch_);
    for (size_t i = 0; i < parts_.size(); ++i) parts_[i].draws_per_epoch = draws[i];
  }

  uint64_t RecordAt(uint64_t epoch, uint64_t position) const override {
    const uint64_t index = position / block_length_;
    const std::shared_ptr<const Block> block =
        blocks_.Get({epoch, index}, [this](const BlockId& id) { return MakeBlock(id); });
    const Draw& draw = (*block)[position % block_length_];
    const Part& part = parts_[draw.source];
    const unsigned __int128 ever =
        static_cast<unsigned __int128>(epoch) * part.draws_per_epoch + draw.number;
    const uint64_t inner_epoch = static_cast<uint64_t>(ever / part.records);
    const uint64_t inner_position = static_cast<uint64_t>(ever % part.records);
    return part.first_record + part.order->RecordAt(inner_epoch, inner_position);
  }

 private:
  struct BlockId {
    uint64_t epoch = 0;
    uint64_t index = 0;
    friend bool operator==(const BlockId&, const BlockId&) = default;
  };
  // A position: the how-many-th of which source in the epoch.
  struct Draw {
    size_t source = 0;
    uint64_t number = 0;
  };
  using Block = std::vector<Draw>;

  std::unique_ptr<Block> MakeBlock(const BlockId& id) const {
    const uint64_t begin = id.index * block_length_;
    const uint64_t end = std::min(begin + block_length_, samples_per_epoch_);
    std::vector<uint64_t> next = apportionment_.Counts(begin);
    const std::vector<uint64_t> last = apportionment_.Counts(end);
    auto block = std::make_unique<Block>();
    for (size_t source = 0; source < parts_.size(); ++source) {
      block->insert(block->end(), last[source] - next[source], {source, 0});
    }
    SampleRandom random(seed_, id.epoch, id.index, StableHash("order/mixture"));
    for (size_t i = block->size(); i > 1; --i) {
      std::swap((*block)[i - 1], (*block)[random.NextBelow(i)]);
    }
    for (Draw& draw : *block) draw.number = next[draw.source]++;
    return block;
  }

  const Apportionment apportionment_;
  const uint64_t block_length_;
  std::vector<Part> parts_;
  const uint64_t seed_;
  const uint64_t samples_per_epoch_;
  mutable VariantCache<Block, BlockId> blocks_;
};

absl::Status Invalid(absl::string_view what) {
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kSpecInvalid, std::string(what),
                   {{"path", "source.mixture"}});
}

}  // namespace

absl::StatusOr<uint64_t> MixtureSamplesPerEpoch(const v1::MixtureSource& mixture,
                                                absl::Span<const uint64_t> source_records) {
  std::vector<double> weights;
  for (const v1::MixedSource& source : mixture.sources()) weights.push_back(source.weight());
  for (size_t i = 0; i < source_records.size(); ++i) {
    if (source_records[i] == 0) {
      return MakeError(absl::StatusCode::kFailedPrecondition, reason::kNoSamples,
                       absl::StrCat("source.mixture.sources[", i, "] holds no samples"));
    }
  }
  const Apportionment apportionment(weights);
  std::optional<uint64_t> length = mixture.samples_per_epoch();
  if (mixture.stop() == v1::MIXTURE_STOP_ALL_EXHAUSTED) {
    length = apportionment.ShortestWith(source_records);
  } else if (mixture.stop() != v1::MIXTURE_STOP_NEVER) {
    length = apportionment.LongestWithin(source_records);
  }
  if (!length.has_value() || *length > Apportionment::kMaxLength) {
    return Invalid(absl::StrCat("source.mixture: an epoch would have more than ",
                                Apportionment::kMaxLength,
                                " samples; use `stop: never` with samples_per_epoch"));
  }
  return *length;
}

absl::StatusOr<std::unique_ptr<SampleOrder>> MakeMixtureOrder(
    absl::Span<const MixedRecords> sources, uint64_t seed, uint64_t samples_per_epoch) {
  if (sources.empty() || samples_per_epoch == 0 || samples_per_epoch > Apportionment::kMaxLength) {
    return Invalid("source.mixture: an epoch must have samples, and not too many");
  }
  std::vector<double> weights;
  std::vector<MixtureOrder::Part> parts;
  uint64_t first_record = 0;
  for (const MixedRecords& source : sources) {
    if (!(source.weight > 0) || std::isinf(source.weight)) {
      return Invalid("source.mixture: every weight must be above 0");
    }
    weights.push_back(source.weight);
    // Equal sources in equal orders would otherwise come in step with each other.
    const uint64_t own_seed = MixBits(seed, StableHash(absl::StrCat("sources/", parts.size())));
    MixtureOrder::Part part;
    BULKHEAD_ASSIGN_OR_RETURN(part.order, MakeOrder(source.order, own_seed, source.file_records));
    part.first_record = first_record;
    part.records =
        std::accumulate(source.file_records.begin(), source.file_records.end(), uint64_t{0});
    if (part.records > kMaxRecords - first_record) {
      return Invalid(absl::StrCat("source.mixture: its sources hold more than ", kMaxRecords,
                                  " records together; use skip and take"));
    }
    first_record += part.records;
    parts.push_back(std::move(part));
  }
  return std::make_unique<MixtureOrder>(Apportionment(weights), std::move(parts), seed,
                                        samples_per_epoch);
}

}  // namespace bulkhead
