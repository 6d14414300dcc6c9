#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace bulkhead::tools {

// A line of a chart: points from left to right.
struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;
  bool dashed = false;
};

// Several curves over samples, as an SVG element with a key below it, for a page of HTML that
// defines the colours --c0 to --c6, --faint and --line. `number` names a height: "24MiB". Curves
// beyond the seventh share the last colour. Empty if no curve has two points.
std::string CurveChart(const std::string& title, const std::vector<Curve>& curves,
                       std::string (*number)(double));

// `text` as HTML shows it, in an attribute, too.
std::string Escaped(absl::string_view text);

}  // namespace bulkhead::tools
