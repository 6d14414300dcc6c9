#pragma once

#include "bulkhead/loader.h"
#include "bulkhead/v1/loader.pb.h"

namespace bulkhead::client_internal {

// The service's messages as the library's public types.
StreamMemory ToStreamMemory(const v1::MemoryPlan& plan);
LoaderProgress ToLoaderProgress(const v1::Progress& progress);
NoteEvent ToNoteEvent(const v1::Note& note);

}  // namespace bulkhead::client_internal
