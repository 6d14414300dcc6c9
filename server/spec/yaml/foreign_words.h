#ifndef BULKHEAD_SERVER_SPEC_YAML_FOREIGN_WORDS_H_
#define BULKHEAD_SERVER_SPEC_YAML_FOREIGN_WORDS_H_

#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"
#include "server/spec/yaml/yaml_tree.h"

namespace bulkhead {

// What to write instead of a word that PyTorch, torchvision, TensorFlow or Keras has for it, and
// that `type` (a message of a spec) lacks: "write order: global". `value`: what stands behind the
// word, which the line to write keeps where it can; null: nothing. Empty: the word is known of no
// library.
std::string ForeignWordAdvice(absl::string_view word, const YamlNode* value,
                              const google::protobuf::Descriptor& type);

// A word as it is looked up, "centercrop", and its advice, in which `$0` stands for the value that
// was written, or else for `example`. `stage` takes the options of a map as they were written;
// empty: none does.
struct ForeignWord {
  std::string word;
  std::string sentence;
  std::string example;
  std::string stage;
};

// All that ForeignWordAdvice knows for `type`, sorted by word; the Python client's are made of
// them.
std::vector<ForeignWord> ForeignWords(const google::protobuf::Descriptor& type);

// The names of options here by those in other libraries: "kernel" by "kernel_size".
const std::map<std::string, std::string>& ForeignOptionNames();

// What else a lone value can mean in the place of a message, "; for …": torchvision's Resize(224)
// is another size than [224, 224]. Empty for most.
std::string OtherMeaning(const google::protobuf::Descriptor& type, absl::string_view value);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SPEC_YAML_FOREIGN_WORDS_H_
