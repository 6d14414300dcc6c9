#include "tools/common/transport_option.h"

#include <string>

namespace bulkhead::tools {

void AddTransportOption(CLI::App& command, Transport& transport) {
  command
      .add_option_function<std::string>(
          "--transport",
          [&transport](const std::string& name) {
            for (const Transport known : {Transport::kAuto, Transport::kShm, Transport::kGrpc}) {
              if (name == TransportName(known)) transport = known;
            }
          },
          "How batches travel: shm (shared memory), grpc, or auto (shm if available)")
      ->check(CLI::IsMember({"auto", "shm", "grpc"}))
      ->default_str(TransportName(transport));
}

}  // namespace bulkhead::tools
