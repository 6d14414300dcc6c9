#pragma once

#include <cstdint>

#include "server/base/paths/object_url.h"
#include "server/objects/object_call.h"
#include "server/objects/object_store.h"

namespace bulkhead {

// ObjectStore::Read of a range that is not empty and lies in the object, whose URL was parsed.
void ReadRange(CallRunner* calls, const ObjectInfo& object, const ObjectUrl& target, uint64_t begin,
               uint64_t end, ObjectStore::Sink sink, ObjectStore::OnRead done);

}  // namespace bulkhead
