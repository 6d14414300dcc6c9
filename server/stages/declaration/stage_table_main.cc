// Writes the table of all stages and their options as JSON: bulkhead-stage-table DESCRIPTORS >
// stages.json, where DESCRIPTORS is what `protoc --include_source_info --descriptor_set_out` made
// of stages.proto. Part of the build.
#include <fstream>
#include <iostream>

#include "server/stages/declaration/stage_table.h"

int main(int argc, char** argv) {
  google::protobuf::FileDescriptorSet files;
  std::ifstream input(argc == 2 ? argv[1] : "", std::ios::binary);
  if (!files.ParseFromIstream(&input)) {
    std::cerr << "usage: bulkhead-stage-table DESCRIPTORS, a set of descriptors with source info\n";
    return 2;
  }
  const absl::StatusOr<std::string> table = bulkhead::StageTableJson(files);
  if (!table.ok()) {
    std::cerr << table.status() << "\n";
    return 1;
  }
  std::cout << *table;
  return 0;
}
