#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "bulkhead/v1/loader.pb.h"

namespace bulkhead {

// The facts that metrics are made of, at one moment: the status, and counts that only metrics need.
struct StatusSnapshot {
  // Not explicit: a status alone is a snapshot of a service that replaced no worker.
  StatusSnapshot(v1::GetStatusResponse service_status,
                 std::map<v1::RecycleCause, uint64_t> counts = {})
      : status(std::move(service_status)), recyclings(std::move(counts)) {}

  v1::GetStatusResponse status;
  std::map<v1::RecycleCause, uint64_t> recyclings;  // planned replacements since the start
};

}  // namespace bulkhead
