#ifndef BULKHEAD_TOOLS_TRACE_TRACE_SUMMARY_H_
#define BULKHEAD_TOOLS_TRACE_TRACE_SUMMARY_H_

#include <string>

#include "tools/trace/timeline.h"

namespace bulkhead::tools {

// What a time line has, for people: how much of it, and where its workers' time went. Several
// lines, each with a newline.
std::string SummarizeTimeline(const Timeline& timeline);

}  // namespace bulkhead::tools

#endif  // BULKHEAD_TOOLS_TRACE_TRACE_SUMMARY_H_
