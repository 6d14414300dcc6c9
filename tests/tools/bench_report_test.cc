#include "tools/measure/bench_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace bulkhead::tools {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(BenchReportTest, OneBatchHasNoRate) {
  StreamRunReport report;
  report.batches = 1;
  report.samples = 64;
  EXPECT_THAT(RunReportText(report), AllOf(HasSubstr("one batch only: no rate"),
                                           Not(HasSubstr("samples/s")), Not(HasSubstr("median"))));
  EXPECT_THAT(
      RunReportJson(report, "x").Text(),
      AllOf(HasSubstr("\"samples_per_second\": null"), HasSubstr("\"bytes_per_second\": null"),
            HasSubstr("\"p50\": null"), HasSubstr("\"p99\": null"), HasSubstr("\"max\": null")));
}

TEST(BenchReportTest, TwoBatchesHaveOne) {
  StreamRunReport report;
  report.batches = 2;
  report.samples_per_second = 128;
  report.gap_seconds = {0.5};
  report.service.supervisor_memory_bytes = 1 << 20;
  EXPECT_THAT(RunReportText(report), AllOf(HasSubstr("128.0 samples/s"), HasSubstr("500.0 ms"),
                                           Not(HasSubstr("no rate"))));
  EXPECT_THAT(RunReportJson(report, "x").Text(),
              AllOf(HasSubstr("\"samples_per_second\": 128"), HasSubstr("\"max\": 0.5")));
}

TEST(BenchReportTest, WhatTheServiceDoesNotTellIsLeftOut) {
  StreamRunReport report;
  EXPECT_THAT(RunReportText(report),
              AllOf(HasSubstr("memory: arena"), HasSubstr("the right `status`"),
                    Not(HasSubstr("supervisor")), Not(HasSubstr("CPU: service"))));
  report.service.supervisor_memory_bytes = 1 << 20;
  EXPECT_THAT(RunReportText(report),
              AllOf(HasSubstr("memory: supervisor"), HasSubstr("CPU: service")));
}

}  // namespace
}  // namespace bulkhead::tools
