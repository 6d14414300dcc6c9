#pragma once

#include <vector>

#include "server/metrics/metric.h"

namespace bulkhead {

// Every metric of the service, each declared here and nowhere else. The order decides which get
// series if there is no room for all: the service, its workers, its streams, stages of workers.
// docs/metrics.md lists them; a test compares. A name is part of the public API: it may be added,
// never renamed.
const std::vector<Metric>& MetricTable();

}  // namespace bulkhead
