// What a process in the workers' sandbox tells the tool that started it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/explain/stage_times.h"
#include "tools/preview/real_values.h"

namespace bulkhead::tools {
namespace {

TEST(RunTextsTest, WhatWasMeasuredComesBack) {
  MeasuredStages measured;
  measured.stages = {{"source", 0.1}, {"stages[0] python\t\xc3\xbc", 1e-9}, {"batch", 0.25}};
  measured.samples = 7;
  measured.samples_per_epoch = uint64_t{1} << 40;
  measured.jpeg.crops = 1;
  measured.jpeg.mcus = 2;
  measured.jpeg.mcus_read = 3;
  measured.kept_found = 4;
  measured.kept_sample_bytes = 5;
  measured.seen[{"source", "an image"}] = {7, 700, 101};
  const auto back = MeasuredStagesFromText(TextOf(measured));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(TextOf(*back), TextOf(measured));
  EXPECT_EQ(back->stages[1].name, measured.stages[1].name);
  EXPECT_EQ(back->stages[1].seconds, 1e-9);
  EXPECT_EQ(back->sample_seconds, 0.1 + 1e-9 + 0.25);
  EXPECT_EQ(back->samples_per_epoch, uint64_t{1} << 40);
  EXPECT_EQ(back->kept_sample_bytes, 5);
  EXPECT_EQ(back->seen.at({"source", "an image"}).most_bytes, 101);
}

TEST(RunTextsTest, ValuesOfImagesComeBack) {
  const std::map<int, ImageValues> values = {{0, {"uint8 [any,any,3]", {12, 0, 0, 255, 1.0 / 3}}},
                                             {4, {"float32 [any,any,1]", {5, 6, -1.5, 2.5, 0.1}}}};
  const auto back = ImageValuesFromText(TextOf(values));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(TextOf(*back), TextOf(values));
  EXPECT_EQ(back->at(0).stats.mean, 1.0 / 3);
  EXPECT_EQ(back->at(4).stats.not_finite, 6);
  EXPECT_EQ(back->at(4).type, "float32 [any,any,1]");
}

TEST(RunTextsTest, AnotherTextIsRefused) {
  for (const char* text : {"", "stage\tsource\tfast\n", "counts\t1\nstage\tsource\t1\n"}) {
    EXPECT_FALSE(MeasuredStagesFromText(text).ok()) << text;
  }
  EXPECT_FALSE(ImageValuesFromText("0\tuint8\t1\n").ok());
}

}  // namespace
}  // namespace bulkhead::tools
