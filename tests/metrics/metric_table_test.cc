#include "server/metrics/metric_table.h"

#include <cstdlib>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"

namespace bulkhead {
namespace {

using ::testing::ElementsAreArray;

TEST(MetricTableTest, NamesFollowPrometheus) {
  for (const Metric& metric : MetricTable()) {
    const std::string name = metric.name;
    EXPECT_TRUE(std::regex_match(name, std::regex("bulkhead_[a-z_]*[a-z]"))) << name;
    EXPECT_EQ(absl::EndsWith(name, "_total"), TypeOf(metric) == prometheus::MetricType::Counter)
        << name;
  }
}

TEST(MetricTableTest, EveryMetricIsDeclaredOnceAndExplained) {
  std::set<std::string> names;
  for (const Metric& metric : MetricTable()) {
    EXPECT_TRUE(names.insert(metric.name).second) << metric.name;
    EXPECT_GT(std::string(metric.help).size(), 10) << metric.name;
    EXPECT_EQ(std::string(metric.help).back(), '.') << metric.name;
  }
}

TEST(MetricTableTest, NoLabelNamesAProcess) {
  for (const Metric& metric : MetricTable()) {
    for (const std::string label : metric.labels) {
      EXPECT_TRUE(label != "pid" && label != "generation" && label != "boot_id")
          << metric.name << ": such a label would make a series of every worker there ever was";
    }
  }
}

// "bytes " of "bulkhead_object_fetched_bytes_total", as a column has it; empty for a plain number.
std::string UnitColumn(absl::string_view name) {
  absl::ConsumeSuffix(&name, "_total");
  absl::ConsumeSuffix(&name, "_dropped");
  for (const absl::string_view unit : {"bytes", "seconds", "lines"}) {
    if (absl::EndsWith(name, absl::StrCat("_", unit))) return absl::StrCat(unit, " ");
  }
  return "";
}

// The rows of docs/metrics.md, as the table has them.
TEST(MetricTableTest, TheDocumentationListsEveryMetric) {
  const char* root = std::getenv("BULKHEAD_SOURCE_DIR");
  std::ifstream file(absl::StrCat(root == nullptr ? "." : root, "/docs/metrics.md"));
  std::vector<std::string> documented;
  for (std::string line; std::getline(file, line);) {
    if (absl::StartsWith(line, "| `bulkhead_")) documented.push_back(line);
  }
  std::vector<std::string> declared;
  for (const Metric& metric : MetricTable()) {
    const prometheus::MetricType type = TypeOf(metric);
    const char* const shown = type == prometheus::MetricType::Counter     ? "counter"
                              : type == prometheus::MetricType::Histogram ? "histogram"
                                                                          : "gauge";
    declared.push_back(absl::StrCat("| `", metric.name, "` | ", shown, " | ",
                                    UnitColumn(metric.name), "| ",
                                    absl::StrJoin(metric.labels, ", "),
                                    metric.labels.empty() ? "" : " ", "| ", metric.help, " |"));
  }
  EXPECT_THAT(documented, ElementsAreArray(declared)) << "the table of docs/metrics.md should be:\n"
                                                      << absl::StrJoin(declared, "\n");
}

}  // namespace
}  // namespace bulkhead
