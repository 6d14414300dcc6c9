#include "server/spec/fingerprint.h"

#include <functional>

#include "gmock/gmock.h"
#include "server/spec/canonical.h"
#include "server/spec/normalize/normalize.h"
#include "tests/spec/spec_makers.h"

namespace bulkhead {
namespace {

v1::PipelineSpec RecordsToImages() {
  auto spec = RecordSpec(R"(
    features { key: 'image' value { bytes {} } }
    features { key: 'label' value { int64 {} } }
    stages { decode_image {} } stages { resize { size: 8 } } stages { normalize { mean: 0.5 } }
    order { global {} } seed: 7 errors { policy: ERROR_ACTION_SUBSTITUTE })");
  EXPECT_TRUE(Normalize(spec).ok());
  return spec;
}

internal::v1::ResolvedSource TwoFiles() {
  return FromText<internal::v1::ResolvedSource>(R"(
    files { path: '/data/a.tfrecord' name: 'a.tfrecord' size_bytes: 100 mtime_ns: 5
            record_count: 3 checksum: '\x01\xff' index_path: '/cache/a' }
    files { path: '/data/b.tfrecord' name: 'b.tfrecord' size_bytes: 200 record_count: 4
            checksum: '\x02' } base_dir: '/data' roots: '/data')");
}

// Cursors in people's checkpoints hold these: if one of them changes, so must the version in the
// fingerprint's text, and old cursors are refused.
TEST(FingerprintTest, IsStable) {
  EXPECT_EQ(OrderFingerprint(RecordsToImages(), TwoFiles()),
            "1009ee50508802e3be343d871b7cebcdc02bd4ca29dcb6e3caffc2ab05f8a890");
  EXPECT_EQ(BytesFingerprint(RecordsToImages()),
            "26d5b34cca87d9702d07a2a881f833d8c36ea06a53b0b6f320cae82edd33c9c9");
}

// Cursors of the version whose default was 32,000,000 pixels.
TEST(FingerprintTest, TheDefaultPixelCapIsNamedAsAtFirst) {
  const auto capped = [](uint64_t max_pixels) {
    auto spec = RecordsToImages();
    spec.mutable_stages(0)->mutable_decode_image()->set_max_pixels(max_pixels);
    return BytesFingerprint(spec);
  };
  EXPECT_EQ(capped(32'000'000), BytesFingerprint(RecordsToImages()));
  EXPECT_NE(capped(31'999'999), BytesFingerprint(RecordsToImages()));
}

constexpr BytesChange kChanges[] = {{"resize", "halves round up"},
                                    {"mosaic", "its seams"},
                                    {"decode_image", "BMP files with bit masks"},
                                    {"resize", "edges"}};

TEST(FingerprintTest, WhatAReleaseChangedIsNamed) {
  const v1::PipelineSpec spec = RecordsToImages();
  const std::string now = BytesFingerprint(spec, kChanges);
  const auto since = [&](size_t release) {
    const std::string then = BytesFingerprint(spec, absl::MakeSpan(kChanges, release));
    return ChangedSince(
        spec, [&](const std::string& fingerprint) { return fingerprint == then; }, kChanges);
  };
  EXPECT_EQ(BytesFingerprint(spec, {}), BytesFingerprint(RecordsToImages()));
  EXPECT_EQ(since(3), "resize (edges)");
  EXPECT_EQ(since(2), "decode_image (BMP files with bit masks), resize (edges)");
  EXPECT_EQ(since(1), since(2)) << "this spec has no mosaic";
  EXPECT_EQ(since(0),
            "resize (halves round up), decode_image (BMP files with bit masks), resize (edges)");
  EXPECT_NE(now, BytesFingerprint(spec, absl::MakeSpan(kChanges, 3)));
  EXPECT_EQ(ChangedSince(
                spec, [](const std::string&) { return false; }, kChanges),
            "");
}

TEST(FingerprintTest, AChangeOfAStageOfABatchOrOfAMixedSourceCounts) {
  const BytesChange changes[] = {{"mixup", "its weights"}, {"decode_image", "BMP files"}};
  auto batches = RecordSpec("batch_stages { mixup {} }");
  EXPECT_NE(BytesFingerprint(batches, changes), BytesFingerprint(batches, {}));
  v1::PipelineSpec mixed;
  mixed.mutable_source()->mutable_mixture()->add_sources()->add_stages()->mutable_decode_image();
  EXPECT_NE(BytesFingerprint(mixed, changes), BytesFingerprint(mixed, {}));
}

TEST(FingerprintTest, TheOrderOfDeliveryIsInNeither) {
  for (const bool deterministic : {true, false}) {
    auto spec = RecordsToImages();
    spec.set_deterministic(deterministic);
    EXPECT_EQ(OrderFingerprint(spec, TwoFiles()), OrderFingerprint(RecordsToImages(), TwoFiles()));
    EXPECT_EQ(BytesFingerprint(spec), BytesFingerprint(RecordsToImages()));
  }
}

// Options that orders gained later leave the text of specs without them as it was.
TEST(FingerprintTest, OrdersOfEarlierVersionsKeepTheirText) {
  for (const auto& [order, text] : std::vector<std::pair<const char*, const char*>>{
           {"", "{sequential={};}"},
           {"order { sequential { shuffle_files: false } }", "{sequential={};}"},
           {"order { global {} }", "{global={reshuffle=b1;};}"},
           {"order { interleave { cycle_length: 4 } }",
            "{interleave={block_length=u1;cycle_length=u4;};}"}}) {
    auto spec = FromText<v1::PipelineSpec>(
        absl::StrCat("source { range { size: 9 } } batch { size: 1 } ", order));
    EXPECT_TRUE(Normalize(spec).ok());
    EXPECT_EQ(CanonicalText(spec.order()), text);
  }
}

TEST(FingerprintTest, GroupingOfSamplesIsInNeither) {
  auto spec = RecordsToImages();
  spec.mutable_batch()->set_size(99);
  spec.mutable_batch()->set_last(v1::LAST_BATCH_PAD);
  spec.set_epochs(4);
  EXPECT_EQ(OrderFingerprint(spec, TwoFiles()), OrderFingerprint(RecordsToImages(), TwoFiles()));
  EXPECT_EQ(BytesFingerprint(spec), BytesFingerprint(RecordsToImages()));
}

TEST(FingerprintTest, PlacesAndTimesAreNotInTheOrder) {
  auto spec = RecordsToImages();
  spec.mutable_source()->mutable_tfrecord()->set_files(0, "*.tfrecord");
  auto files = TwoFiles();
  files.mutable_files(0)->set_path("/elsewhere/a.tfrecord");
  files.mutable_files(0)->set_mtime_ns(77);
  files.mutable_files(0)->set_index_path("/elsewhere/a");
  files.set_base_dir("/elsewhere");
  files.set_roots(0, "/elsewhere");
  EXPECT_EQ(OrderFingerprint(spec, files), OrderFingerprint(RecordsToImages(), TwoFiles()));
}

// It may be spelt ".", and another machine may call it otherwise.
TEST(FingerprintTest, AFolderGoesByWhatItHolds) {
  auto spec = RecordsToImages();
  spec.mutable_source()->mutable_image_folder()->set_path("photos");
  auto photos = TwoFiles();
  photos.mutable_files()->RemoveLast();
  auto moved = photos;
  moved.mutable_files(0)->set_name("data");
  EXPECT_EQ(OrderFingerprint(spec, moved), OrderFingerprint(spec, photos));
  moved.mutable_files(0)->set_checksum("\x03");
  EXPECT_NE(OrderFingerprint(spec, moved), OrderFingerprint(spec, photos));
}

TEST(FingerprintTest, FilesDecideTheOrder) {
  const std::string before = OrderFingerprint(RecordsToImages(), TwoFiles());
  const std::function<void(internal::v1::ResolvedSource&)> changes[] = {
      [](auto& files) { files.mutable_files(0)->set_name("c.tfrecord"); },
      [](auto& files) { files.mutable_files(0)->set_size_bytes(101); },
      [](auto& files) { files.mutable_files(1)->set_record_count(5); },
      [](auto& files) { files.mutable_files(1)->set_checksum("\x03"); },
      [](auto& files) { files.mutable_files()->SwapElements(0, 1); },
      [](auto& files) { files.mutable_files()->RemoveLast(); }};
  for (const auto& change : changes) {
    auto files = TwoFiles();
    change(files);
    EXPECT_NE(OrderFingerprint(RecordsToImages(), files), before) << files.DebugString();
  }
}

TEST(FingerprintTest, OrderAndSeedAreInTheOrderOnly) {
  const std::function<void(v1::PipelineSpec&)> changes[] = {
      [](auto& spec) { spec.set_seed(8); },
      [](auto& spec) { spec.mutable_order()->mutable_sequential(); },
      [](auto& spec) { spec.mutable_order()->mutable_sequential()->set_shuffle_files(true); },
      [](auto& spec) { spec.mutable_order()->mutable_interleave()->set_cycle_length(2); },
      [](auto& spec) { spec.mutable_order()->mutable_block()->set_block_size(2); },
      [](auto& spec) { spec.mutable_order()->mutable_global()->set_reshuffle(false); }};
  for (const auto& change : changes) {
    auto spec = RecordsToImages();
    change(spec);
    EXPECT_NE(OrderFingerprint(spec, TwoFiles()), OrderFingerprint(RecordsToImages(), TwoFiles()));
    EXPECT_EQ(BytesFingerprint(spec), BytesFingerprint(RecordsToImages()));
  }
}

TEST(FingerprintTest, ProcessingIsInTheBytesOnly) {
  const std::function<void(v1::PipelineSpec&)> changes[] = {
      [](auto& spec) { (*spec.mutable_features())["label"].set_key("other"); },
      [](auto& spec) { (*spec.mutable_features())["more"].mutable_int64(); },
      [](auto& spec) { spec.mutable_stages(1)->mutable_resize()->set_size(0, 9); },
      [](auto& spec) { spec.mutable_stages(2)->mutable_normalize()->set_mean(0, 0.50000006f); },
      [](auto& spec) { spec.mutable_stages()->SwapElements(0, 1); },
      [](auto& spec) { spec.mutable_stages()->RemoveLast(); },
      [](auto& spec) { spec.add_outputs("label"); },
      [](auto& spec) { spec.mutable_errors()->set_policy(v1::ERROR_ACTION_FAIL); },
      [](auto& spec) { spec.mutable_errors()->set_max_fraction(0.5); }};
  for (const auto& change : changes) {
    auto spec = RecordsToImages();
    change(spec);
    EXPECT_NE(BytesFingerprint(spec), BytesFingerprint(RecordsToImages())) << spec.DebugString();
    EXPECT_EQ(OrderFingerprint(spec, TwoFiles()), OrderFingerprint(RecordsToImages(), TwoFiles()));
  }
}

TEST(FingerprintTest, WhatClassesOfRecordsAreCalledIsInNeither) {
  auto spec = RecordsToImages();
  spec.add_filter()->set_feature("label");
  const std::string order = OrderFingerprint(spec, TwoFiles());
  const std::string bytes = BytesFingerprint(spec);
  (*spec.mutable_features())["label"].mutable_int64()->add_classes("cat");
  EXPECT_EQ(OrderFingerprint(spec, TwoFiles()), order);
  EXPECT_EQ(BytesFingerprint(spec), bytes);
}

TEST(FingerprintTest, CacheStagesAreNoPartOfIt) {
  auto spec = RecordsToImages();
  v1::Stage cache;
  cache.mutable_cache()->set_key("1");
  *spec.add_stages() = cache;
  for (int i = spec.stages_size() - 1; i > 1; --i) spec.mutable_stages()->SwapElements(i, i - 1);
  ASSERT_TRUE(spec.stages(1).has_cache());
  EXPECT_EQ(BytesFingerprint(spec), BytesFingerprint(RecordsToImages()));
  EXPECT_EQ(OrderFingerprint(spec, TwoFiles()), OrderFingerprint(RecordsToImages(), TwoFiles()));
}

TEST(FingerprintTest, ListsAreCutInTheOrderAndNamedInTheBytes) {
  const auto list = [](const char* text) {
    auto spec = FromText<v1::PipelineSpec>(
        absl::StrCat("source { image_list { entries: ['a b 1'] ", text, " } } batch { size: 1 }"));
    EXPECT_TRUE(Normalize(spec).ok());
    return spec;
  };
  const auto before = list("images: 'x'");
  const internal::v1::ResolvedSource none;
  for (const char* cut :
       {"images: ['x', 'y']", "images: 'x' header: true", "images: 'x' delimiter: DELIMITER_SPACE",
        "images: 'x' unlabeled: true", "images: 'x' entries: 'c 1'"}) {
    EXPECT_NE(OrderFingerprint(list(cut), none), OrderFingerprint(before, none)) << cut;
  }
  for (const char* named :
       {"images: 'y'", "images: 'x' labels: 'z'", "images: 'x' label_dtype: DTYPE_FLOAT32",
        "images: 'x' max_path_bytes: 9", "images: 'x' classes: 'z'"}) {
    EXPECT_NE(BytesFingerprint(list(named)), BytesFingerprint(before)) << named;
    EXPECT_EQ(OrderFingerprint(list(named), none), OrderFingerprint(before, none)) << named;
  }
  // The file's names count once they stand in `classes`, wherever it lies.
  const auto from_file = list("images: 'x' classes_file: 'names.txt'");
  EXPECT_EQ(BytesFingerprint(from_file), BytesFingerprint(before));
  EXPECT_EQ(OrderFingerprint(from_file, none), OrderFingerprint(before, none));
}

TEST(CanonicalTextTest, FollowsItsGrammar) {
  EXPECT_EQ(CanonicalText(FromText<v1::PipelineSpec>(
                "features { key: 'b' value { int64 { shape: [-1, 4] max_count: 2 } } } "
                "features { key: 'a' value { bytes { default: '' } } } epochs: 0 "
                "stages { normalize { mean: [1, -0.0, nan] } } "
                "stages { resize { interpolation: INTERPOLATION_AREA } } "
                "batch { drop_remainder: false } stages { random_horizontal_flip { probability: "
                "0.5 } } outputs: 'x;y'")),
            "{batch={drop_remainder=b0;};epochs=u0;"
            "features=<s1:a:{bytes={default=s0:;};},s1:b:{int64={max_count=u2;shape=[i-1,i4];};}>;"
            "outputs=[s3:x;y];"
            "stages=[{normalize={mean=[f3f800000,f80000000,fnan];};},"
            "{resize={interpolation=eINTERPOLATION_AREA;};},"
            "{random_horizontal_flip={probability=d3fe0000000000000;};}];}");
}

TEST(CanonicalTextTest, LeavesFieldsOut) {
  EXPECT_EQ(CanonicalText(FromText<v1::PipelineSpec>("seed: 5 epochs: 2"), {"epochs"}),
            "{seed=u5;}");
}

}  // namespace
}  // namespace bulkhead
