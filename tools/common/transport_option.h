#ifndef BULKHEAD_TOOLS_COMMON_TRANSPORT_OPTION_H_
#define BULKHEAD_TOOLS_COMMON_TRANSPORT_OPTION_H_

#include <CLI/CLI.hpp>

#include "bulkhead/loader.h"

namespace bulkhead::tools {

// Adds --transport auto|shm|grpc, which sets `transport`; that must outlive the parsing.
void AddTransportOption(CLI::App& command, Transport& transport);

}  // namespace bulkhead::tools

#endif  // BULKHEAD_TOOLS_COMMON_TRANSPORT_OPTION_H_
