#ifndef BULKHEAD_SERVER_STAGES_USER_PYTHON_FUNCTION_H_
#define BULKHEAD_SERVER_STAGES_USER_PYTHON_FUNCTION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "bulkhead/v1/stages.pb.h"
#include "server/base/random.h"
#include "server/stages/running/user_code.h"

namespace bulkhead {

// A function of the user's in the interpreter that this worker lives in: what stages of samples and
// of batches have in common. Load once, then Call from any thread.
class PythonFunction {
 public:
  // Imports the function; `inputs` as for PythonHost::Load. STAGE_UNUSABLE when that cannot be.
  absl::Status Load(const v1::Python& spec, const std::vector<std::string>& inputs,
                    const UserCode& user_code);

  // Begins the words of a call: those of the random numbers.
  static void BeginWords(SampleRandom random, std::vector<int64_t>& words);

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

#endif  // BULKHEAD_SERVER_STAGES_USER_PYTHON_FUNCTION_H_
