#include "server/arena/worker_error.h"

#include <string>

#include "server/arena/note.h"
#include "server/base/error.h"
#include "server/base/record_name.h"
#include "server/base/utf8.h"

namespace bulkhead {

namespace {

// Messages may quote user code and data, but protobuf strings must be UTF-8.
std::string AsText(std::string text) {
  for (size_t at = FirstByteThatIsNoText(text); at != absl::string_view::npos;
       at = FirstByteThatIsNoText(text)) {
    text[at] = '?';
  }
  return text;
}

void MakePrintable(internal::v1::WorkerError& error) {
  *error.mutable_message() = PrintableLines(error.message());
  // An honest worker always says what was wrong.
  if (error.message().empty()) error.set_message("the worker reported an error without a text");
}

}  // namespace

internal::v1::WorkerError ToWorkerError(const absl::Status& status) {
  internal::v1::WorkerError error;
  error.set_code(static_cast<int>(status.code()));
  error.set_message(AsText(std::string(status.message())));
  if (const auto info = GetErrorInfo(status)) {
    error.set_reason(info->reason);
    for (const auto& [key, value] : info->metadata) {
      (*error.mutable_metadata())[AsText(key)] = AsText(value);
    }
  }
  return error;
}

absl::Status StatusFromWorkerError(const internal::v1::WorkerError& error) {
  auto code = static_cast<absl::StatusCode>(error.code());
  if (code == absl::StatusCode::kOk) code = absl::StatusCode::kInternal;
  if (error.code() < 0 || error.code() > 16) code = absl::StatusCode::kUnknown;
  return MakeError(code, error.reason().empty() ? reason::kInternal : error.reason(),
                   error.message(), {error.metadata().begin(), error.metadata().end()});
}

void MakePrintable(internal::v1::FromWorker& message) {
  using Message = internal::v1::FromWorker;
  switch (message.message_case()) {
    case Message::kBound:
      for (v1::SandboxPart& part : *message.mutable_bound()->mutable_sandbox()) {
        *part.mutable_reason() = PrintableLines(part.reason());
      }
      break;
    case Message::kLeaseDone:
      for (auto& substitution : *message.mutable_lease_done()->mutable_substitutions()) {
        MakePrintable(*substitution.mutable_error());
      }
      break;
    case Message::kLeaseFailed:
      MakePrintable(*message.mutable_lease_failed()->mutable_error());
      break;
    case Message::kNote:
      *message.mutable_note() = CheckedNote(message.note());
      break;
    case Message::kFailed:
      MakePrintable(*message.mutable_failed()->mutable_error());
      break;
    default:
      break;  // has no text for people
  }
}

}  // namespace bulkhead
