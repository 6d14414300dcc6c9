#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "bulkhead/v1/stages.pb.h"
#include "server/base/random.h"
#include "server/stages/running/user_code.h"

namespace bulkhead {

// A user's function in the interpreter that this worker lives in, for stages of samples and of
// batches. Load once, then Call from any thread.
class PythonFunction {
 public:
  // Imports the function; `inputs` as for PythonHost::Load. STAGE_UNUSABLE if it cannot be
  // imported.
  absl::Status Load(const v1::Python& spec, const std::vector<std::string>& inputs,
                    const UserCode& user_code);

  // Begins the words of a call, with the random numbers and the epoch.
  static void BeginWords(SampleRandom random, uint64_t epoch, std::vector<int64_t>& words);

  // Makes the call. Errors: STAGE_FAILED, WRONG_SHAPE, OVER_BOUND (made as sample errors),
  // STAGE_UNUSABLE. Throws std::bad_alloc for Python's MemoryError.
  absl::Status Call(std::vector<int64_t>& words) const;

 private:
  std::string name_;
  PythonHost* host_ = nullptr;
  int number_ = 0;
};

// An address as a word of a call.
int64_t WordOf(const void* data);

}  // namespace bulkhead
