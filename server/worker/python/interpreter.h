#ifndef BULKHEAD_SERVER_WORKER_PYTHON_INTERPRETER_H_
#define BULKHEAD_SERVER_WORKER_PYTHON_INTERPRETER_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "server/stages/running/user_code.h"

// The C functions that worker_host.py provides in the interpreter. All but the last two run Python
// and take the interpreter's lock themselves.
extern "C" {
// Returns the stage's number; below 0 `error` holds the reason (-2: memory was refused).
typedef int (*BulkheadPythonLoad)(const char* stage, const char* inputs, char* error,
                                  uint64_t error_bytes);
// Returns a PythonHost::Verdict.
typedef int (*BulkheadPythonCall)(int number, int64_t* words, char* error, uint64_t error_bytes);
// Writes path and SHA-256 of the user files loaded since the last call, each followed by a 0, as
// many as fit. Returns the number of bytes.
typedef uint64_t (*BulkheadPythonTakeLoaded)(char* text, uint64_t text_bytes);
// From now on SIGQUIT writes the stacks of all threads to `fd`. Returns 0 on failure.
typedef int (*BulkheadPythonStacks)(int fd);
// Takes a line that a function printed or logged; any thread.
typedef void (*BulkheadPythonNote)(void* context, int level, const char* function,
                                   const char* text);
// From now on every such line is given to `note`.
typedef int (*BulkheadPythonNotes)(BulkheadPythonNote note, void* context);
// Writes the last report on growth (internal.v1.PythonGrowth) as JSON, if there is one that was not
// taken yet. Returns the number of bytes.
typedef uint64_t (*BulkheadPythonTakeGrowth)(char* text, uint64_t text_bytes);
// PyGILState_Ensure and PyEval_SaveThread.
typedef int (*BulkheadPythonEnsure)();
typedef void* (*BulkheadPythonSave)();
}

namespace bulkhead {

// The interpreter that loaded this library. Lives as long as the process. Thread-safe: one thread
// at a time runs Python.
class Interpreter final : public PythonHost {
 public:
  struct Functions {
    BulkheadPythonLoad load;
    BulkheadPythonCall call;
    BulkheadPythonTakeLoaded take_loaded;
    const uint64_t* loaded_count;  // number of loaded user files
    BulkheadPythonStacks stacks;
    BulkheadPythonNotes notes;
    // Null unless it looks at what functions leave allocated: then the number of its reports, and
    // where it reads how many samples were done.
    BulkheadPythonTakeGrowth take_growth;
    const uint64_t* growth_count;
    uint64_t* samples;
    BulkheadPythonEnsure ensure;
    BulkheadPythonSave save;
  };
  explicit Interpreter(const Functions& functions) : functions_(functions) {}

  absl::StatusOr<int> Load(const std::string& stage,
                           const std::vector<std::string>& inputs) override;
  Verdict Call(int number, std::vector<int64_t>& words, std::string& error) override;
  std::vector<LoadedFile> TakeLoaded() override;
  bool WriteStacksTo(int fd) override { return functions_.stacks(fd) != 0; }
  void SendNotesTo(NoteFn note) override;
  std::string TakeGrowth(uint64_t samples) override;

 private:
  // Gives this thread a permanent state in the interpreter; a state made for one call costs more
  // than the call.
  void Attach() const;

  const Functions functions_;
  NoteFn note_;
  absl::Mutex one_at_a_time_;
  std::atomic<uint64_t> taken_{0};         // of *loaded_count
  std::atomic<uint64_t> growth_taken_{0};  // of *growth_count
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_WORKER_PYTHON_INTERPRETER_H_
