#ifndef BULKHEAD_SERVER_SPEC_DECLARED_OPTIONS_H_
#define BULKHEAD_SERVER_SPEC_DECLARED_OPTIONS_H_

#include <map>
#include <string>

#include "google/protobuf/descriptor.h"
#include "server/stages/declaration/option_table.h"

namespace bulkhead {

// What is declared of the options of every message that a spec may hold: those of stages by their
// families (server/stages), those of sources, orders, features and batches here. Null where nothing
// is: any value that the field's type has will do.
const OptionTable* DeclaredOptions(const google::protobuf::Descriptor* message);

// The same of one field.
const Option* DeclaredOption(const google::protobuf::FieldDescriptor& field);

// OptionTable::Normalize of a message of which something is declared.
void NormalizeOptions(google::protobuf::Message& options, const std::string& path,
                      SpecProblems& problems);

// Samples of a batch and everything that counts them fit easily below this; more is a slip.
inline constexpr uint64_t kMaxBatchSize = uint64_t{1} << 24;
// Endings of the files of an image folder that count as images, where the spec names none.
inline constexpr const char* kImageExtensions[] = {"bmp", "jpeg", "jpg",  "pgm", "png",
                                                   "ppm", "tif",  "tiff", "webp"};
// Longer paths than any file system takes.
inline constexpr uint64_t kMaxMaxPathBytes = 65'536;

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SPEC_DECLARED_OPTIONS_H_
