#include "server/service/stream_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/cursor_version.h"
#include "server/base/error.h"
#include "server/service/cursor_check.h"
#include "server/service/quarantine_store.h"

namespace bulkhead {
namespace {

PreparedPipeline Prepared() {
  PreparedPipeline prepared;
  prepared.spec.mutable_source()->mutable_range()->set_size(100);
  prepared.spec.mutable_batch()->set_size(30);
  prepared.spec.mutable_batch()->set_last(v1::LAST_BATCH_PARTIAL);
  prepared.samples_per_epoch = 100;
  prepared.order_fingerprint = "order";
  prepared.bytes_fingerprint = "bytes";
  return prepared;
}

v1::Open OpenRequest() {
  v1::Open open;
  open.set_name("test");
  return open;
}

v1::Open OpenAt(uint64_t epoch, uint64_t consumed) {
  v1::Open open = OpenRequest();
  v1::Cursor& cursor = *open.mutable_cursor();
  cursor.set_version(kCursorVersion);
  cursor.set_order_fingerprint("order");
  cursor.set_bytes_fingerprint("bytes");
  cursor.set_samples_per_epoch(100);
  cursor.set_epoch(epoch);
  cursor.set_consumed(consumed);
  return open;
}

std::string ReasonOf(const v1::Open& open, const PreparedPipeline& prepared = Prepared()) {
  const auto plan = PlanBatches(open, prepared);
  return plan.ok() ? "OK" : GetErrorInfo(plan.status())->reason;
}

TEST(PlanBatchesTest, BeginsWhereTheCursorStands) {
  const auto plan = PlanBatches(OpenAt(3, 60), Prepared());
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->At(0).epoch, 3);
  EXPECT_EQ(plan->At(0).first_position, 60);
  EXPECT_EQ(plan->batches_left_in_first_epoch(), 2);
}

TEST(PlanBatchesTest, CursorsOfOtherVersionsAreRefusedInWords) {
  const auto problem = [](uint32_t version) {
    v1::Open open = OpenAt(0, 0);
    open.mutable_cursor()->set_version(version);
    const absl::Status status = PlanBatches(open, Prepared()).status();
    EXPECT_EQ(GetErrorInfo(status)->reason, "CURSOR_MISMATCH");
    return std::string(status.message());
  };
  EXPECT_EQ(problem(1),
            "the cursor has version 1, and this release reads version 2, which names files by the "
            "spec alone, so splits and orders may differ; finish the run with the release that "
            "wrote the cursor, or start without one");
  EXPECT_EQ(problem(3),
            "the cursor has version 3, and this release reads version 2; use the release of "
            "Bulkhead that wrote it");
}

// A cursor of an unordered stream that stands at position 0 of epoch 0, before four batches.
PreparedPipeline Unordered() {
  PreparedPipeline prepared = Prepared();
  prepared.spec.set_deterministic(false);
  return prepared;
}

v1::Open OpenBehind(std::initializer_list<uint32_t> completed) {
  v1::Open open = OpenAt(0, 0);
  for (const uint32_t batch : completed) open.mutable_cursor()->add_completed(batch);
  open.mutable_cursor()->set_batch_size(30);
  open.mutable_cursor()->set_world_size(1);
  return open;
}

TEST(PlanBatchesTest, BatchesDeliveredOutOfTurnBindBatchSizeAndWorldSize) {
  EXPECT_EQ(ReasonOf(OpenBehind({1, 3}), Unordered()), "OK");
  v1::Open open = OpenBehind({1, 3});
  open.mutable_cursor()->set_batch_size(31);
  EXPECT_EQ(ReasonOf(open, Unordered()), "CURSOR_MISMATCH");
  open = OpenBehind({1});
  open.set_world_size(2);
  EXPECT_EQ(ReasonOf(open, Unordered()), "CURSOR_MISMATCH");
  open = OpenBehind({});
  open.set_world_size(2);
  EXPECT_EQ(ReasonOf(open, Unordered()), "OK");
}

TEST(PlanBatchesTest, AnOrderedStreamDoesNotGoOnBetweenBatchesDeliveredOutOfTurn) {
  EXPECT_EQ(ReasonOf(OpenBehind({1})), "CURSOR_MISMATCH");
  EXPECT_EQ(ReasonOf(OpenBehind({})), "OK");
}

TEST(PlanBatchesTest, RefusesDamagedListsOfDeliveredBatches) {
  EXPECT_EQ(ReasonOf(OpenBehind({0}), Unordered()), "CURSOR_MISMATCH");
  EXPECT_EQ(ReasonOf(OpenBehind({2, 2}), Unordered()), "CURSOR_MISMATCH");
  EXPECT_EQ(ReasonOf(OpenBehind({3, 1}), Unordered()), "CURSOR_MISMATCH");
  EXPECT_EQ(ReasonOf(OpenBehind({4}), Unordered()),
            "CURSOR_MISMATCH");  // four batches are left: 0 to 3
}

TEST(MakeOpenedTest, SaysThatBatchesComeOutOfTurn) {
  const v1::Open plain = OpenAt(0, 0);
  EXPECT_FALSE(
      MakeOpened(plain, Prepared(), *PlanBatches(plain, Prepared()), QuarantineSet(), "boot")
          .unordered());
  EXPECT_TRUE(MakeStreamConfig(plain, Prepared(), *PlanBatches(plain, Prepared())).ordered);
  const PreparedPipeline prepared = Unordered();
  const v1::Open open = OpenBehind({1, 3});
  const BatchPlan plan = *PlanBatches(open, prepared);
  EXPECT_TRUE(MakeOpened(open, prepared, plan, QuarantineSet(), "boot").unordered());
  EXPECT_EQ(MakeOpened(open, prepared, plan, QuarantineSet(), "boot").batches_left_in_epoch(), 2);
  EXPECT_FALSE(MakeStreamConfig(open, prepared, plan).ordered);
  EXPECT_EQ(MakeStreamConfig(open, prepared, plan).completed, (std::vector<uint32_t>{1, 3}));
}

TEST(MakeOpenedTest, NothingIsLeftBehindTheLastEpoch) {
  PreparedPipeline prepared = Prepared();
  prepared.spec.set_epochs(2);
  const auto left_at = [&](uint64_t epoch) {
    const v1::Open open = OpenAt(epoch, 0);
    return MakeOpened(open, prepared, *PlanBatches(open, prepared), QuarantineSet(), "boot")
        .batches_left_in_epoch();
  };
  EXPECT_EQ(left_at(1), 4);
  EXPECT_EQ(left_at(2), 0);
}

TEST(PlanBatchesTest, RefusesACursorOfOtherData) {
  EXPECT_EQ(ReasonOf(OpenAt(0, 0)), "OK");
  v1::Open open = OpenAt(0, 0);
  open.mutable_cursor()->set_order_fingerprint("another");
  EXPECT_EQ(ReasonOf(open), "CURSOR_MISMATCH");
  open = OpenAt(0, 0);
  open.mutable_cursor()->set_samples_per_epoch(99);
  EXPECT_EQ(ReasonOf(open), "CURSOR_MISMATCH");
  open = OpenAt(0, 0);
  open.mutable_cursor()->set_version(1);
  EXPECT_EQ(ReasonOf(open), "CURSOR_MISMATCH");
  EXPECT_EQ(ReasonOf(OpenAt(0, 101)), "CURSOR_MISMATCH");
}

TEST(PlanBatchesTest, ChangedBytesMayBeAllowed) {
  v1::Open open = OpenAt(0, 0);
  open.mutable_cursor()->set_bytes_fingerprint("another");
  EXPECT_EQ(ReasonOf(open), "CURSOR_MISMATCH");
  open.set_allow_changed_bytes(true);
  EXPECT_EQ(ReasonOf(open), "OK");
}

v1::CodeFile Code(const std::string& name, const std::string& digest, bool later) {
  v1::CodeFile file;
  file.set_name(name);
  file.set_digest(digest);
  file.set_later(later);
  return file;
}

// Of a pipeline whose workers have loaded head.py; the cursor's had loaded late.py, too.
PreparedPipeline PreparedWithCode() {
  PreparedPipeline prepared = Prepared();
  prepared.code = {Code("head.py", "01", false)};
  prepared.code_on_disk = {Code("head.py", "01", false), Code("late.py", "02", false)};
  return prepared;
}

v1::Open OpenWithCode() {
  v1::Open open = OpenAt(0, 0);
  *open.mutable_cursor()->add_code() = Code("head.py", "01", false);
  *open.mutable_cursor()->add_code() = Code("late.py", "02", true);
  open.mutable_cursor()->set_bytes_fingerprint(
      FingerprintWithCode("bytes", {Code("head.py", "01", false)}));
  return open;
}

TEST(PlanBatchesTest, ARefusedCursorIsSaidToBeOfOtherDataOnlyWhereItIs) {
  const v1::Open open = OpenWithCode();
  PreparedPipeline other_stages = PreparedWithCode();
  other_stages.bytes_fingerprint = "other";
  const absl::Status stages = PlanBatches(open, other_stages).status();
  EXPECT_THAT(std::string(stages.message()),
              testing::AllOf(testing::HasSubstr("were made by another pipeline: its bytes"),
                             testing::Not(testing::HasSubstr("other data"))));
  PreparedPipeline other_data = PreparedWithCode();
  other_data.order_fingerprint = "other";
  EXPECT_THAT(std::string(PlanBatches(open, other_data).status().message()),
              testing::HasSubstr("the cursor belongs to other data"));
}

TEST(PlanBatchesTest, CodeThatWasLoadedLaterMustBeAsItWas) {
  const v1::Open open = OpenWithCode();
  PreparedPipeline prepared = PreparedWithCode();
  EXPECT_EQ(ReasonOf(open, prepared), "OK");
  prepared.code_on_disk[1].set_digest("03");
  const absl::Status changed = PlanBatches(open, prepared).status();
  EXPECT_EQ(GetErrorInfo(changed)->reason, reason::kCursorMismatch);
  EXPECT_EQ(GetErrorInfo(changed)->metadata["file"], "late.py");
  prepared.code_on_disk[1].clear_digest();
  EXPECT_EQ(ReasonOf(open, prepared), "CURSOR_MISMATCH") << "it is gone";
  v1::Open allowed = open;
  allowed.set_allow_changed_bytes(true);
  EXPECT_EQ(ReasonOf(allowed, prepared), "OK");
}

std::vector<std::string> CodeAtOpening(const v1::Open& open, const PreparedPipeline& prepared) {
  const BatchPlan plan = PlanBatches(open, prepared).value();
  const v1::Opened opened = MakeOpened(open, prepared, plan, QuarantineSet(), "boot");
  std::vector<std::string> code;
  for (const auto& file : opened.cursor().code()) {
    code.push_back(absl::StrCat(file.name(), file.digest(), file.later() ? " later" : ""));
  }
  return code;
}

TEST(MakeOpenedTest, KeepsWhatWasLoadedLaterUntilItIsLoadedAgain) {
  v1::Open open = OpenWithCode();
  PreparedPipeline prepared = PreparedWithCode();
  EXPECT_EQ(CodeAtOpening(open, prepared),
            (std::vector<std::string>{"head.py01", "late.py02 later"}));
  prepared.code.push_back(Code("late.py", "02", false));
  EXPECT_EQ(CodeAtOpening(open, prepared), (std::vector<std::string>{"head.py01", "late.py02"}));
  prepared = PreparedWithCode();
  prepared.code_on_disk[1].set_digest("03");
  open.set_allow_changed_bytes(true);
  EXPECT_EQ(CodeAtOpening(open, prepared), std::vector<std::string>{"head.py01"})
      << "it made none of the batches to come";
}

TEST(MakeStreamConfigTest, AnEditSinceTheLookAtTheDiskIsOneInMidStream) {
  v1::Open open = OpenWithCode();
  PreparedPipeline prepared = PreparedWithCode();
  const auto known = [&] {
    const auto plan = PlanBatches(open, prepared);
    return MakeStreamConfig(open, prepared, *plan).code[0].digest();
  };
  prepared.code[0].set_digest("04");
  EXPECT_EQ(known(), "01");
  open.set_allow_changed_bytes(true);
  EXPECT_EQ(known(), "04");
}

TEST(PlanBatchesTest, RefusesRequestsThatMakeNoSense) {
  v1::Open open = OpenRequest();
  open.set_rank(1);
  EXPECT_EQ(ReasonOf(open), "PROTOCOL_VIOLATION");
  open.set_world_size(2);
  EXPECT_EQ(ReasonOf(open), "OK");
  open.clear_name();
  EXPECT_EQ(ReasonOf(open), "PROTOCOL_VIOLATION");
}

TEST(PlanBatchesTest, RefusesAnEpochWithoutABatch) {
  PreparedPipeline prepared = Prepared();
  prepared.spec.mutable_batch()->set_size(101);
  EXPECT_EQ(ReasonOf(OpenRequest(), prepared), "OK");
  prepared.spec.mutable_batch()->set_last(v1::LAST_BATCH_DROP);
  EXPECT_EQ(ReasonOf(OpenRequest(), prepared), "NO_SAMPLES");
}

TEST(MakeStreamConfigTest, EndsBehindTheLastEpoch) {
  PreparedPipeline prepared = Prepared();
  prepared.spec.set_epochs(2);
  const v1::Open open = OpenAt(1, 60);
  const auto config = MakeStreamConfig(open, prepared, PlanBatches(open, prepared).value());
  EXPECT_EQ(config.batch_at(1)->sample_count(), 10);
  EXPECT_EQ(config.batch_at(1)->next_epoch(), 2);
  EXPECT_FALSE(config.batch_at(2).has_value());
}

TEST(MakeStreamConfigTest, SubstitutionsAreBoundedPerRankAndEpoch) {
  PreparedPipeline prepared = Prepared();
  v1::Open open = OpenRequest();
  open.set_world_size(3);
  EXPECT_EQ(MakeStreamConfig(open, prepared, PlanBatches(open, prepared).value())
                .max_substitutions_per_epoch,
            0);
  prepared.spec.mutable_errors()->set_policy(v1::ERROR_ACTION_SUBSTITUTE);
  prepared.spec.mutable_errors()->set_max_fraction(0.05);
  EXPECT_EQ(MakeStreamConfig(open, prepared, PlanBatches(open, prepared).value())
                .max_substitutions_per_epoch,
            2);  // ceil(0.05 × ceil(100 / 3))
}

TEST(MakeStreamConfigTest, StreamsWithEqualBytesShareIfTheyAreOneOwners) {
  const auto key = [](const v1::Open& open, const PreparedPipeline& prepared = Prepared(),
                      const std::string& owner = "") {
    return MakeStreamConfig(open, prepared, PlanBatches(open, prepared).value(), owner).share_key;
  };
  v1::Open open = OpenRequest();
  EXPECT_EQ(key(open), "");
  open.set_share(true);
  const std::string own = key(open);
  EXPECT_NE(own, "");
  v1::Open elsewhere = OpenAt(3, 60);
  elsewhere.set_share(true);
  elsewhere.set_name("another");
  elsewhere.set_keeps_all(true);
  PreparedPipeline larger = Prepared();
  larger.memory.set_slot_count(17);
  larger.spec.set_epochs(9);
  EXPECT_EQ(key(elsewhere, larger), own);

  PreparedPipeline seeded = Prepared();
  seeded.spec.set_seed(4711);
  EXPECT_NE(key(open, seeded), own);
  PreparedPipeline lenient = Prepared();
  lenient.spec.mutable_errors()->set_policy(v1::ERROR_ACTION_SUBSTITUTE);
  EXPECT_NE(key(open, lenient), own);
  EXPECT_NE(key(open, Prepared(), "alice"), own);
  EXPECT_NE(key(open, Prepared(), "alice"), key(open, Prepared(), "bob"));
  open.set_world_size(2);
  const std::string first = key(open);
  EXPECT_NE(first, own);
  open.set_rank(1);
  EXPECT_NE(key(open), first);
}

TEST(MakeStreamConfigTest, SaysWhyAStreamThatAsksToShareCannot) {
  const auto config = [](const v1::Open& open, bool can_share = true) {
    const PreparedPipeline prepared = Prepared();
    return MakeStreamConfig(open, prepared, PlanBatches(open, prepared).value(), "", can_share);
  };
  v1::Open open = OpenRequest();
  EXPECT_EQ(config(open, /*can_share=*/false).unshared, "") << "it did not ask";
  open.set_share(true);
  EXPECT_EQ(config(open).unshared, "");
  EXPECT_THAT(config(open, /*can_share=*/false).unshared, HasSubstr("(--share-window 0)"));
  EXPECT_EQ(config(open, /*can_share=*/false).share_key, "");
  open.set_assigned(true);
  EXPECT_THAT(config(open).unshared, HasSubstr("several services"));
  EXPECT_EQ(config(open).share_key, "");
}

TEST(MakeStreamConfigTest, TellsHowManyRecordsEachFileHolds) {
  const auto file_records = [](const PreparedPipeline& prepared) {
    const v1::Open open = OpenRequest();
    const auto config = MakeStreamConfig(open, prepared, PlanBatches(open, prepared).value());
    return std::vector<uint64_t>(config.binding.file_records().begin(),
                                 config.binding.file_records().end());
  };
  PreparedPipeline prepared = Prepared();
  EXPECT_EQ(file_records(prepared), std::vector<uint64_t>{100}) << "a range is one file";
  prepared.spec.mutable_source()->mutable_tfrecord();
  for (const uint64_t count : {30, 0, 70}) {
    prepared.resolved.add_files()->set_record_count(count);
  }
  EXPECT_EQ(file_records(prepared), (std::vector<uint64_t>{30, 0, 70}));
}

TEST(MakeStreamConfigTest, TellsTheOrderOfEverySourceOfAMixture) {
  PreparedPipeline prepared = Prepared();
  v1::MixtureSource& mixture = *prepared.spec.mutable_source()->mutable_mixture();
  v1::MixedSource& range = *mixture.add_sources();
  range.set_weight(0.25);
  range.mutable_source()->mutable_range()->set_size(9);
  range.mutable_order()->mutable_global()->set_reshuffle(true);
  v1::MixedSource& records = *mixture.add_sources();
  records.set_weight(0.75);
  records.mutable_source()->mutable_tfrecord();
  records.mutable_order()->mutable_interleave()->set_cycle_length(2);
  prepared.resolved.add_mixed();
  internal::v1::ResolvedSource& files = *prepared.resolved.add_mixed();
  for (const uint64_t count : {5, 6}) files.add_files()->set_record_count(count);

  const v1::Open open = OpenRequest();
  const auto binding =
      MakeStreamConfig(open, prepared, PlanBatches(open, prepared).value()).binding;
  EXPECT_FALSE(binding.has_order());
  EXPECT_TRUE(binding.file_records().empty());
  EXPECT_EQ(binding.samples_per_epoch(), 100u);
  ASSERT_EQ(binding.mixed_size(), 2);
  EXPECT_EQ(binding.mixed(0).ShortDebugString(),
            "weight: 0.25 order { global { reshuffle: true } } file_records: 9");
  EXPECT_EQ(binding.mixed(1).ShortDebugString(),
            "weight: 0.75 order { interleave { cycle_length: 2 } } file_records: 5 "
            "file_records: 6");
}

TEST(MakePipelineConfigTest, OnlyWhatDecidesTheSamplesIsInTheKey) {
  PreparedPipeline prepared = Prepared();
  const std::string key = MakePipelineConfig(prepared).key;
  prepared.spec.set_seed(9);
  prepared.spec.mutable_batch()->set_size(7);
  EXPECT_EQ(MakePipelineConfig(prepared).key, key);
  prepared.spec.add_stages()->mutable_one_hot()->set_classes(3);
  EXPECT_NE(MakePipelineConfig(prepared).key, key);
}

TEST(MoreSlotsTest, ThereAreAsManyAsTheWorkersCanFill) {
  PreparedPipeline prepared = Prepared();
  prepared.memory.set_slot_count(5);
  prepared.memory.set_slot_bytes(1000);
  PipelineConfig pipeline;
  v1::Open open = OpenRequest();
  const auto slots = [&](uint64_t batch_size) {
    prepared.signature.schema.set_batch_size(batch_size);
    return 5 + MoreSlots(open, prepared, pipeline);
  };
  pipeline.workers = 2;
  EXPECT_EQ(slots(8), 5u) << "two leases of each";
  pipeline.workers = 8;
  EXPECT_EQ(slots(8), 17u);
  EXPECT_EQ(slots(16), 17u);
  EXPECT_EQ(slots(17), 9u) << "two leases of a batch";
  EXPECT_EQ(slots(64), 5u);
  pipeline.whole_batches = true;
  EXPECT_EQ(slots(64), 17u);
  pipeline.whole_batches = false;
  pipeline.threads = 3;
  EXPECT_EQ(slots(8), 49u);
  pipeline.threads = 1;
  pipeline.tuning = TuningLimits{2, 16, 4.0};
  EXPECT_EQ(slots(8), 33u) << "of as many workers as there may be";
  pipeline.tuning->most = 1000;
  EXPECT_EQ(slots(8), 65u);
  prepared.memory.set_slot_bytes(uint64_t{10} << 20);
  EXPECT_EQ(slots(8), 12u) << "128 MiB";
  prepared.memory.set_slot_bytes(uint64_t{100} << 20);
  EXPECT_EQ(slots(8), 5u);
  prepared.memory.set_slot_bytes(1000);
  open.set_share(true);
  EXPECT_EQ(slots(8), 5u);
  open.set_share(false);
  open.set_assigned(true);
  EXPECT_EQ(slots(8), 5u);
}

std::string CursorOf(const v1::Open& open, const QuarantineStore& store) {
  auto set = QuarantineOf(open.cursor());
  if (const absl::Status added =
          set.ok() ? store.AddTo(*set, Prepared().bytes_fingerprint) : set.status();
      !added.ok()) {
    set = added;
  }
  if (!set.ok()) return GetErrorInfo(set.status())->reason;
  const v1::Opened opened =
      MakeOpened(open, Prepared(), *PlanBatches(open, Prepared()), *set, "boot");
  return absl::StrJoin(opened.cursor().quarantined(), " ");
}

TEST(OpenedQuarantineTest, UnitesTheCursorsRecordsWithTheServices) {
  QuarantineStore store("/nowhere");
  EXPECT_EQ(CursorOf(OpenRequest(), store), "");
  v1::QuarantinedRecord record;
  for (const auto& [name, bytes] : {std::pair("b", ""), {"d", "bytes"}, {"x", "other bytes"}}) {
    record.set_record(name);
    ASSERT_TRUE(store.Add(record, bytes).ok());
  }
  EXPECT_EQ(CursorOf(OpenRequest(), store), "b d");
  v1::Open open = OpenAt(0, 0);
  for (const char* name : {"c", "a", "b"}) open.mutable_cursor()->add_quarantined(name);
  EXPECT_EQ(CursorOf(open, store), "a b c d");
}

TEST(OpenedQuarantineTest, RefusesMoreThanACursorHolds) {
  const QuarantineStore store("/nowhere");
  v1::Open open = OpenAt(0, 0);
  for (int i = 0; i < 256; ++i) open.mutable_cursor()->add_quarantined(absl::StrCat("x@", i));
  EXPECT_NE(CursorOf(open, store), "QUARANTINE_FULL");
  open.mutable_cursor()->add_quarantined("x@256");
  EXPECT_EQ(CursorOf(open, store), "QUARANTINE_FULL");
  open.mutable_cursor()->clear_quarantined();
  open.mutable_cursor()->add_quarantined("");
  EXPECT_EQ(CursorOf(open, store), "INVALID_ARGUMENT");
}

}  // namespace
}  // namespace bulkhead
