#pragma once

#include <cstdint>

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
