#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"
#include "server/stages/declaration/option.h"
#include "server/stages/declaration/spec_error.h"

namespace bulkhead {

// The declared options of one message. Immutable.
class OptionTable {
 public:
  // Ends the process if an option is not a field of the message, which is a bug.
  OptionTable(const google::protobuf::Descriptor* message, std::vector<Option> options);

  const google::protobuf::Descriptor* message() const { return message_; }
  // Null if nothing was declared for the field.
  const Option* Find(absl::string_view name) const;

  // Fills in defaults, in the order of the declaration; adds mistakes to `problems`, at most one
  // per option. `path`: the place of `options`.
  void Normalize(google::protobuf::Message& options, const std::string& path,
                 SpecProblems& problems) const;

  // Fills in defaults, and checks nothing.
  void FillDefaults(google::protobuf::Message& options) const;

  // Adds, to normalized options, the defaults that the normal form omits.
  void FillImplied(google::protobuf::Message& options) const;

  // Replaces, in normalized options, defaults by those of the first version.
  void NameFirstDefaults(google::protobuf::Message& options) const;

  // If `name` cannot be 0, the message "is 0; it must lie between 1 and 100"; else empty. A message
  // does not tell a plain number that was set to 0 from one that was not set, so the reader of the
  // text has to ask.
  std::string ProblemOfZero(absl::string_view name) const;

  const std::vector<Option>& options() const { return options_; }

  // Checks that every required option is set and every value is allowed, also in options that are
  // not normalized: a worker does not trust its messages. Errors: SPEC_INVALID.
  absl::Status CheckRequired(const google::protobuf::Message& options,
                             absl::string_view path) const;

 private:
  // What to write for `name` where none of the options is given: "; write `one_hot: {classes:
  // 10}`". Empty if a required option has no example.
  std::string Example(absl::string_view name) const;

  const google::protobuf::Descriptor* message_;
  std::vector<Option> options_;
};

}  // namespace bulkhead
