#ifndef BULKHEAD_SERVER_WORKER_PYTHON_INTERPRETER_H_
#define BULKHEAD_SERVER_WORKER_PYTHON_INTERPRETER_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/pipeline/user_code.h"

// What the interpreter's side, worker_host.py, hands over: functions in C's convention, of which
// the first three run Python and take the interpreter's lock themselves.
extern "C" {
// Returns the stage's number; below 0: `error` says why not (-2: memory was refused).
typedef int (*BulkheadPythonLoad)(const char* stage, const char* inputs, char* error,
                                  uint64_t error_bytes);
// Returns a PythonHost::Verdict.
typedef int (*BulkheadPythonCall)(int number, int64_t* words, char* error, uint64_t error_bytes);
// Writes path and SHA-256 of the user's files that were loaded since the last call, each with a 0
// behind it, as many as fit. Returns how many bytes that are.
typedef uint64_t (*BulkheadPythonTakeLoaded)(char* text, uint64_t text_bytes);
// From now on SIGQUIT writes the stacks of all threads to `fd`. Returns 0 when that cannot be.
typedef int (*BulkheadPythonStacks)(int fd);
// PyGILState_Ensure and PyEval_SaveThread.
typedef int (*BulkheadPythonEnsure)();
typedef void* (*BulkheadPythonSave)();
}

namespace bulkhead {

// The interpreter that loaded this library. Lives as long as the process. Thread-safe: one call at
// a time is in Python.
class Interpreter final : public PythonHost {
 public:
  struct Functions {
    BulkheadPythonLoad load;
    BulkheadPythonCall call;
    BulkheadPythonTakeLoaded take_loaded;
    const uint64_t* loaded_count;  // of the user's files, so far
    BulkheadPythonStacks stacks;
    BulkheadPythonEnsure ensure;
    BulkheadPythonSave save;
  };
  explicit Interpreter(const Functions& functions) : functions_(functions) {}

  absl::StatusOr<int> Load(const std::string& stage,
                           const std::vector<std::string>& inputs) override;
  Verdict Call(int number, std::vector<int64_t>& words, std::string& error) override;
  std::vector<LoadedFile> TakeLoaded() override;
  bool WriteStacksTo(int fd) override { return functions_.stacks(fd) != 0; }

 private:
  // Gives this thread a state in the interpreter for good: one that a call makes for itself ends
  // with the call, and costs more than the call.
  void Attach() const;

  const Functions functions_;
  absl::Mutex one_at_a_time_;
  std::atomic<uint64_t> taken_{0};  // of *loaded_count
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_WORKER_PYTHON_INTERPRETER_H_
