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
    EXPECT_EQ(absl::EndsWith(name, "_total"), metric.type == prometheus::MetricType::Counter)
        << name;
    const std::string stem(absl::StripSuffix(name, "_total"));
    for (const char* unit : {"bytes", "seconds"}) {
      EXPECT_EQ(absl::EndsWith(stem, absl::StrCat("_", unit)), metric.unit == std::string(unit))
          << name;
    }
    EXPECT_TRUE(metric.type == prometheus::MetricType::Counter ||
                metric.type == prometheus::MetricType::Gauge ||
                metric.type == prometheus::MetricType::Histogram)
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
    const char* const type = metric.type == prometheus::MetricType::Counter     ? "counter"
                             : metric.type == prometheus::MetricType::Histogram ? "histogram"
                                                                                : "gauge";
    declared.push_back(absl::StrCat("| `", metric.name, "` | ", type, " | ", metric.unit,
                                    metric.unit[0] == '\0' ? "" : " ", "| ",
                                    absl::StrJoin(metric.labels, ", "),
                                    metric.labels.empty() ? "" : " ", "| ", metric.help, " |"));
  }
  EXPECT_THAT(documented, ElementsAreArray(declared)) << "the table of docs/metrics.md should be:\n"
                                                      << absl::StrJoin(declared, "\n");
}

}  // namespace
}  // namespace bulkhead
