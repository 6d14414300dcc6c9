#pragma once

namespace bulkhead::tools {

// Specs that are written beside a synthetic set, one for each way of reading it.
extern const char kFolderSpec[];
extern const char kListSpec[];
extern const char kTfRecordSpec[];
extern const char kFaceSpec[];
extern const char kRangeSpec[];

}  // namespace bulkhead::tools
