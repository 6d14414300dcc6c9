#pragma once

#include "server/data/index_kind.h"

namespace bulkhead::tools {

// Tells on standard error what data are looked for or read, once that takes longer than people wait
// in silence. The line ends with the last copy of the function.
FindProgressFn ShowFinding();

}  // namespace bulkhead::tools
