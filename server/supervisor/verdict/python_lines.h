#pragma once

#include <string>

#include "bulkhead/internal/v1/worker.pb.h"
#include "bulkhead/v1/loader.pb.h"

namespace bulkhead {

// What a worker said of its Python's memory, without what cannot be true and what is no text: a
// worker runs the user's code, which may send anything.
internal::v1::PythonGrowth CheckGrowth(const internal::v1::PythonGrowth& said);

// Adds to the verdict on a stage that leaks which of its lines does, and how much is allocated
// outside Python. Needs stage, code and bytes per sample.
void AddPythonLines(const internal::v1::PythonGrowth& growth, v1::Verdict& verdict);

// For the sentence: ", 23.9KiB of it allocated at my_aug.py:17 in rotate"; empty: not known.
std::string PythonLinesText(const v1::Verdict& verdict);

}  // namespace bulkhead
