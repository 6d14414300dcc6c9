#pragma once

#include <set>
#include <string>

namespace bulkhead {

// What a pipeline's stages are called in workers' reports, without the worker itself and the
// source, and what they do.
struct PipelineStages {
  std::set<std::string> names;
  std::set<std::string> keeping;   // of these, those that keep samples, and wait for their disk
  std::set<std::string> decoding;  // those that decode images, soon where a cache has their parts
};

}  // namespace bulkhead
