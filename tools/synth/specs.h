#ifndef BULKHEAD_TOOLS_SYNTH_SPECS_H_
#define BULKHEAD_TOOLS_SYNTH_SPECS_H_

namespace bulkhead::tools {

// Specs that are written beside a synthetic set, one for each way of reading it.
extern const char kFolderSpec[];
extern const char kListSpec[];
extern const char kTfRecordSpec[];
extern const char kFaceSpec[];
extern const char kRangeSpec[];

}  // namespace bulkhead::tools

#endif  // BULKHEAD_TOOLS_SYNTH_SPECS_H_
