#ifndef BULKHEAD_SERVER_STAGES_DECLARATION_OPTION_TABLE_H_
#define BULKHEAD_SERVER_STAGES_DECLARATION_OPTION_TABLE_H_

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
  // Ends the process when an option is no field of the message: a slip of ours.
  OptionTable(const google::protobuf::Descriptor* message, std::vector<Option> options);

  const google::protobuf::Descriptor* message() const { return message_; }
  // Null when nothing was declared of the field.
  const Option* Find(absl::string_view name) const;

  // Fills defaults in, in the order of the declaration; adds what is wrong to `problems`, at most
  // one problem an option. `path`: that of `options`.
  void Normalize(google::protobuf::Message& options, const std::string& path,
                 SpecProblems& problems) const;

  // Fills defaults in, and checks nothing.
  void FillDefaults(google::protobuf::Message& options) const;

  // Adds, to normalized options, the defaults that the normal form leaves out.
  void FillImplied(google::protobuf::Message& options) const;

  // Replaces, in normalized options, defaults by those of the first version.
  void NameFirstDefaults(google::protobuf::Message& options) const;

  // Why `name` cannot be 0, where it cannot: "is 0; it must lie between 1 and 100"; else empty. A
  // plain number of a message that was set to 0 is no other than one that was not set at all, so
  // whoever reads what was written has to ask.
  std::string ProblemOfZero(absl::string_view name) const;

  const std::vector<Option>& options() const { return options_; }

  // That every required option is there and may be what it is, of options that need not be
  // normalized: a worker does not trust what it is told. Errors: SPEC_INVALID.
  absl::Status CheckRequired(const google::protobuf::Message& options,
                             absl::string_view path) const;

 private:
  const google::protobuf::Descriptor* message_;
  std::vector<Option> options_;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_STAGES_DECLARATION_OPTION_TABLE_H_
