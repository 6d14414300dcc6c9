#pragma once

#include <cstddef>
#include <string>

#include "server/base/paths/object_url.h"
#include "server/objects/object_call.h"
#include "server/objects/object_store.h"

namespace bulkhead {

// ObjectStore::Find of one object, or of those that match, for a URL that was parsed.
void FindOne(CallRunner* calls, const std::string& url, const ObjectUrl& target,
             ObjectStore::OnFound done);
void FindMatches(CallRunner* calls, const std::string& pattern, const ObjectUrl& target,
                 size_t most, ObjectStore::OnFound done);

// ObjectStore::List of a folder that was parsed.
void ListPage(CallRunner* calls, const ListQuery& query, const ObjectUrl& target,
              ObjectStore::OnListed done);

}  // namespace bulkhead
