#pragma once

#include <map>
#include <string>

#include "google/protobuf/descriptor.h"
#include "server/stages/declaration/option_table.h"

namespace bulkhead {

// The declared options of a message in a spec. Families declare those of stages (server/stages);
// those of sources, orders, features and batches are declared here. Null if there is no
// declaration: then every value of the field's type is allowed.
const OptionTable* DeclaredOptions(const google::protobuf::Descriptor* message);

// The declaration of one field.
const Option* DeclaredOption(const google::protobuf::FieldDescriptor& field);

// OptionTable::Normalize for a message with declared options.
void NormalizeOptions(google::protobuf::Message& options, const std::string& path,
                      SpecProblems& problems);

// The largest batch size and the like. A larger number must be a mistake.
inline constexpr uint64_t kMaxBatchSize = uint64_t{1} << 24;
// Endings of the files of an image folder that count as images, if the spec names none.
inline constexpr const char* kImageExtensions[] = {"bmp", "jpeg", "jpg",  "pgm", "png",
                                                   "ppm", "tif",  "tiff", "webp"};
// Longer than the paths of any file system.
inline constexpr uint64_t kMaxMaxPathBytes = 65'536;

}  // namespace bulkhead
