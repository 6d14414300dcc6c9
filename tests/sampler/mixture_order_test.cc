#include "server/sampler/mixture_order.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/random.h"
#include "server/sampler/apportionment.h"
#include "tests/sampler/order_records.h"

namespace bulkhead {
namespace {

MixedRecords Mixed(double weight, const std::string& order, std::vector<uint64_t> files) {
  MixedRecords mixed;
  mixed.weight = weight;
  mixed.file_records = std::move(files);
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(order, &mixed.order)) << order;
  return mixed;
}

std::unique_ptr<SampleOrder> MixtureOf(const std::vector<MixedRecords>& sources, uint64_t seed,
                                       uint64_t samples) {
  auto made = MakeMixtureOrder(sources, seed, samples);
  EXPECT_TRUE(made.ok()) << made.status();
  return *std::move(made);
}

v1::MixtureSource Policy(const std::vector<double>& weights, v1::MixtureStop stop,
                         uint64_t samples = 0) {
  v1::MixtureSource mixture;
  for (const double weight : weights) mixture.add_sources()->set_weight(weight);
  mixture.set_stop(stop);
  mixture.set_samples_per_epoch(samples);
  return mixture;
}

// Which source a record is of, records counting through all.
size_t SourceOf(const std::vector<MixedRecords>& sources, uint64_t record) {
  size_t source = 0;
  for (; record >= Sum(sources[source].file_records); ++source) {
    record -= Sum(sources[source].file_records);
  }
  return source;
}

// docs/semantics.md: draw i of source s in epoch e is g = e × C + i: record order_s(g mod n) of the
// inner epoch g div n. Walks every epoch and asks each source's own order for what comes next.
void ExpectEverySourceInItsOwnOrder(const std::vector<MixedRecords>& sources, uint64_t seed,
                                    uint64_t samples, uint64_t epochs) {
  const auto order = MixtureOf(sources, seed, samples);
  std::vector<std::unique_ptr<SampleOrder>> own;
  std::vector<uint64_t> first_record;
  uint64_t records = 0;
  for (size_t i = 0; i < sources.size(); ++i) {
    own.push_back(MakeOrder(sources[i].order,
                            MixBits(seed, StableHash(absl::StrCat("sources/", i))),
                            sources[i].file_records)
                      .value());
    first_record.push_back(records);
    records += Sum(sources[i].file_records);
  }
  std::vector<uint64_t> drawn(sources.size());
  for (uint64_t epoch = 0; epoch < epochs; ++epoch) {
    for (uint64_t position = 0; position < samples; ++position) {
      const uint64_t record = order->RecordAt(epoch, position);
      ASSERT_LT(record, records);
      const size_t source = SourceOf(sources, record);
      const uint64_t n = Sum(sources[source].file_records);
      const uint64_t g = drawn[source]++;
      ASSERT_EQ(record - first_record[source], own[source]->RecordAt(g / n, g % n))
          << "epoch " << epoch << ", position " << position << ", source " << source;
    }
  }
}

TEST(MixtureOrderTest, EverySourceComesInItsOwnOrderAndWrapsAround) {
  const std::vector<std::vector<double>> weights = {{0.9, 0.1}, {1, 1}, {1, 7}};
  for (uint64_t a = 1; a <= 12; ++a) {
    for (uint64_t b = 1; b <= 12; ++b) {
      for (const auto& w : weights) {
        ExpectEverySourceInItsOwnOrder(
            {Mixed(w[0], "global { reshuffle: true }", {a}), Mixed(w[1], "sequential {}", {b})}, 3,
            25, 4);
      }
    }
  }
  ExpectEverySourceInItsOwnOrder(
      {Mixed(0.5, "interleave { cycle_length: 2 block_length: 3 }", {7, 11, 2}),
       Mixed(0.2, "block { block_size: 4 window: 3 }", {50}),
       Mixed(0.3, "sequential { shuffle_files: true }", {3, 1, 4, 1, 5})},
      9, 1000, 3);
}

TEST(MixtureOrderTest, RefusesMoreRecordsThanCanBeNumbered) {
  const uint64_t half = uint64_t{1} << 63;
  const auto made = [&](uint64_t first) {
    const std::vector<MixedRecords> sources = {Mixed(1, "sequential {}", {first}),
                                               Mixed(1, "sequential {}", {half})};
    return MakeMixtureOrder(sources, 1, 24);
  };
  EXPECT_TRUE(made(half - 1).ok());
  ASSERT_FALSE(made(half).ok());
  EXPECT_EQ(GetErrorInfo(made(half).status())->reason, "SPEC_INVALID");
}

TEST(MixtureOrderTest, EveryBlockAndPrefixKeepsTheProportions) {
  struct Case {
    std::vector<double> weights;
    uint64_t block;
  };
  for (const Case& c : {Case{{0.9, 0.1}, 40}, Case{{0.5, 0.5}, 16}, Case{{0.2, 0.5, 0.3}, 20},
                        Case{{1, 511}, 2048}, Case{{1, 4'999}, 4096}}) {
    std::vector<MixedRecords> sources;
    for (const double weight : c.weights) {
      sources.push_back(Mixed(weight, "global {}", {uint64_t{100'000}}));
    }
    const uint64_t samples = 10'007;
    const auto order = MixtureOf(sources, 5, samples);
    const Apportionment apportionment(c.weights);
    for (uint64_t epoch = 0; epoch < 2; ++epoch) {
      std::vector<uint64_t> counts(sources.size());
      uint64_t elsewhere = 0;  // positions where a prefix is not the apportionment's
      for (uint64_t position = 0; position < samples; ++position) {
        if (position % c.block == 0) {
          ASSERT_EQ(counts, apportionment.Counts(position)) << c.weights[0] << " " << position;
        }
        ++counts[SourceOf(sources, order->RecordAt(epoch, position))];
        elsewhere += counts != apportionment.Counts(position + 1);
      }
      ASSERT_EQ(counts, apportionment.Counts(samples));
      EXPECT_GT(elsewhere, samples / 10) << "blocks are shuffled";
    }
  }
}

// A fixed pattern would give one of two ranks with batches of one all the samples of one source.
TEST(MixtureOrderTest, SourcesDoNotFallInWithRanks) {
  const std::vector<MixedRecords> sources = {Mixed(1, "global {}", {1000}),
                                             Mixed(1, "global {}", {1000})};
  const auto order = MixtureOf(sources, 1, 1600);
  uint64_t even = 0;
  for (uint64_t position = 0; position < 1600; position += 2) {
    even += SourceOf(sources, order->RecordAt(0, position));
  }
  EXPECT_GT(even, 340);  // of 800; without a shuffle 0 or 800
  EXPECT_LT(even, 460);
}

TEST(MixtureOrderTest, EpochsAndSeedsDiffer) {
  const std::vector<MixedRecords> sources = {Mixed(1, "sequential {}", {64}),
                                             Mixed(1, "sequential {}", {64})};
  const auto order = MixtureOf(sources, 1, 128);
  // Both epochs draw each source from its beginning, so only the pattern can differ.
  EXPECT_NE(Records(*order, 0, 128), Records(*order, 1, 128));
  EXPECT_NE(Records(*order, 0, 128), Records(*MixtureOf(sources, 2, 128), 0, 128));
}

TEST(MixtureOrderTest, EqualSourcesAreShuffledIndependently) {
  const std::vector<MixedRecords> sources = {Mixed(1, "global {}", {1000}),
                                             Mixed(1, "global {}", {1000})};
  const auto order = MixtureOf(sources, 1, 2000);
  std::vector<uint64_t> of[2];
  for (const uint64_t record : Records(*order, 0, 2000)) of[record / 1000].push_back(record % 1000);
  ASSERT_EQ(of[0].size(), of[1].size());
  uint64_t equal = 0;
  for (size_t i = 0; i < of[0].size(); ++i) equal += of[0][i] == of[1][i];
  EXPECT_LT(equal, 20);  // one expected
}

TEST(MixtureOrderTest, AnyPositionMayBeAskedForFirst) {
  const std::vector<MixedRecords> sources = {Mixed(0.7, "global {}", {90}),
                                             Mixed(0.3, "sequential {}", {31})};
  const auto forward = Records(*MixtureOf(sources, 4, 300), 2, 300);
  const auto order = MixtureOf(sources, 4, 300);
  for (uint64_t i = 300; i-- > 0;) {
    ASSERT_EQ(order->RecordAt(2, i), forward[i]);
    order->RecordAt(i, i);
  }
}

TEST(MixtureOrderTest, HugeEpochsDoNotOverflow) {
  const std::vector<MixedRecords> sources = {Mixed(0.5, "sequential {}", {uint64_t{1} << 62}),
                                             Mixed(0.5, "sequential {}", {3})};
  const auto order = MixtureOf(sources, 1, Apportionment::kMaxLength);
  EXPECT_LT(order->RecordAt(UINT64_MAX, Apportionment::kMaxLength - 1), (uint64_t{1} << 62) + 3);
}

TEST(MixtureOrderTest, NeverChanges) {
  const auto order =
      MixtureOf({Mixed(0.9, "global {}", {1003}), Mixed(0.1, "sequential {}", {50})}, 7, 1000);
  EXPECT_EQ(Records(*order, 3, 12),
            (std::vector<uint64_t>{243, 892, 885, 844, 509, 575, 40, 275, 645, 97, 616, 622}));
}

TEST(MixtureSamplesPerEpochTest, FollowsThePolicy) {
  const std::vector<double> weights = {0.9, 0.1};
  const std::vector<uint64_t> sizes = {900, 1000};
  EXPECT_EQ(*MixtureSamplesPerEpoch(Policy(weights, v1::MIXTURE_STOP_FIRST_EXHAUSTED), sizes),
            1000);  // the next one, at 1000, would be the 901st of the first
  EXPECT_EQ(*MixtureSamplesPerEpoch(Policy(weights, v1::MIXTURE_STOP_ALL_EXHAUSTED), sizes),
            9996);  // 9995 × 0.9 is 8995.5, and the half goes to the heavier one
  EXPECT_EQ(*MixtureSamplesPerEpoch(Policy(weights, v1::MIXTURE_STOP_NEVER, 77), sizes), 77);
}

std::string ReasonOf(const absl::Status& status) {
  const auto info = GetErrorInfo(status);
  return info.has_value() ? info->reason : "none";
}

TEST(MixtureSamplesPerEpochTest, SaysWhatCannotBe) {
  const auto empty =
      MixtureSamplesPerEpoch(Policy({1, 1}, v1::MIXTURE_STOP_ALL_EXHAUSTED), {{5, 0}});
  EXPECT_EQ(ReasonOf(empty.status()), reason::kNoSamples);
  EXPECT_THAT(std::string(empty.status().message()), testing::HasSubstr("sources[1]"));
  const auto endless =
      MixtureSamplesPerEpoch(Policy({1e9, 1e-9}, v1::MIXTURE_STOP_ALL_EXHAUSTED), {{5, 5000}});
  EXPECT_EQ(ReasonOf(endless.status()), reason::kSpecInvalid);
  const auto wanted =
      MixtureSamplesPerEpoch(Policy({1, 1}, v1::MIXTURE_STOP_NEVER, UINT64_MAX), {{5, 5}});
  EXPECT_EQ(ReasonOf(wanted.status()), reason::kSpecInvalid);
}

TEST(MixtureOrderTest, RefusesWhatMakesNoSense) {
  const MixedRecords good = Mixed(1, "sequential {}", {5});
  const MixedRecords weightless = Mixed(0, "sequential {}", {5});
  const MixedRecords empty = Mixed(1, "sequential {}", {});
  EXPECT_EQ(ReasonOf(MakeMixtureOrder({}, 1, 5).status()), reason::kSpecInvalid);
  EXPECT_EQ(ReasonOf(MakeMixtureOrder({good, good}, 1, 0).status()), reason::kSpecInvalid);
  EXPECT_EQ(ReasonOf(MakeMixtureOrder({good, weightless}, 1, 5).status()), reason::kSpecInvalid);
  EXPECT_EQ(ReasonOf(MakeMixtureOrder({good, empty}, 1, 5).status()), reason::kNoSamples);
}

}  // namespace
}  // namespace bulkhead
