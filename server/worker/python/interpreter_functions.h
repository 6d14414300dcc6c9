#pragma once

#include <cstdint>

extern "C" {
// Takes a line that a function printed or logged; any thread.
typedef void (*BulkheadPythonNote)(void* context, int level, const char* function,
                                   const char* text);

// What worker_host.py provides in the interpreter, for which it is an array of pointers. All
// functions but the last two run Python and take the interpreter's lock themselves.
struct BulkheadPython {
  // Returns the stage's number; below 0 `error` holds the reason (-2: memory was refused).
  int (*load)(const char* stage, const char* inputs, char* error, uint64_t error_bytes);
  // Returns a PythonHost::Verdict.
  int (*call)(int number, int64_t* words, char* error, uint64_t error_bytes);
  // Writes path and SHA-256 of the user files loaded since the last call, each followed by a 0, as
  // many as fit. Returns the number of bytes.
  uint64_t (*take_loaded)(char* text, uint64_t text_bytes);
  const uint64_t* loaded_count;  // number of loaded user files
  // From now on SIGQUIT writes the stacks of all threads to `fd`. Returns 0 on failure.
  int (*stacks)(int fd);
  // From now on every such line is given to `note`.
  int (*notes)(BulkheadPythonNote note, void* context);
  // Writes the last report on growth (internal.v1.PythonGrowth) as JSON, if there is one that was
  // not taken yet. Returns the number of bytes. Null unless the host looks at what functions leave
  // allocated: then the number of its reports, and where it reads how many samples were done.
  uint64_t (*take_growth)(char* text, uint64_t text_bytes);
  const uint64_t* growth_count;
  uint64_t* samples;
  // PyGILState_Ensure and PyEval_SaveThread.
  int (*ensure)();
  void* (*save)();
};
}
