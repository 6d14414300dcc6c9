#ifndef BULKHEAD_SERVER_STAGES_RUNNING_USER_CODE_H_
#define BULKHEAD_SERVER_STAGES_RUNNING_USER_CODE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace bulkhead {

// The interpreter that a worker of Python stages lives in (server/worker/python). Thread-safe: it
// runs one call at a time, because the user's functions, and the generators that they share, need
// not bear more.
class PythonHost {
 public:
  virtual ~PythonHost() = default;

  // How a call ended.
  enum class Verdict {
    kOk = 100,         // not 0, which is also what a call that went wrong altogether may return
    kFailed = 1,       // the function raised an exception: a verdict on the sample
    kWrongShape = 2,   // what it returned has not the declared shape
    kOverBound = 3,    // … or more rows or bytes than declared
    kUnusable = 4,     // the function breaks its contract, whatever the sample
    kOutOfMemory = 5,  // MemoryError
  };

  // Imports the function of a stage. `stage` is a v1::Python as JSON; `inputs` says what it gets:
  // for each input "DTYPE/DIMENSIONS" ("uint8/3"), or "bytes". Returns the number that Call takes.
  // Error: STAGE_UNUSABLE, for people, when it cannot be imported or called so.
  virtual absl::StatusOr<int> Load(const std::string& stage,
                                   const std::vector<std::string>& inputs) = 0;

  // Calls the function. `words` is the call: three words of random bits, then for every input its
  // address, its bytes, the bytes from row to row (0: there is no gap) and its extents, as many as
  // Load was told; then for every output the address where its elements belong, for as many as
  // declared, and a word for the extent that the variable dimension has in the end (bytes: the
  // length). `error` receives the reason of a verdict that is not kOk.
  virtual Verdict Call(int number, std::vector<int64_t>& words, std::string& error) = 0;

  // A file of the user's that was loaded, and the SHA-256 of what was run, as hex.
  struct LoadedFile {
    std::string path;
    std::string digest;
  };
  // Those that were loaded since the last call. Cheap where there are none.
  virtual std::vector<LoadedFile> TakeLoaded() { return {}; }

  // From now on SIGQUIT has the stacks of all Python threads written to `fd`, whatever those are
  // at. False where the interpreter cannot.
  virtual bool WriteStacksTo(int fd) {
    (void)fd;
    return false;
  }

  // A line that a function printed or logged: `level` as Python's logging has it (20: info),
  // `function` the one that runs or ran last.
  using NoteFn = std::function<void(int level, const std::string& function, const char* text)>;
  // From now on every such line is also given to `note`, on the thread that made it. `note` must
  // not wait. Call it before Load.
  virtual void SendNotesTo(NoteFn note) { (void)note; }
};

// The user's own code that a worker may run. A plain value; what it points to outlives the
// pipelines that were made with it.
struct UserCode {
  PythonHost* python = nullptr;  // null: this process has no interpreter
  // Folders, links resolved, below which modules with functions of Python stages lie.
  std::vector<std::string> python_paths;
  // Folders, links resolved, below which libraries of native stages lie.
  std::vector<std::string> native_paths;
  // What the code reads to be loaded: its folders, and the interpreter's.
  std::vector<std::string> readable;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_STAGES_RUNNING_USER_CODE_H_
