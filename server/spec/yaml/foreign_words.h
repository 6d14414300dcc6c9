#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"
#include "server/spec/yaml/yaml_tree.h"

namespace bulkhead {

// Advice for a word of PyTorch, torchvision, TensorFlow or Keras that `type` (a message of a spec)
// does not have: "write order: global". `value`: the word's value, which the advice keeps if it
// can; null: none. Empty if no library has the word.
std::string ForeignWordAdvice(absl::string_view word, const YamlNode* value,
                              const google::protobuf::Descriptor& type);

// The advice for a word. `$0` in it is replaced by the written value, or else by `example`. `stage`
// takes the options of a map as they were written; empty: none does.
struct ForeignWord {
  const char* sentence;
  const char* example = "";
  const char* stage = "";
};

// All words of ForeignWordAdvice for `type`, in the form for look-ups, "centercrop"; the Python
// client's words are generated from them.
const std::map<std::string, ForeignWord>& ForeignWords(const google::protobuf::Descriptor& type);

// The names of options here by those in other libraries: "kernel" by "kernel_size".
const std::map<std::string, std::string>& ForeignOptionNames();

// What else a single value can mean instead of a message, "; for …": torchvision's Resize(224)
// differs from [224, 224]. Usually empty.
std::string OtherMeaning(const google::protobuf::Descriptor& type, absl::string_view value);

}  // namespace bulkhead
