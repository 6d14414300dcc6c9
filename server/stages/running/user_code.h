#pragma once

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
// not be thread-safe.
class PythonHost {
 public:
  virtual ~PythonHost() = default;

  // How a call ended.
  enum class Verdict {
    kOk = 100,         // not 0, which a call that failed entirely may also return
    kFailed = 1,       // the function raised an exception: a verdict on the sample
    kWrongShape = 2,   // the result does not have the declared shape
    kOverBound = 3,    // … or more rows or bytes than declared
    kUnusable = 4,     // the function breaks its contract, whatever the sample
    kOutOfMemory = 5,  // MemoryError
  };

  // Imports the function of a stage. `stage` is a v1::Python as JSON; `inputs` has
  // "DTYPE/DIMENSIONS" ("uint8/3") or "bytes" for each input. Returns the number for Call. Error:
  // STAGE_UNUSABLE, human-readable, if the function cannot be imported or called with these.
  virtual absl::StatusOr<int> Load(const std::string& stage,
                                   const std::vector<std::string>& inputs) = 0;

  // Calls the function. `words` has three words of random bits; then for every input its address,
  // its bytes, the bytes from row to row (0: no gaps) and its extents, as many as Load got; then
  // for every output the address for its elements, with room for as many as declared, and a word
  // that gets the extent of the variable dimension (for bytes: the length). `error` gets the reason
  // of a verdict other than kOk.
  virtual Verdict Call(int number, std::vector<int64_t>& words, std::string& error) = 0;

  // A loaded user file, and the SHA-256 of what was run, as hex.
  struct LoadedFile {
    std::string path;
    std::string digest;
  };
  // The files loaded since the last call. Cheap if there are none.
  virtual std::vector<LoadedFile> TakeLoaded() { return {}; }

  // From now on SIGQUIT writes the stacks of all Python threads to `fd`, whatever they are doing;
  // the thread that gets the signal is called the current one. False if the interpreter does not
  // support it.
  virtual bool WriteStacksTo(int fd) {
    (void)fd;
    return false;
  }

  // A line that a function printed or logged: `level`: that of Python's logging (20: info).
  // `function`: the one that runs or ran last.
  using NoteFn = std::function<void(int level, const std::string& function, const char* text)>;
  // From now on every such line is also given to `note`, on the thread that made it. `note` must
  // not wait. Call it before Load.
  virtual void SendNotesTo(NoteFn note) { (void)note; }

  // A new internal.v1.PythonGrowth as JSON; empty: there is none. Cheap then. `samples`: that the
  // worker has done so far.
  virtual std::string TakeGrowth(uint64_t samples) {
    (void)samples;
    return "";
  }
};

// The user code that a worker may run. A plain value; what it points to outlives the pipelines that
// were made with it.
struct UserCode {
  PythonHost* python = nullptr;  // null: this process has no interpreter
  // Folders (links resolved) of modules with functions for Python stages.
  std::vector<std::string> python_paths;
  // Folders (links resolved) of libraries for native stages.
  std::vector<std::string> native_paths;
  // The folders that loading the code reads: its own, and the interpreter's.
  std::vector<std::string> readable;
};

}  // namespace bulkhead
