#ifndef BULKHEAD_SERVER_SPEC_YAML_FOREIGN_WORDS_H_
#define BULKHEAD_SERVER_SPEC_YAML_FOREIGN_WORDS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"

namespace bulkhead {

// What to write instead of a word that PyTorch, torchvision, TensorFlow or Keras has for it, and
// that `type` (PipelineSpec, Batch, Order, Stage, Source) lacks: "write order: global". `value`:
// what stands behind the word, as it is written; empty where it is none that can be repeated.
// Empty: the word is known of no library.
std::string ForeignWordAdvice(absl::string_view word, absl::string_view value,
                              const google::protobuf::Descriptor& type);

// What else a lone value can mean in the place of a message, "; for …": torchvision's Resize(224)
// is another size than [224, 224]. Empty for most.
std::string OtherMeaning(const google::protobuf::Descriptor& type, absl::string_view value);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SPEC_YAML_FOREIGN_WORDS_H_
