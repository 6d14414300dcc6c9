#pragma once

#include <string>
#include <vector>

#include "server/image/image.h"

namespace bulkhead::tools {

struct PlotPoint {
  double x = 0;
  double y = 0;
};

// What a plot shows.
struct ScatterPlot {
  std::string title;
  std::string subtitle;
  std::string x_label;
  std::string y_label;
  std::vector<PlotPoint> points;
  std::vector<double> rules;  // faint horizontal lines, such as the borders of files
};

// Draws dots on axes that fit them, with round numbers; points that are not finite are left out.
void DrawScatter(const ScatterPlot& plot, Image& image);

// Round numbers in [low, high], about `wanted` of them; one when both are equal.
std::vector<double> Ticks(double low, double high, int wanted);

// "2000", "15k", "2.5M", "0.25".
std::string TickLabel(double value);

}  // namespace bulkhead::tools
